"""Records of hostile batches: every refusal has its rule and place, and costs no more than the
bytes that came.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.errors import DecodeError
from kwire.records import (
    BatchHeader,
    Record,
    decode_batch,
    decode_batches,
    decode_records,
    encode_batch,
    read_header,
)
from kwire.varint import write_varint
from tests.kwire.records.raw import raw_batch, raw_record, sized
from tests.work import work

GOOD = encode_batch(
    [
        Record(
            offset=5,
            timestamp=1_700_000_000_000,
            key=b"k" * 70,
            value=b"v" * 200,
            headers=[("a", b"1"), ("ü", None)],
        ),
        Record(offset=6, timestamp=1_700_000_000_000, value=b""),
        Record(offset=9_000_000, timestamp=1_600_000_000_000, key=b"", headers=[("", b"")]),
    ]
)


def refused(data: bytes, **limits: Any) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        decode_batch(data, **limits)
    assert caught.value.rule
    return caught.value


def peak_memory(call: Callable[[], object]) -> int:
    """Bytes that Python allocated at most during a call."""
    call()  # what is imported or cached once does not count
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_batch_is_decoded_with_all_fields() -> None:
    batch = decode_batch(GOOD)
    assert [record.offset for record in batch.records] == [5, 6, 9_000_000]
    assert [record.timestamp for record in batch.records] == [
        1_700_000_000_000,
        1_700_000_000_000,
        1_600_000_000_000,
    ]
    assert batch.records[0].headers == (("a", b"1"), ("ü", None))
    assert (batch.records[1].key, batch.records[1].value, batch.records[1].headers) == (
        None,
        b"",
        (),
    )
    assert (batch.records[2].key, batch.records[2].value, batch.records[2].headers) == (
        b"",
        None,
        (("", b""),),
    )
    assert decode_batch(memoryview(GOOD)) == decode_batch(bytearray(GOOD)) == batch
    assert decode_records(b"before" + GOOD, read_header(b"before" + GOOD, 6)) == batch.records


def test_log_append_time_is_shown_on_every_record() -> None:
    data = raw_batch(
        raw_record(timestamp=3) + raw_record(offset=1, timestamp=-2),
        2,
        attributes=8,
        base_timestamp=50,
        max_timestamp=77,
    )
    assert [record.timestamp for record in decode_batch(data).records] == [77, 77]
    assert [record.timestamp for record in decode_batch(data, raw_timestamps=True).records] == [
        53,
        48,
    ]


def test_records_cut_at_every_length_behind_a_right_checksum() -> None:
    payload = GOOD[61:]
    for cut in range(len(payload)):
        assert refused(raw_batch(payload[:cut], 3)).rule in (
            "truncated",
            "record-length",
            "header-count",
        )
    for extra in (b"\0", b"\1", bytes(7), b"\xff"):
        error = refused(raw_batch(payload + extra, 3))
        assert (error.rule, error.offset) == ("trailing-bytes", len(GOOD))


def test_truncated_batch_is_skipped_or_refused_at_every_length() -> None:
    for cut in range(len(GOOD)):
        assert list(decode_batches(GOOD[:cut])) == []
        assert refused(GOOD[:cut]).rule == "truncated"


@pytest.mark.parametrize("count", [-1, -(2**31)])
def test_negative_counts(count: int) -> None:
    assert refused(raw_batch(raw_record(), count)).rule == "record-count"


@pytest.mark.parametrize("count", [0, 2, 3, 2**31 - 1])
def test_counts_that_are_not_the_number_of_records(count: int) -> None:
    error = refused(raw_batch(raw_record(), count), budget=2**31)
    assert error.rule == ("empty-batch-bytes" if count == 0 else "truncated")


def test_lengths_of_records() -> None:
    for length in (-1, -9, 0, 1, 6, 8, 2**31 - 1, -(2**31)):
        error = refused(raw_batch(raw_record(length=length), 1))
        assert (error.rule, error.path) == ("record-length", "records[0]")
    assert refused(raw_batch(raw_record() + raw_record(length=9), 2)).path == "records[1]"


@pytest.mark.parametrize("size", [2**31 - 1, 100_000, 8192, 63])
def test_key_and_value_lengths_past_the_end_allocate_nothing(size: int) -> None:
    for body in (b"\0\0\0" + write_varint(size), b"\0\0\0\1" + write_varint(size)):
        data = raw_batch(write_varint(len(body)) + body, 1)
        assert peak_memory(partial(refused, data)) < 50_000


def test_negative_lengths_of_key_and_value_are_null() -> None:
    for size in (-1, -2, -64, -65, -(2**31)):
        body = b"\0\0\0" + write_varint(size) * 2 + b"\0"
        (record,) = decode_batch(raw_batch(write_varint(len(body)) + body, 1)).records
        assert (record.key, record.value) == (None, None)


@pytest.mark.parametrize(
    ("headers", "rule"),
    [
        (write_varint(-1), "header-count"),
        (write_varint(-(2**31)), "header-count"),
        (write_varint(2**31 - 1), "header-count"),
        (write_varint(60), "header-count"),
        (write_varint(1) + write_varint(-1), "null"),
        (write_varint(1) + write_varint(2**31 - 1), "truncated"),
        (write_varint(1) + sized(b"k") + write_varint(2**31 - 1), "truncated"),
        (write_varint(2) + sized(b"k") + sized(None), "truncated"),
        (write_varint(1) + sized(b"\xff") + sized(b"v"), "bad-utf8"),
        (write_varint(1) + sized(b"\xed\xa0\x80") + sized(b"v"), "bad-utf8"),
    ],
)
def test_wrong_headers_are_refused_with_their_path(headers: bytes, rule: str) -> None:
    error = refused(raw_batch(raw_record(headers=headers), 1))
    assert error.rule == rule
    assert error.path.startswith("records[0].Headers") or error.rule == "truncated"


def test_varints_of_a_record() -> None:
    surplus, six = b"\xff\xff\xff\xff\x1f", b"\x80" * 5 + b"\0"
    long_surplus, eleven = b"\xff" * 9 + b"\x03", b"\x80" * 10 + b"\0"
    for at, varint, rule in (
        (0, surplus, "varint-surplus"), (0, six, "varint-length"),
        (1, long_surplus, "varint-surplus"), (1, eleven, "varint-length"),
        (2, surplus, "varint-surplus"), (2, six, "varint-length"),
        (3, surplus, "varint-surplus"), (4, six, "varint-length"), (5, surplus, "varint-surplus"),
    ):  # fmt: skip
        fields = [b"\x0e\0", b"\0", b"\0", b"\1", b"\1", b"\0"]
        fields[at] = varint + b"\0" if at == 0 else varint
        error = refused(raw_batch(b"".join(fields) + bytes(20), 1))
        assert (error.rule, error.path[:10]) == (rule, "records[0]"), at


def test_padded_varints_are_read() -> None:
    body = (
        b"\0"
        + b"\x82\x80\x00"
        + b"\x80\x00"
        + b"\x82\x80\x80\x00"
        + b"k"
        + b"\x81\x00"
        + b"\x80\x00"
    )
    (record,) = decode_batch(raw_batch(b"\x9e\x80\x00" + body, 1)).records
    assert record == Record(offset=0, timestamp=1, key=b"k")


def test_numbers_stay_within_64_bits() -> None:
    top = 2**63 - 1
    assert decode_batch(raw_batch(raw_record(timestamp=top), 1)).records[0].timestamp == top
    assert decode_batch(raw_batch(raw_record(timestamp=-(2**63)), 1)).records[0].timestamp == -(
        2**63
    )
    assert (
        decode_batch(raw_batch(raw_record(), 1, base_offset=top, base_timestamp=top))
        .records[0]
        .offset
        == top
    )
    for data in (
        raw_batch(raw_record(timestamp=top), 1, base_timestamp=1),
        raw_batch(raw_record(timestamp=1), 1, base_timestamp=top),
        raw_batch(raw_record(offset=1), 1, base_offset=top),
        raw_batch(raw_record(offset=-1), 1, base_offset=-(2**63)),
    ):
        assert refused(data).rule == "int64-overflow"


def test_offsets_and_timestamps_are_believed_as_in_kafka() -> None:
    """Kafka does not hold them against the header: they may repeat, fall, or lie outside it."""
    payload = b"".join(raw_record(offset=offset, timestamp=-offset) for offset in (7, 7, 3, -4))
    records = decode_batch(raw_batch(payload, 4, base_offset=100, base_timestamp=10)).records
    assert [record.offset for record in records] == [107, 107, 103, 96]
    assert [record.timestamp for record in records] == [3, 3, 7, 14]


def test_budget_counts_records_and_headers() -> None:
    headers = write_varint(3) + (sized(b"k") + sized(None)) * 3
    data = raw_batch(raw_record(headers=headers) * 2, 2)
    assert len(decode_batch(data, budget=8).records) == 2
    assert (refused(data, budget=7).path, refused(data, budget=7).rule) == (
        "records[1].Headers",
        "element-budget",
    )
    assert (refused(data, budget=1).path, refused(data, budget=1).rule) == (
        "RecordsCount",
        "element-budget",
    )


def test_a_million_small_records_fit_the_default_and_one_more_does_not() -> None:
    payload = raw_record(value=None) * 1_000_000
    assert len(payload) == 7_000_000
    assert refused(raw_batch(payload + raw_record(value=None), 1_000_001)).rule == "element-budget"
    batch = decode_batch(raw_batch(payload, 1_000_000))
    assert len(batch.records) == 1_000_000


def test_a_claim_of_many_records_costs_nothing() -> None:
    data = raw_batch(raw_record(), 1_000_000)
    assert refused(data).rule == "truncated"
    assert peak_memory(lambda: refused(data)) < 20_000
    assert work(lambda: refused(data)) < 200


@given(st.binary(max_size=80), st.integers(-2, 5), st.integers(0, 127))
@settings(max_examples=400)
def test_any_payload_is_read_or_refused(payload: bytes, count: int, attributes: int) -> None:
    try:
        batch = decode_batch(raw_batch(payload, count, attributes=attributes))
    except DecodeError as error:
        assert error.rule
    else:
        assert len(batch.records) == count


@given(st.data())
@settings(max_examples=400)
def test_any_damage_is_read_or_refused(data: st.DataObject) -> None:
    payload = bytearray(GOOD[61:])
    for at in data.draw(st.lists(st.integers(0, len(payload) - 1), max_size=4)):
        payload[at] = data.draw(st.integers(0, 255))
    try:
        decode_batch(raw_batch(bytes(payload), 3))
    except DecodeError as error:
        assert error.rule


def test_the_place_of_an_error_is_that_in_the_callers_buffer() -> None:
    bad = raw_batch(raw_record() + raw_record(length=9), 2, base_offset=40)
    with pytest.raises(
        DecodeError, match=r"records\[1\]: .* in the batch at offset 40 \(at byte \d+\)"
    ) as caught:
        list(decode_batches(GOOD + bad))
    assert len(GOOD) + 61 < caught.value.offset <= len(GOOD + bad)


def test_headers_are_named_tuples_that_compare() -> None:
    header = read_header(GOOD)
    assert isinstance(header, BatchHeader)
    assert header == read_header(GOOD)
    assert header != header._replace(record_count=4)
