"""Runs of records of the same layout: what is found, and that nothing else is ever accepted."""

from __future__ import annotations

import random
from typing import Any

import pytest

from gateway.base.slices import run
from gateway.broker.produce import record_check
from gateway.broker.produce.record_check import RecordsSeen, check_records
from gateway.broker.produce.record_runs import find_run
from kwire.errors import DecodeError
from kwire.records import Record, encode_batch
from kwire.records.header import BATCH_OVERHEAD
from tests.gateway.broker.produce.batches import NOW_MS


def records(count: int, value: int = 20, key: int | None = None, step: int = 10) -> bytearray:
    """The records of a batch; every ``step`` of them are one ms later."""
    rng = random.Random(1)
    found = [
        Record(
            offset=number,
            timestamp=NOW_MS + number // step,
            key=None if key is None else rng.randbytes(key),
            value=rng.randbytes(value),
        )
        for number in range(count)
    ]
    return bytearray(encode_batch(found)[BATCH_OVERHEAD:])


def looked_at(data: bytes | bytearray, count: int) -> RecordsSeen | str:
    try:
        return run(check_records(data, count))
    except DecodeError as error:
        return str(error)


def one_by_one(data: bytes | bytearray, count: int, monkeypatch: Any) -> RecordsSeen | str:
    with monkeypatch.context() as patched:
        patched.setattr(record_check, "find_run", lambda *_: None)
        return looked_at(data, count)


@pytest.mark.parametrize("key", [None, 0, 8, 70])
@pytest.mark.parametrize("value", [0, 20, 63, 64, 300])
@pytest.mark.parametrize("step", [1, 2, 10_000])
def test_records_of_one_size_are_seen_as_one_by_one(
    key: int | None, value: int, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = records(200, value, key, step)
    seen = looked_at(data, 200)
    assert seen == one_by_one(data, 200, monkeypatch)
    assert seen == RecordsSeen(0, 199 // step, 0 if key is None else -1)


@pytest.mark.parametrize("key", [None, 5])
def test_every_changed_byte_is_seen_as_one_by_one(
    key: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = records(90, 4, key, 2)
    for at in range(len(data)):
        for flipped in (0x01, 0x02, 0x80, 0xFF):
            data[at] ^= flipped
            assert looked_at(data, 90) == one_by_one(data, 90, monkeypatch), (at, flipped)
            data[at] ^= flipped


def test_batch_that_is_cut_off_is_refused_as_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    data = records(80, 4)
    for end in range(len(data)):
        assert looked_at(data[:end], 80) == one_by_one(data[:end], 80, monkeypatch), end


def test_more_records_than_two_bytes_of_delta_count_are_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = records(9000, 3)
    assert looked_at(data, 9000) == one_by_one(data, 9000, monkeypatch)


@pytest.mark.parametrize("sizes", [(20, 21), (20,) * 40 + (21,) * 3, (20,) * 15 + (9,)])
def test_records_of_mixed_sizes_are_seen_as_one_by_one(
    sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [
        Record(offset=number, timestamp=NOW_MS - number, value=bytes(sizes[number % len(sizes)]))
        for number in range(400)
    ]
    data = encode_batch(found)[BATCH_OVERHEAD:]
    assert looked_at(data, 400) == one_by_one(data, 400, monkeypatch)


def test_run_ends_where_the_offset_delta_takes_another_byte_or_a_size_changes() -> None:
    data = records(200)
    first = find_run(data, 0, range(200))
    assert first is not None and first.records == 64
    second = find_run(data, first.end, range(64, 200))
    assert second is not None and (second.records, second.end) == (136, len(data))
    shorter = records(30) + records(200, 9)
    found = find_run(shorter, 0, range(230))
    assert found is not None and found.records == 30


def test_few_records_records_with_headers_and_wrong_deltas_are_no_run() -> None:
    data = records(100)
    assert find_run(data, 0, range(15)) is None
    assert find_run(data, 0, range(1, 100)) is None  # the first has delta 0
    assert find_run(data, 0, range(9000, 9100)) is None
    headers = [
        Record(offset=number, timestamp=NOW_MS, value=b"v", headers=[("h", b"1")])
        for number in range(50)
    ]
    assert find_run(encode_batch(headers)[BATCH_OVERHEAD:], 0, range(50)) is None


def test_records_of_one_size_are_not_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    alone: list[range] = []

    def counted(d: Any, p: int, numbers: range, seen: RecordsSeen) -> tuple[int, RecordsSeen]:
        alone.append(numbers)
        return kept(d, p, numbers, seen)

    kept = record_check._check_some
    monkeypatch.setattr(record_check, "_check_some", counted)
    looked_at(records(1000), 1000)
    assert alone == []
    found = [Record(offset=n, timestamp=NOW_MS, value=bytes(n % 7)) for n in range(1000)]
    looked_at(encode_batch(found)[BATCH_OVERHEAD:], 1000)
    assert len(alone) < 8 and sum(map(len, alone)) == 1000  # longer and longer parts
