"""Finds the offset at which two copies of a metadata log part.

It compares batches by base offset, epoch and CRC: replicas store a leader's batches byte for byte.
It does not say which of the copies is right.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass

from gateway.rescue.copies import Copy, Marks


@dataclass(frozen=True, slots=True)
class Comparison:
    """``batches``: how many both copies have. ``parts_at``: the first offset that differs, None if
    one copy continues the other as far as both reach.
    """

    batches: int
    parts_at: int | None = None


def compare(one: Copy, other: Copy) -> Comparison:
    """Compare the batches that lie in both copies."""
    a, b = one.marks, other.marks
    if not a or not b:
        return Comparison(0)
    start = max(a.offsets[0], b.offsets[0])
    i, j = bisect.bisect_left(a.offsets, start), bisect.bisect_left(b.offsets, start)
    count = min(len(a) - i, len(b) - j)
    same = _same(a, i, b, j, count)
    if same == count:
        return Comparison(count)
    return Comparison(same, min(a.offsets[i + same], b.offsets[j + same]))


def _same(a: Marks, i: int, b: Marks, j: int, count: int) -> int:
    """Return how many of the next ``count`` batches are equal."""
    # Whole arrays first: nearly all copies of a cluster agree, and C compares them.
    if _slices(a, i, count) == _slices(b, j, count):
        return count
    return next(
        at
        for at in range(count)
        if (a.offsets[i + at], a.epochs[i + at], a.crcs[i + at])
        != (b.offsets[j + at], b.epochs[j + at], b.crcs[j + at])
    )


def _slices(marks: Marks, start: int, count: int) -> tuple[object, ...]:
    end = start + count
    return marks.offsets[start:end], marks.epochs[start:end], marks.crcs[start:end]
