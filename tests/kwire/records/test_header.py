"""Finding batches in a buffer by their headers alone."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Any

import pytest

from kwire.errors import DecodeError
from kwire.records import (
    BATCH_OVERHEAD,
    Compression,
    Record,
    TimestampType,
    encode_batch,
    iter_batches,
    read_header,
    verify_crc,
)


def batch(first: int = 0, count: int = 3, **fields: Any) -> bytes:
    records = [
        Record(offset=first + i, timestamp=1_700_000_000_000 + i, value=b"v%d" % i)
        for i in range(count)
    ]
    return encode_batch(records, **fields)


THREE = (
    batch(10)
    + batch(13, 1, partition_leader_epoch=4)
    + batch(14, 5, producer_id=7, producer_epoch=1, base_sequence=2**31 - 2)
)


def test_every_field() -> None:
    first, second, third = iter_batches(THREE)
    assert (first.base_offset, first.last_offset, first.next_offset, first.record_count) == (
        10,
        12,
        13,
        3,
    )
    assert (first.position, first.end, first.size) == (0, second.position, second.position)
    assert (first.base_timestamp, first.max_timestamp) == (1_700_000_000_000, 1_700_000_000_002)
    assert (first.partition_leader_epoch, second.partition_leader_epoch) == (-1, 4)
    assert (first.magic, first.attributes, first.compression) == (2, 0, Compression.NONE)
    assert (first.timestamp_type, first.is_control, first.is_transactional) == (
        TimestampType.CREATE_TIME,
        False,
        False,
    )
    assert (first.producer_id, first.producer_epoch, first.base_sequence, first.last_sequence) == (
        -1,
        -1,
        -1,
        -1,
    )
    assert first.delete_horizon_ms is None
    assert (third.producer_id, third.producer_epoch, third.base_sequence) == (7, 1, 2**31 - 2)
    assert [third.sequence_of(offset) for offset in range(14, 19)] == [
        2**31 - 2,
        2**31 - 1,
        0,
        1,
        2,
    ]
    assert third.last_sequence == 2
    assert third.end == len(THREE)


def test_attribute_bits() -> None:
    record = [Record(timestamp=5, value=b"")]
    header = read_header(
        encode_batch(
            record,
            timestamp_type=TimestampType.LOG_APPEND_TIME,
            max_timestamp=9,
            is_transactional=True,
            is_control=True,
            delete_horizon=True,
            base_timestamp=4,
        )
    )
    assert header.attributes == 0x78
    assert (header.timestamp_type, header.is_transactional, header.is_control) == (
        TimestampType.LOG_APPEND_TIME,
        True,
        True,
    )
    assert (header.delete_horizon_ms, header.max_timestamp) == (4, 9)


@pytest.mark.parametrize("kind", ["bytes", "bytearray", "memoryview", "mmap"])
def test_any_buffer(kind: str, tmp_path: Path) -> None:
    if kind == "mmap":
        (tmp_path / "log").write_bytes(THREE)
        with (
            (tmp_path / "log").open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        ):
            assert list(iter_batches(mapped, check_crc=True)) == list(iter_batches(THREE))
        return
    data = {"bytes": bytes, "bytearray": bytearray, "memoryview": memoryview}[kind](THREE)
    assert list(iter_batches(data, check_crc=True)) == list(iter_batches(THREE))


def test_a_cut_at_every_length_leaves_the_last_batch_unread() -> None:
    ends = [header.end for header in iter_batches(THREE)]
    for cut in range(len(THREE)):
        whole = [end for end in ends if end <= cut]
        assert [header.end for header in iter_batches(THREE[:cut])] == whole
        assert [header.end for header in iter_batches(THREE, end=cut)] == whole
    assert [header.position for header in iter_batches(THREE, ends[0])] == ends[:2]


def test_headers_do_not_need_the_records() -> None:
    assert read_header(THREE[:BATCH_OVERHEAD]).record_count == 3
    with pytest.raises(DecodeError) as caught:
        read_header(THREE[: BATCH_OVERHEAD - 1])
    assert caught.value.rule == "truncated"


@pytest.mark.parametrize(
    ("length", "rule"),
    [
        (-1, "batch-length"),
        (-(2**31), "batch-length"),
        (0, "batch-length"),
        (13, "batch-length"),
        (48, "batch-length"),
    ],
)
def test_lengths_below_a_header(length: int, rule: str) -> None:
    data = THREE + bytearray(batch(19))[:8] + struct.pack(">i", length) + batch(19)[12:]
    seen = []
    with pytest.raises(DecodeError) as caught:
        seen += [header.base_offset for header in iter_batches(data)]
    assert (caught.value.rule, caught.value.offset, caught.value.path) == (
        rule,
        len(THREE),
        "BatchLength",
    )


def test_a_length_past_the_end_is_a_batch_that_is_still_being_written() -> None:
    data = bytearray(THREE)
    data[8:12] = struct.pack(">i", 2**31 - 1)
    assert list(iter_batches(data)) == []


@pytest.mark.parametrize("magic", [0, 1, 3, 127, 255])
def test_other_formats(magic: int) -> None:
    data = bytearray(THREE)
    data[16] = magic
    for read in (lambda: list(iter_batches(data)), lambda: [read_header(data)]):
        with pytest.raises(DecodeError) as caught:
            read()  # type: ignore[no-untyped-call]
        assert (caught.value.rule, caught.value.path) == ("batch-magic", "Magic")


def test_every_flipped_bit_under_the_crc_is_found() -> None:
    data = batch(3, 1)
    for at in range(17, len(data)):
        for bit in range(8):
            bad = bytearray(data)
            bad[at] ^= 1 << bit
            with pytest.raises(DecodeError) as caught:
                list(iter_batches(bad, check_crc=True))
            assert caught.value.rule == "crc"


def test_offset_and_epoch_may_be_stamped_after_the_crc() -> None:
    data = bytearray(batch())
    data[0:8] = (77).to_bytes(8, "big")
    data[12:16] = (9).to_bytes(4, "big")
    header = read_header(data)
    verify_crc(data, header)
    assert (header.base_offset, header.partition_leader_epoch, header.last_offset) == (77, 9, 79)


@pytest.mark.parametrize("number", [5, 6, 7])
def test_unknown_compression_type_is_refused(number: int) -> None:
    data = bytearray(batch())
    data[22] = number
    with pytest.raises(DecodeError) as caught:
        _ = read_header(data).compression
    assert caught.value.rule == "compression-type"
