"""Counts crash tests of voters, and describes a crash and the restart after it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

from gateway.log.metadata.stored_facts import Election
from tests.gateway.log.crash_disk import State
from tests.gateway.log.voter_life import Promise


@dataclass
class Counts:
    """``states``: legal ones, each checked; ``recovered``: those unlike all before; ``nested``:
    from crashes in recovery.
    """

    lives: int = 0
    operations: int = 0
    states: int = 0
    recovered: int = 0
    nested: int = 0

    def add(self, other: Counts) -> None:
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


class Instant(NamedTuple):
    """``number``: of the operation in the life. ``killed``: the process only; else the machine."""

    number: int
    state: State
    promise: Promise
    killed: bool


class Outcome(NamedTuple):
    """The result of a restart. The log's batches, as ``digest``, go from ``first`` to ``end``."""

    election: Election
    start: int
    first: int
    end: int
    digest: int
    high_watermark: int


class Crashed(AssertionError):
    """A state was not recovered as promised."""
