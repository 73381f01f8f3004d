"""Decides which faults happen. Every decision has a name of its own, so that one can be left out
without changing the rest.

A decision is drawn from a hash of the seed and its name (kind, where, how many before), never from
a stream. Those that were taken are listed; a replay that is told to take only some of them is how a
failing schedule is made smaller.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

_MASK: Final = (1 << 64) - 1
_MIX: Final = 0xD6E8FEB86659FD93

(
    LOSE,
    LOSE_ANSWER,
    RESET,
    TWICE,
    LATE,
    ANSWER_TWICE,
    CRASH,
    SLOW_DISK,
    ACT,
    HANG_UP,
    REMEMBER,
    TORN,
    CORRUPT,
    PART,
) = range(14)
NAMES: Final = (
    "a request is lost", "an answer is lost", "a connection is reset after the request", "a request comes twice",
    "a message is late", "an answer comes twice", "a process is killed between two effects", "the disk is slow",
    "act", "a peer hangs up", "the high watermark is written down", "a write is torn",
    "a bit is flipped on the way", "the disk takes part of the work",
)  # fmt: skip


class Fault(NamedTuple):
    """A decision that was taken: its kind, the two places it is about (-1: none), and its number
    among those.
    """

    kind: int
    a: int
    b: int
    n: int

    def __str__(self) -> str:
        return f"{NAMES[self.kind]} ({self.a}, {self.b}, {self.n})"


class Chance:
    """The dice of one schedule. ``only``: the faults that may happen, None for all."""

    def __init__(self, seed: int, only: Collection[Fault] | None = None) -> None:
        self.seed = seed
        self.calm = False  #: nothing happens any more
        self.taken: list[Fault] = []
        self._only = None if only is None else frozenset(only)
        self._counts: dict[tuple[int, int, int], int] = {}

    def number(self, kind: int, a: int, b: int, n: int, salt: int = 0) -> float:
        """A number of [0, 1) that belongs to these names alone. The hash of integers is the same in
        every process.
        """
        x = hash((self.seed, kind, a, b, n, salt)) & _MASK
        x = (x ^ (x >> 32)) * _MIX & _MASK
        x = (x ^ (x >> 29)) * _MIX & _MASK
        return ((x ^ (x >> 32)) >> 11) / 9007199254740992.0

    def happens(self, kind: int, a: int, b: int, probability: float) -> bool:
        """Does the next fault of this kind happen here?"""
        if self.calm or probability <= 0.0:
            return False
        place = (kind, a, b)
        n = self._counts.get(place, 0)
        self._counts[place] = n + 1
        return self.number(kind, a, b, n) < probability and self._take(Fault(kind, a, b, n))

    def acts(self, n: int) -> bool:
        """May the ``n``-th act of the schedule be done?"""
        return self._take(Fault(ACT, -1, -1, n))

    def _take(self, fault: Fault) -> bool:
        if self._only is not None and fault not in self._only:
            return False
        self.taken.append(fault)
        return True
