"""Produced batches that are refused, with Kafka's error; and those that the topic changes."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
from typing import Any

import crc32c
import pytest

from gateway.base.slices import run
from gateway.broker.produce import record_check
from gateway.broker.produce.record_check import check_records
from kwire.errors import DecodeError
from kwire.protocol import ErrorCode
from kwire.records import BATCH_OVERHEAD, Compression, Record, TimestampType, decode_batch
from kwire.records.compression import DECOMPRESSED_BYTES_MAX
from kwire.records.encode import encode_batch
from kwire.varint import read_unsigned_varint
from tests.gateway.broker.produce.batches import NOW_MS, check, produced, refusal


def with_crc(data: bytearray) -> bytearray:
    """The batch with the CRC of its bytes."""
    struct.pack_into(">I", data, 17, crc32c.crc32c(bytes(data[21:])))
    return data


def patched(data: bytearray, at: int, layout: str, value: int) -> bytearray:
    struct.pack_into(f">{layout}", data, at, value)
    return with_crc(data)


@pytest.mark.parametrize("compression", list(Compression))
def test_batch_of_a_producer_is_kept_byte_for_byte(compression: Compression) -> None:
    data = produced(b"a", None, b"c" * 300, compression=compression)
    batch = check(data)
    assert batch.data == data and batch.header.record_count == 3
    assert batch.log_append_time == -1


def test_large_batches_are_looked_at_in_slices_and_in_threads() -> None:
    values = [b"v" * 100] * 5000
    for compression in (Compression.NONE, Compression.LZ4):
        data = produced(*values, compression=compression)
        assert check(data, max_message_bytes=1 << 20).data == data


def test_every_truncation_and_every_changed_byte_has_an_error_of_kafka() -> None:
    data = produced(b"one", b"two", key=b"k")
    for end in range(len(data)):
        assert refusal(data[:end]).error in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)
    for at in range(len(data)):
        if 12 <= at < 16:  # the leader epoch, which the CRC does not cover and the log sets
            continue
        changed = data.copy()
        changed[at] ^= 0x55
        assert refusal(changed).error in (
            ErrorCode.CORRUPT_MESSAGE,
            ErrorCode.INVALID_RECORD,
            ErrorCode.MESSAGE_TOO_LARGE,
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        )


def test_every_changed_byte_of_the_records_with_a_right_crc_is_decoded_or_refused() -> None:
    """A consumer can read every batch that is let through."""
    records = [
        Record(offset=n, timestamp=NOW_MS + n, key=b"k", value=b"v" * n, headers=[("h", b"x")])
        for n in range(3)
    ]
    data = bytearray(encode_batch(records))
    for at in range(BATCH_OVERHEAD, len(data)):
        for bits in (0x01, 0x02, 0x80, 0xFF):
            changed = data.copy()
            changed[at] ^= bits
            try:
                run(check_records(bytes(changed[BATCH_OVERHEAD:]), 3))
            except DecodeError:
                continue
            try:
                read = decode_batch(with_crc(changed)).records
            except DecodeError as error:  # which Kafka lets through as well
                assert "UTF-8" in error.reason
            else:
                assert [record.offset for record in read] == [0, 1, 2]


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (produced(b"a") + produced(b"b"), ErrorCode.INVALID_RECORD),
        (patched(produced(b"a"), 0, "q", 7), ErrorCode.INVALID_RECORD),
        (patched(produced(b"a"), 16, "b", 1), ErrorCode.INVALID_RECORD),
        (patched(produced(b"a"), 16, "b", 3), ErrorCode.CORRUPT_MESSAGE),
        (patched(produced(b"a"), 23, "i", 1), ErrorCode.INVALID_RECORD),
        (patched(produced(b"a"), 23, "i", -1), ErrorCode.INVALID_RECORD),
        (patched(produced(b"a"), 57, "i", 0), ErrorCode.INVALID_RECORD),
        (produced(b"a", is_control=True), ErrorCode.INVALID_RECORD),
        (produced(b"a", producer_id=5, producer_epoch=0), ErrorCode.INVALID_RECORD),
        (
            produced(b"a", timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp=NOW_MS),
            ErrorCode.INVALID_TIMESTAMP,
        ),
    ],
)
def test_wrong_batch_is_refused(data: Any, error: ErrorCode) -> None:
    assert refusal(data).error is error


def test_count_of_another_number_of_records_is_refused() -> None:
    data = produced(b"a", b"b")
    struct.pack_into(">i", data, 23, 2)
    assert refusal(patched(data, 57, "i", 3)).error is ErrorCode.INVALID_RECORD
    struct.pack_into(">i", data, 23, 0)
    assert refusal(patched(data, 57, "i", 1)).error is ErrorCode.INVALID_RECORD


def test_zstd_before_version_7_is_refused() -> None:
    data = produced(b"a", compression=Compression.ZSTD)
    assert refusal(data, 6).error is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert check(data, 7).data == data


def test_batch_above_the_limit_of_the_topic_is_too_large() -> None:
    data = produced(b"a" * 100)
    assert check(data, max_message_bytes=len(data)).data == data
    assert refusal(data, max_message_bytes=len(data) - 1).error is ErrorCode.MESSAGE_TOO_LARGE


def test_batch_that_decompresses_to_too_much_is_too_large() -> None:
    data = produced(bytes(40 << 20), compression=Compression.ZSTD)
    assert refusal(data).error is ErrorCode.MESSAGE_TOO_LARGE


def test_record_without_a_key_is_refused_by_a_compacted_topic() -> None:
    assert check(produced(b"a", key=b"k"), compacted=True).header.record_count == 1
    refused = refusal(produced(b"a"), compacted=True)
    assert refused.error is ErrorCode.INVALID_RECORD and [n for n, _ in refused.records] == [0]


def test_timestamps_out_of_range_are_named_one_by_one() -> None:
    records = [Record(offset=n, timestamp=NOW_MS + n * 1000, value=b"v") for n in range(5)]
    data = bytearray(encode_batch(records))
    assert check(data, timestamp_after_max_ms=4000).data == data
    refused = refusal(data, timestamp_after_max_ms=2500)
    assert refused.error is ErrorCode.INVALID_TIMESTAMP
    assert [number for number, _ in refused.records] == [3, 4]
    refused = refusal(data, timestamp_before_max_ms=-1500)
    assert [number for number, _ in refused.records] == [0, 1]


def test_record_without_a_timestamp_is_never_out_of_range() -> None:
    data = bytearray(encode_batch([Record(offset=0, timestamp=-1, value=b"v")]))
    assert check(data, timestamp_before_max_ms=1000).data == data


def test_log_append_time_replaces_the_timestamps_of_the_batch() -> None:
    batch = check(produced(b"a", b"b"), now_ms=NOW_MS + 5, timestamp_type=TimestampType(1))
    assert batch.log_append_time == NOW_MS + 5
    read = decode_batch(batch.data)  # with the right CRC
    assert {record.timestamp for record in read.records} == {NOW_MS + 5}


def test_max_timestamp_of_a_batch_becomes_that_of_its_records() -> None:
    batch = check(produced(b"a", max_timestamp=NOW_MS + 999))
    assert batch.header.max_timestamp == NOW_MS
    assert decode_batch(batch.data).header.max_timestamp == NOW_MS


@pytest.mark.parametrize("sent", list(Compression))
@pytest.mark.parametrize("kept", list(Compression))
def test_compression_of_the_topic_replaces_that_of_the_batch(
    sent: Compression, kept: Compression
) -> None:
    data = produced(b"a" * 1000, b"b", compression=sent)
    batch = check(data, compression=kept)
    read = decode_batch(batch.data)
    assert read.header.compression is kept and read.header.size == len(batch.data)
    assert [record.value for record in read.records] == [b"a" * 1000, b"b"]
    if sent is kept:
        assert batch.data == data


def test_record_whose_sizes_take_one_or_two_bytes_is_looked_at_without_a_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[int] = []

    def counted(data: bytes, position: int) -> tuple[int, int]:
        calls.append(position)
        return read_unsigned_varint(data, position)

    monkeypatch.setattr(record_check, "read_unsigned_varint", counted)
    data = produced(*[bytes(200)] * 200, key=bytes(60))
    assert run(check_records(data, 200, BATCH_OVERHEAD)).keyless == -1
    assert calls == []
    data = produced(bytes(8192))
    run(check_records(data, 1, BATCH_OVERHEAD))
    assert len(calls) == 2, "the lengths of record and value take three bytes"


@pytest.mark.parametrize("is_too_large", [True, False])
def test_refusal_of_a_compressed_batch_does_not_keep_its_records(is_too_large: bool) -> None:
    payload = bytes(DECOMPRESSED_BYTES_MAX + is_too_large)
    data = bytearray(produced(b"v")[:BATCH_OVERHEAD] + gzip.compress(payload))
    struct.pack_into(">i", data, 8, len(data) - 12)
    sealed = patched(data, 21, "h", Compression.GZIP)
    tracemalloc.start()
    refused = refusal(sealed)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert refused.error is (
        ErrorCode.MESSAGE_TOO_LARGE if is_too_large else ErrorCode.INVALID_RECORD
    )
    assert held < 1 << 20
