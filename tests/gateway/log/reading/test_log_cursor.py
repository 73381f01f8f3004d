"""Reading a log from an offset on: every batch once, in order, as far as it may be read, whatever
becomes of the files.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.log.reading.log_cursor import LogCursor, LogGap
from kwire.errors import DecodeError
from kwire.records import Record, encode_batch


def batch(offset: int, count: int = 1, *, epoch: int = 1, size: int = 5) -> bytes:
    records = [
        Record(offset=offset + i, timestamp=1, value=bytes([offset % 256]) * size)
        for i in range(count)
    ]
    return encode_batch(records, partition_leader_epoch=epoch)


def segment(directory: Path, base: int, *batches: bytes) -> Path:
    path = directory / f"{base:020d}.log"
    path.write_bytes(b"".join(batches))
    return path


def offsets(cursor: LogCursor, below: int, max_bytes: int = 1000) -> list[int]:
    """Of all records that come, in as many reads as it takes."""
    found: list[int] = []
    while batches := cursor.read(below, max_bytes):
        found += [record.offset for _, records in batches for record in records]
    return found


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(st.integers(1, 6), min_size=1, max_size=12),
    rolls=st.sets(st.integers(1, 11)),
    stops=st.lists(st.integers(0, 60), max_size=5),
    start=st.integers(0, 20),
    max_bytes=st.sampled_from([1, 61, 90, 200, 10_000]),
)
def test_every_record_once(
    counts: list[int],
    rolls: set[int],
    stops: list[int],
    start: int,
    max_bytes: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Over segments of any number, from any offset, with the limit raised step by step, in pieces
    of any size.
    """
    directory = tmp_path_factory.mktemp("log")
    held: list[bytes] = []
    ends, base, offset = [0], 0, 0
    for number, count in enumerate(counts):
        if number in rolls:
            segment(directory, base, *held)
            base, held = offset, []
        held.append(batch(offset, count, size=3 + 40 * (number % 3)))
        offset += count
        ends.append(offset)
    segment(directory, base, *held)
    start = min(start, offset)
    cursor, found = LogCursor(str(directory), start), []
    for stop in sorted({*stops, offset}):
        below = min(stop, offset)
        found += offsets(cursor, below, max_bytes)
        whole = max(end for end in ends if end <= below)
        assert found == list(range(start, max(start, whole)))
    assert cursor.next_offset == offset


def test_a_piece_is_about_as_large_as_asked_and_holds_one_batch_at_least(tmp_path: Path) -> None:
    segment(tmp_path, 0, *(batch(n, size=200) for n in range(10)), batch(10, size=5000), batch(11))
    cursor = LogCursor(str(tmp_path), 0)
    assert [len(cursor.read(12, 1000)) for _ in range(5)] == [3, 3, 3, 1, 1]
    assert [len(cursor.read(12, 1000)) for _ in range(2)] == [1, 0]


def test_it_goes_on_where_the_log_grew(tmp_path: Path) -> None:
    path = segment(tmp_path, 0, batch(0))
    cursor = LogCursor(str(tmp_path), 0)
    assert offsets(cursor, 9) == [0]
    with path.open("ab") as file:
        file.write(batch(1))
    assert offsets(cursor, 9) == [1]
    segment(tmp_path, 2, batch(2))
    assert offsets(cursor, 9) == [2]


def test_a_segment_cut_and_written_anew_above_the_limit(tmp_path: Path) -> None:
    """In place, and under the same name as another file."""
    segment(tmp_path, 0, batch(0), batch(1), batch(2))
    cursor = LogCursor(str(tmp_path), 0)
    assert offsets(cursor, 1) == [0]
    segment(tmp_path, 0, batch(0), batch(1, 4, epoch=2))
    assert offsets(cursor, 1) == []
    other = segment(tmp_path, 7, batch(0), batch(1, epoch=3), batch(2, 3, epoch=3))
    os.replace(other, tmp_path / "00000000000000000000.log")
    (read,) = cursor.read(2, 1000)
    assert (read[0].partition_leader_epoch, read[0].base_offset) == (3, 1)


def test_a_deleted_segment_is_not_read_on(tmp_path: Path) -> None:
    """Its records beyond the last limit may have been truncated by a new leader; a snapshot has the
    committed ones.
    """
    path = segment(tmp_path, 0, batch(0), batch(1))
    cursor = LogCursor(str(tmp_path), 0)
    assert offsets(cursor, 1) == [0]
    path.unlink()
    with pytest.raises(LogGap, match="has no segments and does not go on at 1"):
        cursor.read(60, 1000)
    segment(tmp_path, 50, batch(50))
    with pytest.raises(LogGap, match="begins at offset 50 and does not go on at 1"):
        cursor.read(60, 1000)


def test_a_hole_between_segments(tmp_path: Path) -> None:
    segment(tmp_path, 0, batch(0), batch(1))
    segment(tmp_path, 5, batch(5))
    cursor = LogCursor(str(tmp_path), 0)
    assert len(cursor.read(6, 1000)) == 2
    with pytest.raises(LogGap, match="offsets 2 to 4 are missing"):
        cursor.read(6, 1000)


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (batch(1)[:-1] + b"?", "CRC"),
        (batch(1)[:-1], "not whole"),
        (batch(3), "a batch at offset 3 stands where offset 1 must follow"),
        (b"\0" * 100, "magic"),
    ],
)
def test_damage_is_reported_with_its_position_after_the_batches_before_it(
    tmp_path: Path, bad: bytes, text: str
) -> None:
    path = segment(tmp_path, 0, batch(0), bad)
    cursor = LogCursor(str(tmp_path), 0)
    assert len(cursor.read(9, 1000)) == 1
    for _ in range(2):
        with pytest.raises(DecodeError, match=text) as caught:
            cursor.read(9, 1000)
        assert (caught.value.path, caught.value.offset) == (str(path), len(batch(0)))


def test_a_batch_too_large_to_be_one_is_not_read(tmp_path: Path) -> None:
    head = bytearray(batch(0))
    head[8:12] = (1 << 30).to_bytes(4)
    segment(tmp_path, 0, bytes(head))
    with pytest.raises(DecodeError, match="more than the"):
        LogCursor(str(tmp_path), 0).read(1, 1000)
