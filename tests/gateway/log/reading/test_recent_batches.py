"""Batches in memory between their append and their commit: whole, without a gap, bounded, and gone
after a truncation.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from gateway.log.reading.log_cursor import LogCursor, LogGap
from gateway.log.reading.recent_batches import RecentBatches
from kwire.metadata_log.open_file import OpenFile
from tests.gateway.log.reading.test_log_cursor import batch, offsets, segment


def kept(recent: RecentBatches, offset: int) -> tuple[int, int] | None:
    found = recent.at(offset)
    return None if found is None else (found.base_offset, found.end_offset)


@pytest.fixture
def recent() -> RecentBatches:
    filled = RecentBatches()
    for base in (3, 5, 7):
        filled.append(base, base + 2, batch(base, 2))
    return filled


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Reads of files, counted."""
    counted: Counter[str] = Counter()
    read = OpenFile.read

    def counting(file: OpenFile, position: int, length: int) -> bytes:
        counted["reads"] += 1
        return read(file, position, length)

    monkeypatch.setattr(OpenFile, "read", counting)
    return counted


def test_appends_before_a_read_one_are_released(recent: RecentBatches) -> None:
    assert [kept(recent, offset) for offset in (2, 3, 6, 8, 9)] == [
        None,
        (3, 5),
        (5, 7),
        (7, 9),
        None,
    ]
    assert kept(recent, 3) is None


def test_truncated_appends_are_not_read_again(recent: RecentBatches) -> None:
    recent.truncate_to(7)
    assert [kept(recent, offset) for offset in (6, 7)] == [(5, 7), None]
    recent.append(7, 8, batch(7, epoch=2))
    assert kept(recent, 7) == (7, 8)


def test_a_truncation_inside_an_append_drops_it_as_a_whole(recent: RecentBatches) -> None:
    recent.truncate_to(8)
    assert [kept(recent, offset) for offset in (5, 7)] == [(5, 7), None]
    recent.append(7, 8, batch(7, epoch=2))
    recent.truncate_to(8)
    recent.append(9, 10, batch(9, epoch=2))
    # Offset 8 is in the files alone, and no reader passes it in memory.
    assert [kept(recent, offset) for offset in (7, 8, 9)] == [None, None, (9, 10)]


def test_a_cleared_memory_has_no_batch_and_takes_any_offset_next(recent: RecentBatches) -> None:
    recent.clear()
    assert kept(recent, 5) is None
    recent.append(2, 3, batch(2))
    assert kept(recent, 2) == (2, 3)


def test_the_oldest_appends_go_when_the_bytes_exceed_the_bound() -> None:
    data = batch(0)
    recent = RecentBatches(max_bytes=3 * (len(data) + 300))
    for base in range(5):
        recent.append(base, base + 1, batch(base))
    assert [kept(recent, offset) for offset in (1, 2, 4)] == [None, (2, 3), (4, 5)]
    recent.append(5, 6, batch(5, size=2000))
    assert kept(recent, 5) is None, "one append above the bound is not kept at all"
    recent.append(6, 7, batch(6))
    assert kept(recent, 6) == (6, 7)


def test_bytes_of_the_caller_may_change_after_an_append() -> None:
    buffer = bytearray(batch(0))
    recent = RecentBatches()
    recent.append(0, 1, memoryview(buffer))
    buffer[:] = bytes(len(buffer))
    found = recent.at(0)
    assert found is not None and found.read(0, 1000) == batch(0)


def test_cursor_reads_no_file_while_memory_has_the_batches(
    tmp_path: Path, disk: Counter[str]
) -> None:
    path = segment(tmp_path, 0, batch(0), batch(1))
    recent = RecentBatches()
    cursor = LogCursor(str(tmp_path), 0, recent)
    assert offsets(cursor, 2) == [0, 1]
    assert disk.total() > 0
    disk.clear()
    recent.append(2, 5, batch(2) + batch(3, 2))
    recent.append(5, 6, batch(5))
    with path.open("ab") as file:
        file.write(batch(2) + batch(3, 2) + batch(5))
    assert [len(cursor.read(6, 10_000))] == [3], "several appends come in one piece"
    assert disk.total() == 0
    assert offsets(cursor, 6) == []


