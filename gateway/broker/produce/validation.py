"""Decides whether a produced batch may be appended, and with which attributes (``LogValidator``,
``ProduceRequest.validateRecords``, ``UnifiedLog.analyzeAndValidateRecords``).

It changes the batch where the topic's configuration asks for that: the timestamps of a topic with
``LogAppendTime``, the compression of one with a ``compression.type`` of its own. Offsets and leader
epoch are the log's, as are the sequences of producers (``producer_state``). Differences from Kafka:
an offset delta that is not the record's place is refused in an uncompressed batch, too, and a batch
that decompresses to more than ``DECOMPRESSED_BYTES_MAX`` is too large.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import crc32c

from gateway.base.slices import run
from gateway.broker.produce.record_check import RecordsSeen, check_records
from gateway.broker.produce.refusal import BatchRefused
from kwire.errors import DecodeError
from kwire.protocol import ErrorCode
from kwire.records.batch import decode_records
from kwire.records.compression import DECOMPRESSED_BYTES_MAX, compress, decompress
from kwire.records.header import (
    BATCH_OVERHEAD,
    CRC_START,
    LOG_OVERHEAD,
    BatchHeader,
    batch_size,
    read_header,
    verify_crc,
)
from kwire.records.record import TIMESTAMP_TYPE_BIT, Compression, TimestampType

if TYPE_CHECKING:
    from kwire.records.header import Buffer

#: The first version of Produce whose batches may be compressed with zstd (KIP-110).
_ZSTD_SINCE: Final = 7
_NO_TIMESTAMP: Final = -1
#: A batch that is larger is looked at in slices, or in a thread if it is compressed: its records
#: take up to 5 ms.
_AT_ONCE_BYTES: Final = 32 * 1024
#: Bytes that a small compressed batch may decompress to on the event loop.
_INFLATED_AT_ONCE_BYTES: Final = 128 * 1024

_COMPRESSION_BITS: Final = 0x07
_LENGTH_AT, _CRC_AT, _MAX_TIMESTAMP_AT = 8, 17, 35
_INT32, _UINT32, _INT16, _INT64 = map(struct.Struct, (">i", ">I", ">h", ">q"))

#: Work that ends with a value: it yields as ``gateway.ports.work`` says.
Check = Generator["Callable[[], Any] | None", Any, "ProducedBatch"]


class TopicRules(NamedTuple):
    """The configuration of a topic that decides about batches. Times are in ms;
    ``compression`` is None where the producer decides.
    """

    max_message_bytes: int = 1_048_588
    compression: Compression | None = None
    compression_level: int | None = None
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = (1 << 63) - 1
    timestamp_after_max_ms: int = 3_600_000
    compacted: bool = False
    min_insync_replicas: int = 1


class ProducedBatch(NamedTuple):
    """A batch that may be appended; its base offset and leader epoch are still to be written."""

    data: bytearray
    header: BatchHeader
    log_append_time: int  #: ms, -1 where the topic keeps the timestamps of producers


def check_batch(records: Buffer | None, version: int, rules: TopicRules, now_ms: int) -> Check:
    """Check the records of one partition in a request of ``version``; ``now_ms`` is the wall clock.
    Raises BatchRefused.
    """
    header, data = _only_batch(records, version)
    _check_header(header, data, rules)
    compressed = header.compression is not Compression.NONE
    if len(data) <= _AT_ONCE_BYTES:
        try:
            seen = _look(header, data, _INFLATED_AT_ONCE_BYTES)
        except _TooLarge:
            seen = yield partial(_look, header, data, DECOMPRESSED_BYTES_MAX)
    elif compressed:
        seen = yield partial(_look, header, data, DECOMPRESSED_BYTES_MAX)
    else:
        seen = yield from _look_in_slices(header, data)
    _check_records(header, seen, rules)
    if not _is_in_range(header, seen, rules, now_ms):
        yield partial(_check_timestamps, header, data, rules, now_ms)
    if rules.compression not in (None, header.compression):
        data = yield partial(_recompressed, data, header, rules)
    return _produced(data, header, seen, rules, now_ms)


class _TooLarge(BatchRefused):
    """The batch decompresses to more than the limit."""


def _only_batch(records: Buffer | None, version: int) -> tuple[BatchHeader, bytearray]:
    """Return the one batch of a partition, copied. Raises BatchRefused."""
    # As in Kafka: batches of format 2, of which a partition has exactly one, since version 3.
    if not records:
        raise _invalid(
            f"Produce requests with version {version} must have exactly one record batch per "
            "partition"
        )
    try:
        size = batch_size(records, 0, len(records))
        if size and records[16] < 2:
            raise _invalid(
                f"Produce requests with version {version} are only allowed to contain record "
                "batches with magic version 2"
            )
        if not size:
            raise _corrupt("the batch is cut off")
        if size < len(records):
            raise _invalid(
                f"Produce requests with version {version} are only allowed to contain exactly one "
                "record batch per partition"
            )
        header = read_header(records)
        if header.compression is Compression.ZSTD and version < _ZSTD_SINCE:
            raise BatchRefused(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                f"Produce requests with version {version} are not allowed to use ZStandard "
                "compression",
            )
    except DecodeError as error:
        raise _corrupt(error.reason) from None
    return header, bytearray(records)


def _check_header(header: BatchHeader, data: bytearray, rules: TopicRules) -> None:
    if header.base_offset != 0:
        raise _invalid(
            f"The baseOffset of the record batch should be 0, but it is {header.base_offset}"
        )
    if len(data) > rules.max_message_bytes:
        raise BatchRefused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch size is {len(data)} bytes which exceeds the maximum configured "
            f"value of {rules.max_message_bytes}.",
        )
    try:
        verify_crc(data, header)
    except DecodeError as error:
        raise _corrupt(error.reason) from None
    count = header.last_offset_delta + 1
    if count <= 0:
        raise _invalid(
            f"Batch has an invalid offset range: [{header.base_offset}, {header.last_offset}]"
        )
    if header.record_count <= 0:
        raise _invalid(f"Invalid reported count for record batch: {header.record_count}")
    if count != header.record_count:
        raise _invalid(
            f"Inconsistent batch offset range [{header.base_offset}, {header.last_offset}] and "
            f"count of records {header.record_count}"
        )
    if header.is_control:
        raise _invalid("Clients are not allowed to write control records")
    if header.delete_horizon_ms is not None:
        raise _invalid("Clients are not allowed to set the delete horizon of a batch")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise _invalid(
            f"Invalid sequence number {header.base_sequence} in record batch with producerId "
            f"{header.producer_id}"
        )


def _look(header: BatchHeader, data: bytearray, limit: int) -> RecordsSeen:
    """Look at all records of a batch, which may decompress to ``limit`` bytes. Raises BatchRefused,
    _TooLarge.
    """
    if header.compression is Compression.NONE:
        return run(_look_in_slices(header, data))
    payload = b""
    try:
        payload = decompress(header.compression, _payload(data), limit)
        return run(check_records(payload, header.record_count))
    except DecodeError as error:
        refused = _refused(error, limit)
    # Out here, without the records: an error is kept for a while, with all that its traceback has.
    del payload
    raise refused


def _payload(data: bytearray) -> bytes:
    return bytes(memoryview(data)[BATCH_OVERHEAD:])


def _look_in_slices(header: BatchHeader, data: bytearray) -> Generator[None, None, RecordsSeen]:
    """Look at the records of a batch that is not compressed, where they are."""
    try:
        return (yield from check_records(data, header.record_count, BATCH_OVERHEAD))
    except DecodeError as error:
        raise _refused(error, 0) from None


def _refused(error: DecodeError, limit: int) -> BatchRefused:
    if error.rule == "decompressed-size":
        return _TooLarge(
            ErrorCode.MESSAGE_TOO_LARGE, f"The record batch decompresses to over {limit} bytes."
        )
    if error.rule.startswith(("compressed", "lz4", "snappy", "zstd", "gzip")):
        return _corrupt(error.reason)
    where = f"record {error.path.strip('[]')}: " if error.path.startswith("[") else ""
    return _invalid(f"Invalid record in the batch: {where}{error.reason}")


def _check_records(header: BatchHeader, seen: RecordsSeen, rules: TopicRules) -> None:
    """Check keys and the timestamp type. Raises BatchRefused."""
    if rules.compacted and seen.keyless >= 0:
        message = "Compacted topic cannot accept message without key."
        raise BatchRefused(ErrorCode.INVALID_RECORD, message, [(seen.keyless, message)])
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        message = "Producer should not set timestamp type to LogAppendTime."
        raise BatchRefused(ErrorCode.INVALID_TIMESTAMP, message, [(0, message)])


def _is_in_range(header: BatchHeader, seen: RecordsSeen, rules: TopicRules, now_ms: int) -> bool:
    """Whether the topic takes every timestamp of the batch, as far as the first and last tell."""
    if rules.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return True
    base = header.base_timestamp
    earliest, latest = _range(rules, now_ms)
    return earliest <= base + seen.earliest_delta and base + seen.latest_delta <= latest


def _range(rules: TopicRules, now_ms: int) -> tuple[int, int]:
    return now_ms - rules.timestamp_before_max_ms, now_ms + rules.timestamp_after_max_ms


def _check_timestamps(header: BatchHeader, data: bytearray, rules: TopicRules, now_ms: int) -> None:
    """Check the timestamp of each record: one without a timestamp is allowed, and the response
    names each other one that is out of range. Raises BatchRefused.
    """
    earliest, latest = _range(rules, now_ms)
    try:
        records = decode_records(data, header, limit=DECOMPRESSED_BYTES_MAX, budget=1 << 31)
    except DecodeError as error:  # the key of a header that is no text, for one
        raise _invalid(f"Invalid record in the batch: {error.reason}") from None
    faults = (
        (
            number,
            f"Timestamp {record.timestamp} of message with offset {number} is out of range. The "
            f"timestamp should be within [{earliest}, {latest}]",
        )
        for number, record in enumerate(records)
        if record.timestamp != _NO_TIMESTAMP and not earliest <= record.timestamp <= latest
    )
    named = list(itertools.islice(faults, _FAULTS_MAX))
    if named:
        raise BatchRefused(ErrorCode.INVALID_TIMESTAMP, named[0][1], named)


#: Faults of records that a response names: a batch may have a million.
_FAULTS_MAX: Final = 100


def _recompressed(data: bytearray, header: BatchHeader, rules: TopicRules) -> bytearray:
    """Return the batch in the compression of its topic; its CRC is still that of the old one."""
    codec = rules.compression
    assert codec is not None
    payload = decompress(header.compression, _payload(data), DECOMPRESSED_BYTES_MAX)
    attributes = header.attributes & ~_COMPRESSION_BITS | codec
    new = data[:BATCH_OVERHEAD] + compress(codec, payload, rules.compression_level)
    _INT32.pack_into(new, _LENGTH_AT, len(new) - LOG_OVERHEAD)
    _INT16.pack_into(new, CRC_START, attributes)
    return new


def _produced(
    data: bytearray, header: BatchHeader, seen: RecordsSeen, rules: TopicRules, now_ms: int
) -> ProducedBatch:
    """Return the batch with the timestamps of its topic, and the CRC of what was changed."""
    is_append_time = rules.timestamp_type is TimestampType.LOG_APPEND_TIME
    if is_append_time:
        (attributes,) = _INT16.unpack_from(data, CRC_START)
        _INT16.pack_into(data, CRC_START, attributes | TIMESTAMP_TYPE_BIT)
        max_timestamp = now_ms
    else:
        # Consumers find offsets by it, so it is that of the records, whatever the producer says.
        max_timestamp = header.base_timestamp + seen.latest_delta
    _INT64.pack_into(data, _MAX_TIMESTAMP_AT, max_timestamp)
    is_changed = (
        is_append_time
        or max_timestamp != header.max_timestamp
        or len(data) != header.size
        or rules.compression not in (None, header.compression)
    )
    if is_changed:
        _UINT32.pack_into(data, _CRC_AT, crc32c.crc32c(memoryview(data)[CRC_START:]))
        header = read_header(data)
    return ProducedBatch(data, header, now_ms if is_append_time else _NO_TIMESTAMP)


def _invalid(message: str) -> BatchRefused:
    return BatchRefused(ErrorCode.INVALID_RECORD, message)


def _corrupt(reason: str) -> BatchRefused:
    return BatchRefused(ErrorCode.CORRUPT_MESSAGE, f"Record is corrupt: {reason}")
