"""Messages of formats 0 and 1, as written by aiokafka's independent builder and as a hostile peer
would bend them.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.errors import DecodeError
from kwire.records import (
    Compression,
    Record,
    RecordBatch,
    TimestampType,
    compress,
    decode_batch,
    decode_batches,
    encode_batch,
)
from tests.kwire.records.raw import raw_batch, raw_record

DATA = st.none() | st.binary(max_size=30)


def message(
    key: bytes | None = None,
    value: bytes | None = b"v",
    *,
    magic: int = 1,
    offset: int = 0,
    timestamp: int = 5,
    attributes: int = 0,
) -> bytes:
    """One message with a right checksum."""
    stamp = struct.pack(">q", timestamp) if magic else b""
    return framed(
        struct.pack(">bb", magic, attributes) + stamp + _sized(key) + _sized(value), offset
    )


def framed(body: bytes, offset: int = 0, crc: int | None = None) -> bytes:
    """Offset, length and CRC in front of ``body``."""
    return (
        struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body) if crc is None else crc) + body
    )


def wrapper(
    inner: bytes,
    codec: Compression = Compression.GZIP,
    *,
    magic: int = 1,
    offset: int = 1,
    timestamp: int = 5,
    bits: int = 0,
) -> bytes:
    """A compressed message around ``inner``."""
    return message(
        value=compress(codec, inner),
        magic=magic,
        offset=offset,
        timestamp=timestamp,
        attributes=codec | bits,
    )


def _sized(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def refused(data: bytes, **limits: Any) -> str:
    with pytest.raises(DecodeError) as caught:
        list(decode_batches(data, **limits))
    return caught.value.rule


@given(
    st.integers(0, 1), st.sampled_from([Compression.NONE, Compression.GZIP, Compression.SNAPPY]),
    st.lists(st.tuples(st.integers(0, 2**62), DATA, DATA), min_size=1, max_size=5),
)  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_batches_of_an_independent_writer_are_read(
    magic: int, codec: Compression, rows: list[tuple[int, bytes | None, bytes | None]]
) -> None:
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=10**9)
    for offset, (timestamp, key, value) in enumerate(rows):
        builder.append(offset, timestamp=timestamp, key=key, value=value)
    records = [record for batch in decode_batches(builder.build()) for record in batch.records]
    assert records == [
        Record(offset=offset, timestamp=timestamp if magic else -1, key=key, value=value)
        for offset, (timestamp, key, value) in enumerate(rows)
    ]


def test_each_plain_message_is_a_batch() -> None:
    data = message(b"k", offset=7) + message(None, None, offset=9, timestamp=6)
    first, second = decode_batches(data)
    assert first.records == [Record(offset=7, timestamp=5, key=b"k", value=b"v")]
    assert second.records == [Record(offset=9, timestamp=6)]
    assert (second.header.position, second.header.end) == (first.header.end, len(data))
    assert (
        first.header.timestamp_type,
        first.header.partition_leader_epoch,
        first.header.producer_id,
    ) == (
        TimestampType.CREATE_TIME,
        -1,
        -1,
    )
    assert not (
        first.header.is_control or first.header.is_transactional or first.header.delete_horizon_ms
    )


def test_formats_may_follow_one_another() -> None:
    data = (
        message(magic=0, offset=1)
        + message(offset=2)
        + encode_batch([Record(offset=3)])
        + message(offset=4)
    )
    batches: list[RecordBatch] = list(decode_batches(data))
    assert [(batch.header.magic, batch.header.base_offset) for batch in batches] == [
        (0, 1),
        (1, 2),
        (2, 3),
        (1, 4),
    ]


def test_inner_offsets_of_format_1_count_up_to_the_wrappers() -> None:
    inner = b"".join(message(offset=n) for n in range(3))
    assert [r.offset for r in decode_batch(wrapper(inner, offset=102)).records] == [100, 101, 102]
    assert [r.offset for r in decode_batch(wrapper(inner, offset=0)).records] == [0, 1, 2]
    assert refused(wrapper(inner, offset=1)) == "wrapper-offset"


def test_inner_offsets_that_leave_64_bits() -> None:
    inner = message(offset=2**62) + message(offset=-(2**63) + 9)
    assert refused(wrapper(inner, offset=9)) == "int64-overflow"


def test_inner_offsets_of_format_0_are_absolute() -> None:
    inner = message(magic=0, offset=40) + message(magic=0, offset=41)
    batch = decode_batch(wrapper(inner, magic=0, offset=41))
    assert [(r.offset, r.timestamp) for r in batch.records] == [(40, -1), (41, -1)]
    assert batch.header.timestamp_type == TimestampType.NO_TIMESTAMP


def test_log_append_time_of_the_wrapper() -> None:
    inner = message(offset=0, timestamp=5) + message(offset=1, timestamp=6)
    assert [r.timestamp for r in decode_batch(wrapper(inner, timestamp=99, bits=8)).records] == [
        99,
        99,
    ]
    assert [r.timestamp for r in decode_batch(wrapper(inner, timestamp=99)).records] == [5, 6]


@pytest.mark.parametrize("magic", [0, 1])
def test_cut_at_every_length(magic: int) -> None:
    data = message(b"key", b"value", magic=magic)
    for cut in range(len(data)):
        assert list(decode_batches(data[:cut])) == []
    for cut in range(16, len(data)):
        body = data[16:cut]
        if 4 + len(body) < 14:
            assert refused(framed(body)) == "batch-length"
        else:
            assert refused(framed(body)) == "truncated"


def test_every_flipped_bit_is_found() -> None:
    data = message(b"key", b"value")
    for at in range(17, len(data)):
        bad = bytearray(data)
        bad[at] ^= 0x10
        assert refused(bytes(bad)) == "crc"


@pytest.mark.parametrize(
    ("inner", "rule"),
    [
        (b"", "inner-empty"),
        (message()[:-1], "inner-truncated"),
        (message(offset=0) + message(offset=1)[:5], "inner-truncated"),
        (message(magic=0), "inner-magic"),
        (raw_batch(raw_record(), 1), "inner-magic"),
        (wrapper(message()), "inner-compressed"),
        (wrapper(wrapper(wrapper(message()))), "inner-compressed"),
        (framed(message()[16:], crc=1), "crc"),
        (struct.pack(">qi", 0, -5) + message()[12:], "batch-length"),
        (struct.pack(">qi", 0, 2**31 - 1) + message()[12:], "inner-truncated"),
    ],
)
def test_invalid_inner_messages_are_refused(inner: bytes, rule: str) -> None:
    assert refused(wrapper(inner)) == rule


def test_wrappers_that_hold_nothing_readable() -> None:
    assert refused(message(value=None, attributes=Compression.GZIP)) == "null"
    assert refused(message(value=b"not gzip", attributes=Compression.GZIP)) == "compressed-data"
    assert refused(message(attributes=Compression.ZSTD)) == "compression-type"
    assert refused(message(attributes=5)) == "compression-type"


def test_limits_of_a_wrapper() -> None:
    inner = b"".join(message(offset=n) for n in range(50))
    assert len(decode_batch(wrapper(inner, offset=49), budget=50, limit=len(inner)).records) == 50
    assert refused(wrapper(inner, offset=49), budget=49) == "element-budget"
    assert refused(wrapper(inner, offset=49), limit=len(inner) - 1) == "decompressed-size"


@given(st.data())
@settings(max_examples=300)
def test_any_damage_is_read_or_refused(data: st.DataObject) -> None:
    body = bytearray(
        (message(b"key", b"value", offset=1) if data.draw(st.booleans()) else wrapper(message()))[
            16:
        ]
    )
    for at in data.draw(st.lists(st.integers(0, len(body) - 1), max_size=3)):
        body[at] = data.draw(st.integers(0, 255))
    try:
        list(decode_batches(framed(bytes(body))))
    except DecodeError as error:
        assert error.rule
