"""Keeps the changes that the timeline shows, in offset order, up to a number of bytes.

Changes are added at the end. Whole blocks of them are compressed, and the oldest blocks go when
there are too many. The counts are those of all changes that were ever added, so that they are those
of the cluster's state.
"""

from __future__ import annotations

import bisect
import zlib
from array import array
from collections import Counter
from typing import Final, NamedTuple

from gateway.base.sizes import MIB
from gateway.page.tables import Tables
from gateway.page.timeline_rows import (
    ABSENT,
    FENCED,
    broker_state,
    is_leaderless,
    is_under_replicated,
    line_of,
    row_of,
)
from gateway.views.encode import ViewEncoder
from gateway.views.fold import DELETED, UPDATED, Change

#: Changes of a block.
BLOCK_CHANGES: Final = 1000
#: Bytes that are kept at most, about: some two million changes.
BYTES_MAX: Final = 256 * MIB
#: The fastest level: JSON of changes shrinks to a tenth.
_LEVEL: Final = 1
_BLOCK_BYTES: Final = 500


class Block(NamedTuple):
    """Changes by their view offsets: rows, and compressed lines in full; both end in line ends."""

    offsets: array[int]
    rows: bytes
    lines: bytes

    @property
    def size(self) -> int:
        """Bytes of memory, about."""
        return _BLOCK_BYTES + 8 * len(self.offsets) + len(self.rows) + len(self.lines)


class Rows(NamedTuple):
    """Rows of one response: JSON texts, the offset of the last one, and whether more follow."""

    texts: list[bytes]
    last: int
    more: bool


class ChangeIndex:
    """Changes since ``start``, an offset of the view topics: earlier ones are no longer kept."""

    def __init__(self, encoder: ViewEncoder, bytes_max: int = BYTES_MAX) -> None:
        self.start = 0
        #: The offset of the last change, -1 before the first one.
        self.last = -1
        #: Entities by kind, and ``fenced``, ``leaderless``, ``under_replicated``.
        self.counts: Counter[str] = Counter()
        self.tables = Tables()
        self._encoder = encoder
        self._bytes_max = bytes_max
        self._blocks: list[Block] = []
        self._size = 0
        self._tail_offsets: array[int] = array("q")
        self._tail_rows: list[bytes] = []
        self._tail_lines: list[bytes] = []

    def add(self, change: Change) -> None:
        """Keep a change behind all others."""
        self._count(change)
        self.tables.add(change)
        self._tail_offsets.append(change.offset)
        self._tail_rows.append(row_of(change))
        self._tail_lines.append(line_of(change, self._encoder))
        self.last = change.offset
        if len(self._tail_offsets) == BLOCK_CHANGES:
            self._seal()

    def rows(self, after: int, rows_max: int) -> Rows:
        """Return the rows behind offset ``after``: ``rows_max``, or all of the block that has the
        first one.
        """
        texts, last = list[bytes](), after
        at = bisect.bisect_right(self._blocks, after, key=_last)
        for block in self._blocks[at:]:
            if texts and len(texts) + len(block.offsets) > rows_max:
                return Rows(texts, last, True)
            begin = bisect.bisect_right(block.offsets, after)
            texts += block.rows.split(b"\n")[begin : len(block.offsets)]
            last = block.offsets[-1]
        begin = bisect.bisect_right(self._tail_offsets, after)
        if begin == len(self._tail_offsets):
            return Rows(texts, last, False)
        if texts and len(texts) + len(self._tail_offsets) - begin > rows_max:
            return Rows(texts, last, True)
        return Rows(texts + self._tail_rows[begin:], self.last, False)

    def line(self, offset: int) -> bytes | None:
        """Return the change at ``offset`` in full; None if there is none."""
        at = bisect.bisect_left(self._blocks, offset, key=_last)
        if at < len(self._blocks):
            block = self._blocks[at]
            number = _position(block.offsets, offset)
            return None if number is None else zlib.decompress(block.lines).split(b"\n")[number]
        number = _position(self._tail_offsets, offset)
        return None if number is None else self._tail_lines[number]

    def blocks(self) -> list[Block]:
        """Return all changes as blocks; nothing is added after that."""
        if self._tail_offsets:
            self._seal()
        return self._blocks

    def _count(self, change: Change) -> None:
        counts, before, after = self.counts, change.before, change.after
        if change.op != UPDATED:
            counts[change.kind.kind] += -1 if change.op == DELETED else 1
        if change.kind.kind == "partition":
            counts["leaderless"] += is_leaderless(after) - is_leaderless(before)
            counts["under_replicated"] += is_under_replicated(after) - is_under_replicated(before)
        elif change.kind.kind == "broker":
            was, now = broker_state(before), broker_state(after)
            assert (was, now) != (ABSENT, ABSENT)
            counts["fenced"] += (now == FENCED) - (was == FENCED)

    def _seal(self) -> None:
        rows, lines = (
            b"".join(one + b"\n" for one in texts) for texts in (self._tail_rows, self._tail_lines)
        )
        self._blocks.append(Block(self._tail_offsets, rows, zlib.compress(lines, _LEVEL)))
        self._size += self._blocks[-1].size
        self._tail_offsets, self._tail_rows, self._tail_lines = array("q"), [], []
        while self._size > self._bytes_max and len(self._blocks) > 1:
            gone = self._blocks.pop(0)
            self._size -= gone.size
            self.start = gone.offsets[-1] + 1


def _last(block: Block) -> int:
    return block.offsets[-1]


def _position(offsets: array[int], offset: int) -> int | None:
    at = bisect.bisect_left(offsets, offset)
    return at if at < len(offsets) and offsets[at] == offset else None
