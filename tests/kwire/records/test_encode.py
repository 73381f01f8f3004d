"""Batches written: read back equal, byte for byte as kafka-python's independent writer, refused
where Kafka's builder refuses.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder

from kwire.errors import EncodeError
from kwire.records import (
    Compression,
    Record,
    RecordBatch,
    TimestampType,
    decode_batch,
    decode_batches,
    encode_batch,
    read_header,
)
from tests.shared import mistyped

TIMESTAMPS = st.one_of(
    st.just(-1), st.integers(0, 2**62), st.integers(1_700_000_000_000, 1_700_000_100_000)
)
DATA = st.one_of(
    st.none(),
    st.binary(max_size=20),
    st.sampled_from([b"x" * n for n in (63, 64, 4095, 4096, 8191, 8192, 70_000)]),
)
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    """Records whose offsets rise, from anywhere."""
    offset = draw(st.integers(0, 2**40))
    records = []
    for _ in range(draw(st.integers(1, 6))):
        records.append(
            Record(
                offset=offset,
                timestamp=draw(TIMESTAMPS),
                key=draw(DATA),
                value=draw(DATA),
                headers=tuple(draw(HEADERS)),
            )
        )
        offset += draw(st.integers(1, 10_000))
    return records


@given(
    record_lists(),
    st.sampled_from(Compression),
    st.booleans(),
    st.integers(-1, 2**31 - 1),
    st.integers(-1, 32767),
)
@settings(max_examples=200, deadline=None)
def test_round_trip(
    records: list[Record], codec: Compression, flag: bool, epoch: int, producer_epoch: int
) -> None:
    data = encode_batch(
        records,
        compression=codec,
        partition_leader_epoch=epoch,
        is_transactional=flag,
        is_control=not flag,
        producer_id=epoch,
        producer_epoch=producer_epoch,
        base_sequence=epoch,
    )
    batch = decode_batch(data)
    h = batch.header
    assert batch.records == records
    assert (h.size, h.record_count, h.compression) == (len(data), len(records), codec)
    assert (h.base_offset, h.last_offset) == (records[0].offset, records[-1].offset)
    assert (h.base_timestamp, h.max_timestamp) == (
        records[0].timestamp,
        max(record.timestamp for record in records),
    )
    assert (h.is_transactional, h.is_control) == (flag, not flag)
    assert (h.partition_leader_epoch, h.producer_id, h.producer_epoch, h.base_sequence) == (
        epoch,
        epoch,
        producer_epoch,
        epoch,
    )
    if codec == Compression.NONE:
        assert batch.encode() == data


@given(record_lists())
@settings(max_examples=200, deadline=None)
def test_bytes_are_those_of_an_independent_writer(records: list[Record]) -> None:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=True,
        producer_id=5,
        producer_epoch=1,
        base_sequence=9,
        batch_size=10**9,
    )
    for record in records:
        builder.append(
            record.offset - records[0].offset,
            record.timestamp,
            record.key,
            record.value,
            list(record.headers),
        )
    built = bytearray(builder.build())
    built[0:8] = records[0].offset.to_bytes(8, "big")
    built[12:16] = (3).to_bytes(4, "big")  # kafka-python leaves the leader epoch to the broker
    mine = encode_batch(
        records,
        partition_leader_epoch=3,
        is_transactional=True,
        producer_id=5,
        producer_epoch=1,
        base_sequence=9,
    )
    assert mine == bytes(built)


@given(record_lists(), st.sampled_from(Compression))
@settings(max_examples=100, deadline=None)
def test_aiokafka_reads_encoded_batches(records: list[Record], codec: Compression) -> None:
    batch = MemoryRecords(encode_batch(records, compression=codec)).next_batch()
    assert batch is not None
    assert batch.validate_crc()
    seen = [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch]
    assert seen == [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in records]


def test_fields_that_the_records_do_not_give() -> None:
    record = Record(offset=12, timestamp=500, value=b"v")
    batch = decode_batch(
        encode_batch(
            [record], base_offset=10, last_offset=19, base_timestamp=490, max_timestamp=700
        )
    )
    assert batch.records == [record]
    h = batch.header
    assert (h.base_offset, h.last_offset, h.base_timestamp, h.max_timestamp) == (10, 19, 490, 700)


def test_log_append_time_survives_being_written_again() -> None:
    data = encode_batch(
        [Record(offset=0, timestamp=500), Record(offset=1, timestamp=600)],
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        max_timestamp=555,
    )
    assert [record.timestamp for record in decode_batch(data).records] == [555, 555]
    assert decode_batch(data, raw_timestamps=True).encode() == data


def test_the_empty_batch_that_compaction_leaves() -> None:
    data = encode_batch(
        [], base_offset=100, last_offset=109, producer_id=7, producer_epoch=1, base_sequence=5
    )
    batch = decode_batch(data)
    assert (len(data), batch.records, batch.header.next_offset, batch.header.last_sequence) == (
        61,
        [],
        110,
        14,
    )
    assert batch.encode() == data
    for missing in ({"base_offset": 1}, {"last_offset": 1}):
        with pytest.raises(EncodeError, match="without records"):
            encode_batch([], **missing)  # type: ignore[arg-type]


def test_records_may_come_from_an_iterator_and_be_other_buffers() -> None:
    data = encode_batch(Record(offset=i, timestamp=1, value=memoryview(b"abc")) for i in range(3))  # type: ignore[arg-type]
    assert [record.value for record in decode_batch(data).records] == [b"abc"] * 3


def test_batches_follow_one_another() -> None:
    data = b"".join(encode_batch([Record(offset=n, timestamp=n)]) for n in range(5))
    batches = list(decode_batches(data))
    assert [batch.records[0].offset for batch in batches] == [0, 1, 2, 3, 4]
    assert [batch.header.position for batch in batches] == [header * 68 for header in range(5)]


@pytest.mark.parametrize(
    ("record", "path", "reason"),
    [
        (Record(offset=4), "records[1]", "does not rise"),
        (Record(offset=3), "records[1]", "does not rise"),
        (Record(offset=5, timestamp=-2), "records[1]", "-2"),
        (Record(offset=4 + 2**31), "records[1]", "32 bits"),
        (Record(offset=5, timestamp=2**64), "records[1]", "64 bits"),
        (Record(offset=5, value=mistyped("text")), "records[1]", "str"),
        (Record(offset=5, key=mistyped(5)), "records[1]", "int"),
        (Record(offset=5, headers=[mistyped(("k", "v"))]), "records[1]", "str"),
        (Record(offset=5, headers=[("\ud800", b"")]), "records[1]", "UTF-8"),
        (Record(offset=5, headers=[mistyped((b"k", b"v"))]), "records[1]", "encode"),
    ],
)
def test_invalid_record_is_refused_with_its_path(record: Any, path: str, reason: str) -> None:
    with pytest.raises(EncodeError, match=reason) as caught:
        encode_batch([Record(offset=4, timestamp=5), record])
    assert caught.value.path == path


@pytest.mark.parametrize(
    "fields",
    [
        {"producer_id": 2**63},
        {"producer_epoch": 32768},
        {"base_sequence": -(2**31) - 1},
        {"partition_leader_epoch": 2**31},
        {"last_offset": 2**40},
        {"max_timestamp": 2**63},
        {"base_offset": -(2**63) - 1},
        {"base_timestamp": -2},
        {"compression": Compression.GZIP, "level": 99},
        {"compression": Compression.SNAPPY, "level": 1},
        {"compression": Compression.ZSTD, "level": 10**6},
    ],
)
def test_fields_that_do_not_fit(fields: dict[str, Any]) -> None:
    with pytest.raises(EncodeError):
        encode_batch([Record(offset=4, timestamp=5)], **fields)


def test_levels_are_those_of_the_codec() -> None:
    records = [Record(offset=i, timestamp=1, value=b"%d" % (i * i) * 50) for i in range(200)]
    for codec, low, high in (
        (Compression.GZIP, 1, 9),
        (Compression.ZSTD, 1, 19),
        (Compression.LZ4, 0, 12),
    ):
        small, large = (
            len(encode_batch(records, compression=codec, level=level)) for level in (high, low)
        )
        assert small < large
        assert decode_batch(encode_batch(records, compression=codec, level=high)).records == records


def test_a_changed_header_is_written() -> None:
    batch = decode_batch(encode_batch([Record(offset=1, timestamp=2, value=b"x")]))
    moved = RecordBatch(batch.header._replace(partition_leader_epoch=8), batch.records)
    assert read_header(moved.encode()).partition_leader_epoch == 8
    assert replace(batch, records=[*batch.records]) == batch
