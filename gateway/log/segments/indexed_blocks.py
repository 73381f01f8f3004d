"""Finds batches in one file by offset, position or timestamp, with one small read for each lookup.

The entries are *blocks* (see ``batch_index``, which fills them and checks every batch). A lookup
reads a block's headers again, so it never returns a batch that is no longer in the file. Follows
``OffsetIndex.lookup`` and ``FileRecords.searchForOffsetFromPosition``.
"""

from __future__ import annotations

import bisect
import struct
from array import array
from collections.abc import Iterator
from typing import Final, NamedTuple

from kwire.metadata_log.open_file import OpenFile
from kwire.records.header import BATCH_OVERHEAD, LOG_OVERHEAD

#: Bytes of batch starts that one entry covers (the default of ``index.interval.bytes``).
BLOCK_BYTES: Final = 4096
_SLOT: Final = struct.Struct(">qi11xi8xq")  # base offset, length, last offset delta, max timestamp
_SPAN: Final = struct.Struct(">qi11xi")  # base offset, length, last offset delta
_LENGTH: Final = struct.Struct(">8xi")


class Slot(NamedTuple):
    """One batch: its position, size and offsets as in the file."""

    position: int
    size: int
    offset: int
    next_offset: int
    max_timestamp: int


class IndexedBlocks:
    """The blocks of one file. Offsets are those in the file."""

    __slots__ = ("block_max", "epochs", "file", "offsets", "positions", "running_max")

    def __init__(self, file: OpenFile) -> None:
        self.file = file
        # Arrays of machine integers: a list of Python integers takes about eight times as much.
        self.offsets = array("q")  #: first offset of each block
        self.positions = array("Q")  #: its position
        self.block_max = array("q")  #: its largest timestamp
        self.running_max = array("q")  #: the largest timestamp up to its end
        self.epochs: list[tuple[int, int]] = []  #: (epoch, first indexed offset of it)

    def epoch_at(self, offset: int) -> int:
        """Return the epoch of the batch that holds ``offset``; -1 below the first."""
        at = bisect.bisect_right(self.epochs, offset, key=lambda entry: entry[1])
        return self.epochs[at - 1][0] if at else -1

    def slots(self, block: int, end: int) -> list[Slot]:
        """Return the batches of one block that end at or before ``end``, with one read of at most 4
        KiB and a header.

        Shorter, possibly empty, where the file no longer holds what was indexed. Raises OSError.
        """
        return [Slot._make(row) for row in self.walk(block, end)]

    def walk(self, block: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
        """Yield the rows of :meth:`slots` as plain tuples."""
        start, data, left = self._block(block, end)
        position, last = 0, len(data) - BATCH_OVERHEAD
        while position <= last and position < left:
            offset, length, delta, max_timestamp = _SLOT.unpack_from(data, position)
            size = LOG_OVERHEAD + length
            # The file was truncated or rewritten since: the rows before are still right.
            if size < BATCH_OVERHEAD or position + size > left:
                break
            yield start + position, size, offset, offset + delta + 1, max_timestamp
            position += size

    def slot_of(self, offset: int, block: int, end: int) -> Slot | None:
        """Return the batch of a block that holds ``offset``; None if none does. Fetch calls it for
        every request. Raises OSError.
        """
        start, data, left = self._block(block, end)
        span, position, last = _SPAN.unpack_from, 0, len(data) - BATCH_OVERHEAD
        while position <= last:
            first, length, delta = span(data, position)
            behind = position + LOG_OVERHEAD + length
            if length < BATCH_OVERHEAD - LOG_OVERHEAD or behind > left:
                break
            if first + delta >= offset:
                return Slot(
                    start + position,
                    behind - position,
                    first,
                    first + delta + 1,
                    _SLOT.unpack_from(data, position)[3],
                )
            position = behind
        return None

    def boundary(self, limit: int, block: int, end: int) -> int:
        """Return the end of the last batch of a block that ends at or before position ``limit``;
        else the block's start. Raises OSError.
        """
        start, data, left = self._block(block, end)
        length_at, position, last, most = (
            _LENGTH.unpack_from,
            0,
            len(data) - BATCH_OVERHEAD,
            min(left, limit - start),
        )
        while position <= last:
            (length,) = length_at(data, position)
            behind = position + LOG_OVERHEAD + length
            if length < BATCH_OVERHEAD - LOG_OVERHEAD or behind > most:
                break
            position = behind
        return start + position

    def _block(self, block: int, end: int) -> tuple[int, bytes, int]:
        """Return where a block starts, the bytes with the headers of its batches, and its size up
        to ``end``.
        """
        start = self.positions[block]
        stop = min(self.positions[block + 1], end) if block + 1 < len(self.positions) else end
        return (
            start,
            # All batches of a block begin within its first 4 KiB; the last header may end behind
            # that.
            self.file.read(start, min(stop - start, BLOCK_BYTES + BATCH_OVERHEAD)),
            stop - start,
        )
