"""Finds batches in one file, a segment or a snapshot, by offset, position or timestamp.

A sparse index in memory gives a place at or before the batch that is looked for, and the headers in
the file lead from there to it, so that a look-up never gives a batch that is no longer in the file.
The index is the writer's own (``segment_index``), or that of a file that another process wrote
(``batch_index``). It checks no CRC and decodes no record. Follows
``FileRecords.searchForOffsetFromPosition``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Protocol

from gateway.base.sizes import KIB
from kwire.metadata_log.open_file import OpenFile
from kwire.records.header import BATCH_OVERHEAD, LOG_OVERHEAD

#: Bytes read at once: the headers of the batches that begin within ``index.interval.bytes``
#: (Kafka's default) of each other.
_READ_BYTES: Final = 4 * KIB + BATCH_OVERHEAD
_ROW: Final = struct.Struct(">qi11xi8xq")  # base offset, length, last offset delta, max timestamp
_SPAN: Final = struct.Struct(">qi11xi")  # base offset, length, last offset delta
_LENGTH: Final = struct.Struct(">8xi")
_NO_TIMESTAMP: Final = -1
_LEAST: Final = BATCH_OVERHEAD - LOG_OVERHEAD


class Slot(NamedTuple):
    """One batch: its position, size and offsets as in the file."""

    position: int
    size: int
    offset: int
    next_offset: int
    max_timestamp: int


class SparseIndex(Protocol):
    """The positions of some batches of a file. Readers in other threads may use it while it grows
    at its end; whatever shortens it makes a new one.
    """

    def position_before(self, offset: int) -> int:
        """Return the position of a batch that is not behind the one that holds ``offset``."""

    def position_near(self, offset: int) -> int:
        """As :meth:`position_before`, and nearer where that is known, which is at the end."""

    def position_at(self, position: int) -> int:
        """Return the position of the last known batch that begins at or before ``position``."""

    def position_of_time(self, timestamp: int) -> int:
        """Return the position of a batch that is not behind the first with so large a timestamp."""

    def latest_before(self, position: int) -> int:
        """Return the largest timestamp of the batches before ``position``, which another method
        returned; -1 without any. It may count the batch that begins there, too.
        """


@dataclass(frozen=True, slots=True)
class SegmentSlice:
    """The batches of one file up to a position. ``start_offset`` and ``end_offset`` (exclusive) are
    offsets of the log. Each method raises OSError.
    """

    file: OpenFile
    index: SparseIndex
    shift: int  #: added to an offset in the file gives that in the log; 0 but for a snapshot
    start_offset: int
    end_offset: int
    first_offset: int  #: base offset of the first batch, in the log; may lie below the start
    start: int  #: position of the first batch
    end: int  #: position behind the last batch
    max_timestamp: int

    def slot_of(self, offset: int) -> Slot | None:
        """Return the batch that holds ``offset``; None if the file no longer has it. Fetch calls it
        for every request.
        """
        wanted = offset - self.shift
        position, end = max(self.index.position_near(wanted), self.start), self.end
        span = _SPAN.unpack_from
        while True:
            data = self.file.read(position, min(end - position, _READ_BYTES))
            at, last, left = 0, len(data) - BATCH_OVERHEAD, end - position
            while at <= last:
                first, length, delta = span(data, at)
                behind = at + LOG_OVERHEAD + length
                if length < _LEAST or behind > left:
                    return None
                if first + delta >= wanted:
                    latest = _ROW.unpack_from(data, at)[3]
                    return Slot(position + at, behind - at, first, first + delta + 1, latest)
                at = behind
            if at == 0:
                return None
            position += at

    def boundary(self, limit: int) -> int:
        """Return the end of the last batch that ends at or before position ``limit``; the start
        without one.
        """
        if limit >= self.end:
            return self.end
        if limit <= self.start:
            return self.start
        position, length_at = max(self.index.position_at(limit), self.start), _LENGTH.unpack_from
        while True:
            data = self.file.read(position, min(self.end - position, _READ_BYTES))
            at, last, most = 0, len(data) - BATCH_OVERHEAD, limit - position
            while at <= last:
                (length,) = length_at(data, at)
                behind = at + LOG_OVERHEAD + length
                if length < _LEAST or behind > most:
                    return position + at
                at = behind
            if at == 0:
                return position
            position += at

    def slots(self, position: int = 0) -> Iterator[Slot]:
        """Yield the batches that begin at or behind ``position``; fewer where the file no longer
        holds what was indexed.
        """
        for row in self._rows(max(self.index.position_at(position), self.start)):
            if row[0] >= position:
                yield Slot._make(row)

    def slots_since(self, timestamp: int) -> Iterator[Slot]:
        """Yield the batches with a timestamp of at least ``timestamp`` ms."""
        for row in self._rows(max(self.index.position_of_time(timestamp), self.start)):
            if row[4] >= timestamp:
                yield Slot._make(row)

    def up_to(self, offset: int) -> SegmentSlice | None:
        """Return the batches that end at or before ``offset``; None if there are none."""
        wanted = offset - self.shift
        position = end = max(self.index.position_before(wanted), self.start)
        end_offset = self.start_offset
        latest = self.index.latest_before(position) if position > self.start else _NO_TIMESTAMP
        for start, size, offset, next_offset, timestamp in self._rows(position):
            if next_offset > wanted:
                # The batches before the first row end where it begins.
                end, end_offset = start, offset + self.shift
                break
            end, end_offset, latest = start + size, next_offset + self.shift, max(latest, timestamp)
        if end_offset <= self.start_offset:
            return None
        return replace(
            self, end=end, end_offset=end_offset, max_timestamp=min(latest, self.max_timestamp)
        )

    def _rows(self, position: int) -> Iterator[tuple[int, int, int, int, int]]:
        """Yield the batches from the one that begins at ``position`` on, as plain tuples."""
        unpack = _ROW.unpack_from
        while position < self.end:
            data = self.file.read(position, min(self.end - position, _READ_BYTES))
            at, last, left = 0, len(data) - BATCH_OVERHEAD, self.end - position
            while at <= last:
                offset, length, delta, latest = unpack(data, at)
                size = LOG_OVERHEAD + length
                # The file was truncated or rewritten since: the rows before are still right.
                if length < _LEAST or at + size > left:
                    return
                yield position + at, size, offset, offset + delta + 1, latest
                at += size
            if at == 0:
                return
            position += at
