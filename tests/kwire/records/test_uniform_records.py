"""Records that are found in runs are those that are decoded one by one, with the same errors."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from kwire.errors import DecodeError
from kwire.records import Record, encode_batch, read_header
from kwire.records.batch import decode_chunks
from kwire.records.decode import read_records
from kwire.records.uniform_records import RecordChunk, UniformRecords, read_chunks, records_of

TIME = 1_700_000_000_000
BASE = 40


def section(values: Sequence[bytes | None], *, times: list[int] | None = None) -> bytes:
    """The records section of a batch with the values."""
    records = [
        Record(offset=BASE + n, timestamp=times[n] if times else TIME, value=value)
        for n, value in enumerate(values)
    ]
    return encode_batch(records, base_timestamp=TIME)[61:]


def chunks(data: bytes, count: int) -> list[RecordChunk]:
    return read_chunks(data, count, BASE, TIME, 1_000_000)


def runs(found: list[RecordChunk]) -> list[tuple[int, int]]:
    """First offset and number of the records of each run."""
    return [(one.offset, one.length) for one in found if isinstance(one, UniformRecords)]


def test_values_of_one_size_and_frame_are_a_run() -> None:
    values = [b"frm%05d" % n for n in range(300)]
    found = chunks(section(values), 300)
    # The size of the offset's delta changes at 64, and so does that of the records.
    assert runs(found) == [(BASE, 64), (BASE + 64, 236)]
    assert [record.value for record in records_of(found)] == values
    first = found[0]
    assert isinstance(first, UniformRecords)
    assert (first.frame, first.value_size, first.next_offset) == (b"frm", 8, BASE + 64)
    assert list(first.unpack("3x2s"))[63] == (b"00", b"063")


def test_a_run_ends_where_frame_or_size_change() -> None:
    values = [b"frmA" * 2] * 20 + [b"topic"] + [b"frmB" * 2] * 20 + [b"otherB--"] * 20
    found = chunks(section(values), 61)
    # Behind a record of another kind eight records are decoded one by one.
    assert runs(found) == [(BASE, 20), (BASE + 28, 13), (BASE + 41, 20)]
    assert [record.value for record in records_of(found)] == values


@pytest.mark.parametrize("count", [8_300, 9_000])
def test_long_batches(count: int) -> None:
    values: list[bytes | None] = [b"%08d" % n for n in range(count)]
    data = section(values)
    assert list(records_of(chunks(data, count))) == read_records(data, count, BASE, TIME, 10**6)


def any_value(rng: random.Random) -> bytes | None:
    kind = rng.choice((b"abc", b"abd", b"topic"))
    size = rng.choice((0, 4, 4, 4, 70, 70, 300))
    return None if rng.random() < 0.02 else kind + bytes(rng.randrange(3) for _ in range(size))


@pytest.mark.parametrize("seed", range(20))
def test_random_sections_are_read_as_one_by_one(seed: int) -> None:
    """Also with bytes that were changed or cut off: the result is the same, or the error."""
    rng = random.Random(seed)
    values: list[bytes | None] = []
    while len(values) < 150:
        values += [any_value(rng)] + [b"run" + bytes(rng.choice((5, 66)))] * rng.randrange(40)
    times = None
    if rng.random() < 0.5:
        times = [TIME + rng.choice((0, 0, 0, 1, 100_000)) for _ in values]
    data, count = section(values, times=times), len(values)
    assert list(records_of(chunks(data, count))) == read_records(data, count, BASE, TIME, 10**6)
    for _ in range(150):
        changed = bytearray(data)
        for _ in range(rng.randrange(1, 3)):
            changed[rng.randrange(len(data))] = rng.choice((0, 1, 2, 127, 128, 255))
        bad = bytes(changed[: rng.choice((len(data), rng.randrange(len(data))))])
        said = count + rng.choice((0, 0, 0, -1, 1))
        assert outcome(bad, said, one_by_one=False) == outcome(bad, said, one_by_one=True)


def outcome(data: bytes, count: int, *, one_by_one: bool) -> object:
    try:
        if one_by_one:
            return read_records(data, count, BASE, TIME, 1_000_000)
        return list(records_of(chunks(data, count)))
    except DecodeError as error:
        return str(error), error.rule, error.offset


def test_offsets_near_the_end_of_int64_are_decoded_one_by_one() -> None:
    data = section([b"frm00000"] * 20)
    with pytest.raises(DecodeError, match="64 bits"):
        read_chunks(data, 20, (1 << 63) - 5, TIME, 100)


def test_batch_whose_crc_is_wrong_is_refused() -> None:
    batch = bytearray(encode_batch([Record(offset=n, value=b"frm" * 3) for n in range(20)]))
    header, found = decode_chunks(bytes(batch))
    assert (header, runs(found)) == (read_header(bytes(batch)), [(0, 20)])
    for data, rule in ((batch[:-1], "truncated"), (batch[:-1] + b"\1", "crc")):
        with pytest.raises(DecodeError) as caught:
            decode_chunks(bytes(data))
        assert caught.value.rule == rule
