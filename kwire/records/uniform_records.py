"""Finds runs of records that have the same size and the same bytes around their values, so that a
reader unpacks many records at once.

A controller writes the partitions of a topic one after the other, and their records differ in few
bytes. A run is found by comparing columns of bytes: no Python runs per record. All other records
are decoded one by one.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

from kwire.errors import DecodeError
from kwire.records.decode import RECORD_BYTES_MIN, SAFE_BASE, read_records, read_some
from kwire.records.offset_deltas import TWO_BYTES, are_consecutive, same_width, width_of
from kwire.records.record import Record

#: Leading bytes of a value that are the same in all records of a run: the frame of a metadata
#: record (``MetadataRecordSerde``).
FRAME_BYTES: Final = 3
#: Records that are compared at once, and those that are looked at ahead, or decoded one by one
#: where no run begins.
_WINDOW, _AHEAD = 128, 8
_NULL_KEY: Final = 1


class UniformRecords(NamedTuple):
    """``length`` records of ``size`` bytes each, from ``start`` in ``data`` on, at offsets from
    ``offset`` on: without key and headers, at ``timestamp`` (ms).
    """

    data: bytes
    start: int
    size: int
    length: int
    offset: int
    timestamp: int
    value_at: int  #: position of the value in its record

    @property
    def frame(self) -> bytes:
        """The first ``FRAME_BYTES`` of each value."""
        at = self.start + self.value_at
        return self.data[at : at + FRAME_BYTES]

    @property
    def value_size(self) -> int:
        """Bytes of each value."""
        return self.size - self.value_at - 1  # without the number of headers

    @property
    def next_offset(self) -> int:
        """The offset after the last record."""
        return self.offset + self.length

    def unpack(self, layout: str) -> Iterator[tuple[Any, ...]]:
        """Unpack the value of each record. ``layout`` is that of its beginning, in the format of
        :mod:`struct`; the rest of the value is the last field.
        """
        rows = memoryview(self.data)[self.start : self.start + self.length * self.size]
        return _layout(self.value_at, layout, self.size).iter_unpack(rows)

    def records(self) -> Iterator[Record]:
        """The records one by one."""
        offset = self.offset
        for (value,) in self.unpack(""):
            yield Record(offset=offset, timestamp=self.timestamp, value=value)
            offset += 1


@lru_cache(1024)
def _layout(value_at: int, layout: str, size: int) -> struct.Struct:
    before = f">{value_at}x{layout}"
    rest = size - struct.calcsize(before) - 1  # without the number of headers
    return struct.Struct(f"{before}{rest}sx")


#: A part of a batch.
RecordChunk = Record | UniformRecords


def records_of(chunks: Iterable[RecordChunk]) -> Iterator[Record]:
    """The records of ``chunks``, one by one."""
    for chunk in chunks:
        if isinstance(chunk, UniformRecords):
            yield from chunk.records()
        else:
            yield chunk


def read_chunks(
    d: bytes, count: int, base_offset: int, base_timestamp: int, budget: int
) -> list[RecordChunk]:
    """The ``count`` records that fill ``d``, in order, runs of them as one chunk each.

    Arguments and errors are those of :func:`kwire.records.decode.read_records`.
    """
    chunks: list[RecordChunk] = []
    if (
        count * RECORD_BYTES_MIN <= len(d)
        and count <= budget
        and base_timestamp in SAFE_BASE
        and base_offset in SAFE_BASE
    ):
        with contextlib.suppress(DecodeError, IndexError):
            if _read(d, count, base_offset, base_timestamp, budget - count, chunks) == len(d):
                return chunks
    # Here every error gets the number of its record.
    return list(read_records(d, count, base_offset, base_timestamp, budget))


def _read(
    d: bytes, count: int, base: int, base_time: int, budget: int, chunks: list[RecordChunk]
) -> int:
    """Append the chunks of ``count`` records, and return the position after them. Raises as
    :func:`kwire.records.decode.read_some`.
    """
    at = done = 0
    while done < count:
        run = _run_at(d, at, done, count - done, base, base_time)
        if run is not None:
            chunks.append(run)
            at, done = at + run.length * run.size, done + run.length
            continue
        records: list[Record] = []
        at = read_some(d, min(_AHEAD, count - done), base, base_time, budget, records.append, at)
        budget -= sum(len(record.headers) for record in records)
        done += len(records)
        chunks += records
    return at


def _run_at(
    d: bytes, at: int, number: int, left: int, base_offset: int, base_timestamp: int
) -> UniformRecords | None:
    """Return the run that begins with the record ``number`` of the batch, at position ``at`` in
    ``d``; None if that record and those behind it differ. Raises IndexError.
    """
    if left < _AHEAD or number >= TWO_BYTES:
        return None
    length, p = _length(d, at)
    # A record with a timestamp of its own is decoded alone.
    if length & 1 or d[p + 1]:
        return None
    size = (length >> 1) + p - at
    ahead = at + (_AHEAD - 1) * size
    if d[ahead : ahead + p + 2 - at] != d[at : p + 2]:
        return None
    key = p + 2 + width_of(number)
    length, value = _length(d, key + 1)
    end = at + size
    if d[key] != _NULL_KEY or length & 1 or value + (length >> 1) + 1 != end or d[end - 1]:
        return None
    if length >> 1 < FRAME_BYTES:
        return None
    same = (*range(at, p + 2), *range(key, value + FRAME_BYTES), end - 1)
    most = min(left, same_width(number), (len(d) - at) // size)
    count = _alike(d, size, same, p + 2, number, most)
    if count < _AHEAD:
        return None
    return UniformRecords(d, at, size, count, base_offset + number, base_timestamp, value - at)


def _alike(
    d: bytes, size: int, same: tuple[int, ...], delta_at: int, number: int, most: int
) -> int:
    """Return how many records from the first on have its bytes at ``same``, and offset deltas from
    ``number`` on.
    """
    count = 0
    while count < most:
        window = good = min(_WINDOW, most - count)
        shift = count * size
        for at in same:
            column = d[at + shift : at + shift + window * size : size]
            good = min(good, window - len(column.lstrip(d[at : at + 1])))
        if not are_consecutive(d, delta_at + shift, size, number + count, good):
            return count
        count += good
        if good < window:
            return count
    return count


def _length(d: bytes, p: int) -> tuple[int, int]:
    """Twice the length that has one or two bytes at ``p``, and the position after it; an odd number
    for one that is negative or longer. Raises IndexError.
    """
    n = d[p]
    if n > 127:
        n += (d[p + 1] << 7) - 128
        p += 1
        if n > 16383:
            return -1, p + 1
    return n, p + 1