def test_cursor_stops_in_memory_at_the_high_watermark(tmp_path: Path, disk: Counter[str]) -> None:
    recent = RecentBatches()
    recent.append(0, 4, batch(0, 2) + batch(2, 2))
    cursor = LogCursor(str(tmp_path), 0, recent)
    assert offsets(cursor, 2) == [0, 1]
    recent.truncate_to(2)
    segment(tmp_path, 0, batch(0, 2), batch(2, 1, epoch=2))
    assert disk.total() == 0
    (read,) = cursor.read(3, 1000)
    assert (read[0].partition_leader_epoch, read[0].base_offset) == (2, 2)
    assert disk.total() > 0, "an append that was dropped is read from the files"


def test_cursor_goes_to_the_files_and_back(tmp_path: Path) -> None:
    written = [batch(offset) for offset in range(9)]
    segment(tmp_path, 0, *written[:4])
    segment(tmp_path, 4, *written[4:])
    recent = RecentBatches()
    cursor = LogCursor(str(tmp_path), 0, recent)
    for offset in (0, 1, 2):
        recent.append(offset, offset + 1, written[offset])
    assert offsets(cursor, 3) == [0, 1, 2]
    recent.clear()
    assert offsets(cursor, 6) == [3, 4, 5]
    recent.append(6, 7, written[6])
    assert offsets(cursor, 9) == [6, 7, 8]


def test_cursor_before_a_memory_that_begins_later_finds_the_gap(tmp_path: Path) -> None:
    segment(tmp_path, 5, batch(5))
    recent = RecentBatches()
    recent.append(5, 6, batch(5))
    with pytest.raises(LogGap, match="begins at offset 5 and does not go on at 1"):
        LogCursor(str(tmp_path), 1, recent).read(6, 1000)


@pytest.mark.parametrize("seed", range(8))
def test_cursor_reads_each_committed_record_once_beside_appends_and_truncations(
    tmp_path: Path, seed: int
) -> None:
    """The file is written as the log is; memory has a random part of it."""
    rng = random.Random(seed)
    recent = RecentBatches(max_bytes=rng.choice([0, 900, 2000, 100_000]))
    cursor = LogCursor(str(tmp_path), 0, recent)
    log: list[tuple[int, int, bytes]] = []  # base, end, bytes
    committed = epoch = 0
    found: list[int] = []
    for _ in range(60):
        match rng.randrange(4):
            case 0 | 1:
                for _ in range(rng.randrange(1, 4)):
                    base = log[-1][1] if log else 0
                    parts, end = [], base
                    for _ in range(rng.randrange(1, 4)):
                        count = rng.randrange(1, 4)
                        parts.append((end, end + count, batch(end, count, epoch=epoch)))
                        end += count
                    log += parts
                    recent.append(base, end, b"".join(data for *_, data in parts))
            case 2:
                epoch += 1
                keep = [one for one in log if one[1] <= committed or rng.random() < 0.5]
                whole = next((n for n, one in enumerate(log) if keep[n : n + 1] != [one]), len(log))
                log = log[:whole]
                recent.truncate_to(log[-1][1] if log else 0)
            case 3:
                ends = [end for _, end, _ in log if end >= committed]
                committed = rng.choice(ends) if ends else committed
        segment(tmp_path, 0, *(data for *_, data in log))
        for header, records in cursor.read(committed, rng.choice([1, 150, 10_000])):
            found += [record.offset for record in records]
            assert header.partition_leader_epoch == next(
                int.from_bytes(data[12:16], "big")
                for base, _, data in log
                if base == header.base_offset
            )
    while batches := cursor.read(committed, 1000):
        found += [record.offset for _, records in batches for record in records]
    assert found == list(range(committed))
