"""Defines the history of a run as values for the checker: requests, responses, reads, faults. All
times are seconds of one clock.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field


class Outcome(enum.Enum):
    """The outcome of an append, according to its response."""

    ACKNOWLEDGED = "acknowledged"
    #: Refused before anything was done: it must never be seen.
    FAILED = "failed"
    #: No response, or one that leaves the outcome open: it may be seen, once.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One append. ``id`` is in the record that it makes; ``answered`` is None for an append without
    a response.
    """

    id: int
    sent: float
    outcome: Outcome = Outcome.UNKNOWN
    answered: float | None = None
    node: int = -1
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SeenBatch:
    """A batch as a node returned it. ``digest`` is a hash of all its bytes, ``ids`` are the appends
    in it with their offsets.

    ``leader`` is the id in its LEADER_CHANGE record, None without one.
    """

    base_offset: int
    last_offset: int
    epoch: int
    digest: int
    ids: tuple[tuple[int, int], ...] = ()
    leader: int | None = None


@dataclass(frozen=True, slots=True)
class LogRead:
    """Committed batches as ``node`` returned them in one reading, in that order. ``final``: the
    whole log, after healing.
    """

    node: int
    batches: Sequence[SeenBatch]
    final: bool = False


@dataclass(frozen=True, slots=True)
class Leadership:
    """An observation that ``leader`` leads ``epoch``.

    ``asked``: when the request was sent to the leader itself, whose response must not be stale;
    None if another node named the leader. ``high_watermark``: the leader's, None if it does not
    know it yet.
    """

    said_by: str
    epoch: int
    leader: int
    asked: float | None = None
    high_watermark: int | None = None


@dataclass(slots=True)
class History:
    """Everything of one run. ``nodes``: the nodes whose whole logs are read at the end."""

    nodes: Sequence[int]
    attempts: list[Attempt] = field(default_factory=list)
    reads: list[LogRead] = field(default_factory=list)
    leaders: list[Leadership] = field(default_factory=list)
