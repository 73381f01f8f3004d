"""The history of a run as values that the checker judges: requests, responses, reads, faults. Times
are of one clock, in seconds.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field


class Outcome(enum.Enum):
    """The outcome of an append, as its response tells."""

    ACKNOWLEDGED = "acknowledged"
    #: Refused before anything was done: it must never be seen.
    FAILED = "failed"
    #: No response, or one that leaves the outcome open: it may be seen, once.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One append. ``id`` is in the record that it makes; ``answered`` is None for one that never
    was.
    """

    id: int
    sent: float
    outcome: Outcome = Outcome.UNKNOWN
    answered: float | None = None
    node: int = -1
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SeenBatch:
    """A batch as a node gave it. ``digest`` stands for all its bytes, ``ids`` are the appends in it
    with their offsets.

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
    """Committed batches as ``node`` gave them in one reading, in its order. ``final``: the whole
    log, after healing.
    """

    node: int
    batches: Sequence[SeenBatch]
    final: bool = False


@dataclass(frozen=True, slots=True)
class Leadership:
    """An observation that ``leader`` leads ``epoch``.

    ``asked``: when the question was sent, where the leader itself answered, as the leader: that is
    a read, and must not be stale. None where another node says so. ``high_watermark`` as the
    leader told it, None where it does not know it yet.
    """

    said_by: str
    epoch: int
    leader: int
    asked: float | None = None
    high_watermark: int | None = None


@dataclass(slots=True)
class History:
    """Everything of one run. ``nodes``: those whose whole log must have been read in the end."""

    nodes: Sequence[int]
    attempts: list[Attempt] = field(default_factory=list)
    reads: list[LogRead] = field(default_factory=list)
    leaders: list[Leadership] = field(default_factory=list)
