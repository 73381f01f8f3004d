"""Reads whole batches of any format: header, checksum, decompression, records. ``encode`` writes
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

from kwire.errors import DecodeError
from kwire.records.compression import DECOMPRESSED_BYTES_MAX, decompress
from kwire.records.decode import read_records, read_slices
from kwire.records.encode import encode_batch
from kwire.records.header import (
    BATCH_OVERHEAD,
    BatchHeader,
    Buffer,
    batch_size,
    read_header,
    verify_crc,
)
from kwire.records.legacy import read_message
from kwire.records.record import Compression, Record, TimestampType
from kwire.records.uniform_records import RecordChunk, read_chunks

_T = TypeVar("_T")

#: Most records and record headers of one batch where the caller names no number: more than any
#: batch of Kafka's default sizes.
BATCH_ELEMENTS_MAX: Final = 1_000_000


@dataclass(slots=True)
class RecordBatch:
    """A batch with its records decoded. ``encode`` returns the same bytes, unless the batch was
    compressed.
    """

    header: BatchHeader
    records: list[Record]

    def encode(self, level: int | None = None) -> bytes:
        """Return the batch in format 2 with this header's fields. Length, CRC and count are
        computed.

        Of a log-append batch, records decoded with ``raw_timestamps`` are needed to give the same
        bytes. Raises EncodeError.
        """
        h = self.header
        return encode_batch(
            self.records,
            base_offset=h.base_offset,
            last_offset=h.last_offset,
            partition_leader_epoch=h.partition_leader_epoch,
            compression=h.compression,
            level=level,
            timestamp_type=h.timestamp_type,
            base_timestamp=h.base_timestamp,
            max_timestamp=h.max_timestamp,
            is_transactional=h.is_transactional,
            is_control=h.is_control,
            delete_horizon=h.delete_horizon_ms is not None,
            producer_id=h.producer_id,
            producer_epoch=h.producer_epoch,
            base_sequence=h.base_sequence,
        )


def decode_batch(
    data: Buffer,
    position: int = 0,
    *,
    limit: int = DECOMPRESSED_BYTES_MAX,
    budget: int = BATCH_ELEMENTS_MAX,
    raw_timestamps: bool = False,
) -> RecordBatch:
    """Decode the batch of any format at ``position``, which must be whole; later bytes are ignored.

    ``limit`` bounds the bytes that it decompresses to, ``budget`` its records and record headers in
    all. Every record of a log-append batch shows the time of the append; ``raw_timestamps`` shows
    what its producer wrote (ms). Raises DecodeError.
    """
    size = batch_size(data, position, len(data))
    if not size:
        raise DecodeError("the batch is not whole", offset=position, rule="truncated")
    return _decode(data, position, size, limit, budget, raw_timestamps)


def decode_batches(
    data: Buffer,
    start: int = 0,
    end: int | None = None,
    *,
    limit: int = DECOMPRESSED_BYTES_MAX,
    budget: int = BATCH_ELEMENTS_MAX,
    raw_timestamps: bool = False,
) -> Iterator[RecordBatch]:
    """Every whole batch of any format in ``data[start:end]``, in order, one at a time; a batch cut
    off at the end is left unread.

    ``limit`` and ``budget`` are for each batch. Arguments and errors as for :func:`decode_batch`.
    """
    stop = len(data) if end is None else min(end, len(data))
    while size := batch_size(data, start, stop):
        yield _decode(data, start, size, limit, budget, raw_timestamps)
        start += size


def decode_records(
    data: Buffer,
    header: BatchHeader,
    *,
    limit: int = DECOMPRESSED_BYTES_MAX,
    budget: int = BATCH_ELEMENTS_MAX,
    raw_timestamps: bool = False,
) -> list[Record]:
    """The records of the batch of format 2 that ``header`` was read from; the checksum is left to
    :func:`verify_crc`.

    Arguments and errors as for :func:`decode_batch`.
    """
    records = _section(data, header, limit, budget, read_records)
    if header.timestamp_type == TimestampType.LOG_APPEND_TIME and not raw_timestamps:
        for record in records:
            record.timestamp = header.max_timestamp
    return records


def decode_chunks(
    data: Buffer, position: int = 0, *, crc_checked: bool = False
) -> tuple[BatchHeader, list[RecordChunk]]:
    """The header and the records of the batch of format 2 at ``position``, which must be whole, in
    runs where they have any (:mod:`kwire.records.uniform_records`). The CRC is checked, unless
    ``crc_checked``: the caller has done so.

    Timestamps are those that the producer wrote. Bounds and errors are those of
    :func:`decode_batch`.
    """
    header = read_header(data, position)
    if header.size > len(data) - position:
        raise DecodeError("the batch is not whole", offset=position, rule="truncated")
    if not crc_checked:
        verify_crc(data, header)
    return header, _section(data, header, DECOMPRESSED_BYTES_MAX, BATCH_ELEMENTS_MAX, read_chunks)


def decode_slices(data: Buffer, position: int = 0, *, size: int) -> Iterator[list[Record]]:
    """The records of the batch of format 2 at ``position``, which must be whole, in lists of up to
    ``size``: so no more of them are in memory at once. The CRC is checked first.

    Bounds and errors are those of :func:`decode_batch`; an error in a record is raised after the
    records before it.
    """
    header = read_header(data, position)
    if header.size > len(data) - position:
        raise DecodeError("the batch is not whole", offset=position, rule="truncated")
    verify_crc(data, header)
    for payload in _section(data, header, DECOMPRESSED_BYTES_MAX, BATCH_ELEMENTS_MAX, _unread):
        try:
            for records in read_slices(
                payload,
                header.record_count,
                header.base_offset,
                header.base_timestamp,
                BATCH_ELEMENTS_MAX,
                size,
            ):
                if header.timestamp_type == TimestampType.LOG_APPEND_TIME:
                    for record in records:
                        record.timestamp = header.max_timestamp
                yield records
        except DecodeError as error:
            raise _placed(error, header, -1) from None


def _unread(payload: bytes, *_: int) -> list[bytes]:
    return [payload]


def _section(
    data: Buffer,
    header: BatchHeader,
    limit: int,
    budget: int,
    read: Callable[[bytes, int, int, int, int], list[_T]],
) -> list[_T]:
    """Decompress the records section, and return the result of ``read`` for it. Raises
    DecodeError.
    """
    with memoryview(data) as view:
        payload = bytes(view[header.position + BATCH_OVERHEAD : header.end])
    codec = header.compression
    if header.record_count <= 0:
        if header.record_count < 0:
            raise DecodeError(
                f"{header.record_count} records",
                path="RecordsCount",
                offset=header.position,
                rule="record-count",
            )
        if payload:
            raise DecodeError(
                f"{len(payload)} bytes in a batch of no records",
                path="RecordsCount",
                offset=header.position,
                rule="empty-batch-bytes",
            )
        return []
    base = header.position + BATCH_OVERHEAD
    try:
        if codec != Compression.NONE:
            payload = decompress(codec, payload, limit)
            base = -1
        return read(payload, header.record_count, header.base_offset, header.base_timestamp, budget)
    except DecodeError as error:
        raise _placed(error, header, base) from None


def _decode(
    data: Buffer, position: int, size: int, limit: int, budget: int, raw_timestamps: bool
) -> RecordBatch:
    if data[position + 16] != 2:
        return RecordBatch(*read_message(data, position, size, limit=limit, budget=budget))
    header = read_header(data, position)
    verify_crc(data, header)
    return RecordBatch(
        header,
        decode_records(data, header, limit=limit, budget=budget, raw_timestamps=raw_timestamps),
    )


def _placed(error: DecodeError, header: BatchHeader, base: int) -> DecodeError:
    """The error with its place in the caller's buffer: of a compressed batch only where the batch
    begins.
    """
    offset = header.position if base < 0 or error.offset < 0 else base + error.offset
    return DecodeError(
        f"{error.reason}, in the batch at offset {header.base_offset}",
        path=error.path,
        offset=offset,
        rule=error.rule,
    )
