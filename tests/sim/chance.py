"""Decides which faults happen.

A decision is drawn from a hash of the seed and of its name (kind, places, how many before), never
from a stream of random numbers. So one fault can be left out without changing the others: a failing
schedule is reduced by replays that allow only some of the faults that were taken.
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
    REFUSED,
) = range(15)
NAMES: Final = (
    "a request is lost",
    "a response is lost",
    "a connection is reset after the request",
    "a request arrives twice",
    "a message is late",
    "a response arrives twice",
    "a process is killed between two effects",
    "the disk is slow",
    "act",
    "a peer closes the connection",
    "the high watermark is stored",
    "a write is torn",
    "a bit is flipped on the way",
    "the disk takes part of the work",
    "a port has no process",
)


class Fault(NamedTuple):
    """A fault that happened: its kind, the two places that it concerns (-1: none), and its number
    among the decisions of that kind and place.
    """

    kind: int
    a: int
    b: int
    n: int

    def __str__(self) -> str:
        return f"{NAMES[self.kind]} ({self.a}, {self.b}, {self.n})"


class Chance:
    """The random decisions of one schedule. ``only``: the faults that may happen, None for all."""

    def __init__(self, seed: int, only: Collection[Fault] | None = None) -> None:
        self.seed = seed
        self.calm = False  #: no more faults happen
        self.taken: list[Fault] = []
        self._only = None if only is None else frozenset(only)
        self._counts: dict[tuple[int, int, int], int] = {}

    def number(self, kind: int, a: int, b: int, n: int, salt: int = 0) -> float:
        """A number of [0, 1) that belongs to these names alone. The hash of a tuple of integers is
        the same in every process.
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
