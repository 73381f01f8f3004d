"""Batches as columns are what ``kwire.records`` says of every record: random batches, damaged
bytes, and real logs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the spark extra is not installed")

from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.errors import DecodeError
from kwire.records import (
    Compression,
    Record,
    TimestampType,
    decode_records,
    encode_batch,
    iter_batches,
)
from kwire.spark import record_columns
from kwire.spark.record_columns import columns_of
from tests.shared import needs_shared

Found = list[tuple[int, int, int, bytes | None]]
T = 1_795_237_200_000


def plain(values: Sequence[bytes | None], offset: int = 0, step: int = 1, **how: Any) -> bytes:
    """A batch as a controller writes it: no keys, no headers, times a little apart."""
    records = [
        Record(offset=offset + n, timestamp=T + n * step, value=value)
        for n, value in enumerate(values)
    ]
    return encode_batch(records, base_offset=offset, partition_leader_epoch=3, **how)


def together(data: bytes) -> Found:
    found: Found = []
    for columns in columns_of(data, iter_batches(data)):
        numbers = zip(
            columns.offsets.tolist(), columns.times.tolist(), columns.epochs.tolist(), strict=True
        )
        found += [(*three, columns.values[row]) for row, three in enumerate(numbers)]
    return found


def alone(data: bytes) -> Found:
    return [
        (record.offset, record.timestamp, header.partition_leader_epoch, record.value)
        for header in iter_batches(data)
        if not header.is_control
        for record in decode_records(data, header)
    ]


def without_the_exact_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("read record by record")

    monkeypatch.setattr(record_columns, "_exact", never)


VALUES = st.lists(
    st.none() | st.binary(max_size=20) | st.sampled_from([b"", b"x" * 63, b"x" * 64, b"y" * 9000]),
    min_size=1,
)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(VALUES, min_size=1, max_size=4),
    st.sampled_from([0, 1, 64, 10_000, 3_000_000]),
    st.data(),
)
def test_random_batches_whole_and_damaged(
    batches: list[list[bytes | None]], step: int, data: st.DataObject
) -> None:
    offset, parts = 5, []
    for values in batches:
        how: dict[str, Any] = data.draw(
            st.sampled_from(
                [
                    {},
                    {"is_control": True},
                    {"timestamp_type": TimestampType.LOG_APPEND_TIME},
                    {"compression": Compression.GZIP},
                ]
            )
        )
        parts.append(plain(values, offset, step, **how))
        offset += len(values)
    whole = b"".join(parts)
    assert together(whole) == alone(whole)
    changed = bytearray(whole)
    for at in data.draw(st.lists(st.integers(61, len(whole) - 1), min_size=1, max_size=3)):
        changed[at] = data.draw(st.integers(0, 255))
    same(bytes(changed))


def same(data: bytes) -> None:
    """The same records, or refused by both. One changed byte may be two faults (a length ends this
    batch and begins the next).
    """
    expected: Found | None
    try:
        expected = alone(data)
    except DecodeError:
        expected = None
    try:
        assert together(data) == expected
    except DecodeError:
        assert expected is None


def test_every_byte_of_a_batch_changed() -> None:
    data = plain([b"one", None, b"x" * 70, b""], offset=7, step=100)
    second = plain([b"two"], offset=11)
    for at in range(61, len(data)):
        for byte in (0, 1, 2, 3, 64, 127, 128, 129, 254, 255):
            same(data[:at] + bytes([byte]) + data[at + 1 :] + second)


def test_batches_of_a_controller_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    without_the_exact_way(monkeypatch)
    data = (
        plain([b"a" * 200] * 200, step=50)
        + plain([b"z"], 200, is_control=True)
        + plain([None, b"\0" * 20_000], 201)
    )
    found = together(data)
    assert found == alone(data)
    assert [row[0] for row in found] == [*range(200), 201, 202]
    (late,) = columns_of(data, iter_batches(data))
    assert late.within(199, 202).offsets.tolist() == [199, 201]


def test_records_with_keys_and_headers() -> None:
    records = [
        Record(offset=1, timestamp=T, key=b"k", value=b"v"),
        Record(offset=2, timestamp=T, value=b"w", headers=[("h", b"x")]),
    ]
    data = plain([b"first"]) + encode_batch(records, base_offset=1)
    assert together(data) == alone(data)
    assert [row[3] for row in together(data)] == [b"first", b"v", b"w"]


@needs_shared
@pytest.mark.parametrize("name", ["p-large", "p-one-segments", "p-upgrade"])
def test_real_logs(logs: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without_the_exact_way(monkeypatch)
    files = sorted(logs(name).glob("nodes/*/__cluster_metadata-0/*.log"))
    assert files
    for file in files:
        data = file.read_bytes()
        assert together(data) == alone(data)
