"""Reads record batches as columns by numpy: each record's offset, time and epoch, and the position
of its value.

A Python loop finds the start of each record; numpy does everything else for all records of many
batches at once. ``kwire.records`` reads the batches that this module cannot, one record at a time,
with its errors. It does not know Spark, nor where the bytes come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kwire.records import (
    BATCH_ELEMENTS_MAX,
    BATCH_OVERHEAD,
    BatchHeader,
    Compression,
    Record,
    TimestampType,
    decode_records,
)
from kwire.spark.values import NULL, Bytes, Numbers, Values

#: Varints of so many bits are read here: lengths of 128 MiB, and times of 37 hours within a batch.
_BITS_MAX: Final = 28
#: Bases this far inside int64 cannot leave it by a delta of so many bits.
_SAFE: Final = range(-(1 << 62), 1 << 62)


@dataclass(frozen=True)
class Columns:
    """Records side by side, in order. Times are ms since the epoch, epochs those of the leaders
    that wrote them.
    """

    offsets: Numbers
    times: Numbers
    epochs: Numbers
    values: Values

    def __len__(self) -> int:
        return len(self.offsets)

    def where(self, good: npt.NDArray[np.bool_]) -> Columns:
        """The records for which ``good`` is true."""
        if good.all():
            return self
        return Columns(
            self.offsets[good],
            self.times[good],
            self.epochs[good],
            self.values.taken(np.flatnonzero(good)),
        )

    def within(self, start: int, stop: int) -> Columns:
        """The records with ``start`` <= offset < ``stop``."""
        return self.where((self.offsets >= start) & (self.offsets < stop))


def columns_of(data: bytes, headers: Iterable[BatchHeader]) -> Iterator[Columns]:
    """The records of the batches in ``data`` that ``headers`` describe, without control batches;
    checksums are not verified.

    Raises DecodeError.
    """
    together: list[BatchHeader] = []
    for header in headers:
        if header.is_control:
            continue
        if _plain(header):
            together.append(header)
        else:
            yield from _columns(data, together)
            together = []
            yield _exact(data, header)
    yield from _columns(data, together)


def _plain(header: BatchHeader) -> bool:
    return (
        header.compression == Compression.NONE
        and 0 < header.record_count <= BATCH_ELEMENTS_MAX
        and header.base_offset in _SAFE
        and header.base_timestamp in _SAFE
    )


def _exact(data: bytes, header: BatchHeader) -> Columns:
    """One batch, record by record."""
    records = decode_records(data, header)
    offsets, times = np.empty((2, len(records)), np.int64)
    for n, record in enumerate(records):
        offsets[n], times[n] = record.offset, record.timestamp
    return Columns(
        offsets, times, np.full(len(records), header.partition_leader_epoch), _values(records)
    )


def _values(records: Sequence[Record]) -> Values:
    values = [record.value for record in records]
    sizes = np.array([NULL if value is None else len(value) for value in values], np.int64)
    ends = np.cumsum(np.maximum(sizes, 0))
    joined = b"".join(value for value in values if value is not None)
    return Values(np.frombuffer(joined, np.uint8), ends - np.maximum(sizes, 0), sizes)


def _columns(data: bytes, headers: Sequence[BatchHeader]) -> Iterator[Columns]:
    if not headers:
        return
    found = _together(data, headers)
    if found is not None:
        yield found
    else:
        yield from (_exact(data, header) for header in headers)


def _together(data: bytes, headers: Sequence[BatchHeader]) -> Columns | None:
    """The records of all ``headers``, None if one of them is not like a metadata record, which has
    no key and no headers.
    """
    bounds: list[int] = []
    for header in headers:
        if not _find(data, header, bounds):
            return None
    begins, ends = np.array(bounds, np.int64).reshape(-1, 2).T
    buffer = np.frombuffer(data, np.uint8)
    at, fit = begins + 1, True  # behind the attributes, of which no bit means anything yet
    fields = []
    for _ in range(4):
        field, at, good = _varints(buffer, at)
        fields.append(field)
        fit = fit and good
    time_deltas, offset_deltas, key_sizes, sizes = fields
    after = at + np.maximum(sizes, 0)
    fit = fit and bool(
        (key_sizes == NULL).all() and (sizes >= NULL).all() and (after + 1 == ends).all()
    )
    if not fit or buffer[after].any():
        return None

    def each(numbers: Iterable[Any]) -> Numbers:
        return np.repeat(
            np.fromiter(numbers, np.int64, len(headers)),
            [header.record_count for header in headers],
        )

    times = each(header.base_timestamp for header in headers) + time_deltas
    appended = [header.timestamp_type == TimestampType.LOG_APPEND_TIME for header in headers]
    if any(appended):
        times = np.where(
            each(appended) == 1, each(header.max_timestamp for header in headers), times
        )
    offsets = each(header.base_offset for header in headers) + offset_deltas
    return Columns(
        offsets,
        times,
        each(header.partition_leader_epoch for header in headers),
        Values(buffer, at, sizes),
    )


def _find(data: bytes, header: BatchHeader, bounds: list[int]) -> bool:
    """Add to ``bounds`` the start of each record, after its length, and its end; return False if
    the records do not fill the batch.
    """
    at, end = header.position + BATCH_OVERHEAD, header.end
    for _ in range(header.record_count):
        if at + 2 > end:
            return False
        size = data[at]
        at += 1
        if size > 127:
            size += (data[at] << 7) - 128
            at += 1
            if size > 16383:
                if at >= end or data[at] > 127:
                    return False
                size += (data[at] << 14) - 16384
                at += 1
        if size & 1:
            return False
        bounds.append(at)
        at += size >> 1
        bounds.append(at)
    return at == end


def _varints(buffer: Bytes, at: Numbers) -> tuple[Numbers, Numbers, bool]:
    """Zigzag varints at the places ``at``: (numbers, places behind them, whether all were short
    enough).
    """
    byte = buffer.take(at, mode="clip")
    number, at = (byte & 127).astype(np.int64), at + 1
    rows, shift = np.flatnonzero(byte > 127), 7
    while len(rows) and shift < _BITS_MAX:
        byte = buffer.take(at[rows], mode="clip")
        number[rows] |= (byte & 127).astype(np.int64) << shift
        at[rows] += 1
        rows, shift = rows[byte > 127], shift + 7
    return number >> 1 ^ -(number & 1), at, not len(rows)
