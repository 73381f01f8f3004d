"""The log of changes: what was written survives the process, what was synced the machine, and it
stays within its bounds.
"""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.log.audit.audit_log import AUDIT_SETTINGS, AuditLog, AuditRecord
from gateway.log.files.errors import DiskFailed, LogFailed, SyncFailed
from gateway.log.partition.log_settings import LogSettings
from gateway.log.partition.salvage_recovery import DAMAGED
from gateway.log.segments import segment
from kwire.metadata_log.file_names import segment_name
from kwire.records import decode_batches
from tests.gateway.log.crash_disk import QuietDisk
from tests.gateway.log.faulty_disk import FaultyDisk

#: A segment a change.
TINY = replace(AUDIT_SETTINGS, segment_bytes=1)
USUAL = AUDIT_SETTINGS


def opened(
    directory: Path, settings: LogSettings = USUAL, disk: QuietDisk | FaultyDisk | None = None
) -> AuditLog:
    return AuditLog(directory / "audit-0", settings, disk or QuietDisk())


def written(*values: str, at: int = 1000) -> list[AuditRecord]:
    return [AuditRecord(at, value.encode()) for value in values]


def put(log: AuditLog, *values: str, at: int = 1000) -> None:
    """Each in a write of its own; a full segment is followed by the next before."""
    for value in values:
        if log.is_full(at):
            log.roll()
        log.append(written(value, at=at))


def content(directory: Path) -> list[tuple[int, int, bytes | None]]:
    """(offset, timestamp, value) of everything in the files."""
    data = b"".join(path.read_bytes() for path in sorted((directory / "audit-0").glob("*.log")))
    return [
        (record.offset, record.timestamp, record.value)
        for batch in decode_batches(data)
        for record in batch.records
    ]


def segments(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / "audit-0").glob("*.log"))


def test_records_appended_together_are_one_write(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = opened(tmp_path, disk=disk)
    before = disk.log.count(f"write {segment_name(0)}")
    log.append(written("a", "b", "c", at=7))
    assert disk.log.count(f"write {segment_name(0)}") == before + 1
    assert content(tmp_path) == [(0, 7, b"a"), (1, 7, b"b"), (2, 7, b"c")]
    assert log.end_offset == 3


def test_it_goes_on_where_a_killed_process_stopped(tmp_path: Path) -> None:
    opened(tmp_path).append(written("a", "b"))  # and is never closed
    log = opened(tmp_path)
    assert (log.end_offset, log.flushed, log.problems) == (2, 2, [])
    log.append(written("c"))
    assert [value for _, _, value in content(tmp_path)] == [b"a", b"b", b"c"]


@pytest.mark.parametrize("left", [1, 11, 60, -1])
def test_an_unfinished_write_is_cut_off(tmp_path: Path, left: int) -> None:
    log = opened(tmp_path)
    log.append(written("whole"))
    path = tmp_path / "audit-0" / segment_name(0)
    size = path.stat().st_size
    log.append(written("torn"))
    data = path.read_bytes()
    path.write_bytes(data[:-1] if left == -1 else data[: size + left])
    again = opened(tmp_path)
    assert path.stat().st_size == size and again.end_offset == 1
    assert len(again.problems) == 1 and "cut off" in again.problems[0]
    assert not list((tmp_path / "audit-0").glob(f"*{DAMAGED}")), "nothing whole was behind it"


def test_damaged_batch_is_a_gap_and_whole_batches_behind_it_stay(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for value in "abc":
        log.append(written(value))
    path = tmp_path / "audit-0" / segment_name(0)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    again = opened(tmp_path)
    assert (
        again.end_offset == 3 and "wrong CRC" in again.problems[0] and DAMAGED in again.problems[0]
    )
    assert content(tmp_path) == [(0, 1000, b"a"), (2, 1000, b"c")]
    assert path.with_name(path.name + DAMAGED).read_bytes() == data


def test_a_sync_covers_what_was_written_before_it_began(tmp_path: Path) -> None:
    log = opened(tmp_path)
    assert log.pending_flush() is None
    log.append(written("a"))
    first = log.pending_flush()
    assert first is not None
    log.append(written("b"))
    log.on_flushed(first.flush())
    assert (log.flushed, log.end_offset) == (1, 2)
    second = log.pending_flush()
    assert second is not None and second.flush() == 2


def test_a_sync_of_a_segment_that_was_closed_meanwhile(tmp_path: Path) -> None:
    log = opened(tmp_path, TINY)
    log.append(written("a"))
    pending_flush = log.pending_flush()
    assert pending_flush is not None
    put(log, "b")  # begins the next segment
    log.on_flushed(pending_flush.flush())
    assert log.flushed == 1


def test_a_sync_that_fails_says_so(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = opened(tmp_path, disk=disk)
    log.append(written("a"))
    pending_flush = log.pending_flush()
    assert pending_flush is not None
    disk.fails_at, disk.error = disk.count, errno.EIO
    with pytest.raises(SyncFailed):
        pending_flush.flush()
    assert [file.fd for file in pending_flush.files] == [-1], "its descriptor is closed"


def test_a_full_disk_costs_that_change_alone(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = opened(tmp_path, disk=disk)
    log.append(written("a"))
    disk.fails_at = disk.count
    with pytest.raises(DiskFailed, match="make room"):
        log.append(written("lost"))
    assert not log.failed
    log.append(written("b"))
    assert [(offset, value) for offset, _, value in content(tmp_path)] == [(0, b"a"), (1, b"b")]


def test_files_in_doubt_are_opened_again(tmp_path: Path) -> None:
    disk = FaultyDisk(for_good=True)
    log = opened(tmp_path, disk=disk)
    log.append(written("a"))
    disk.fails_at = disk.count
    with pytest.raises(DiskFailed):
        log.append(written("lost"))  # half of it is there, and it cannot be cut off
    assert log.failed
    with pytest.raises(LogFailed):
        log.append(written("refused"))
    disk.fails_at = -1
    log.close()
    again = opened(tmp_path)
    again.append(written("b"))
    assert [(offset, value) for offset, _, value in content(tmp_path)] == [(0, b"a"), (1, b"b")]


def test_segments_follow_each_other_by_size_and_by_age(tmp_path: Path) -> None:
    log = opened(tmp_path, replace(AUDIT_SETTINGS, segment_bytes=100, segment_ms=50))
    put(log, "a", at=1000)
    put(log, "b", at=1050)
    assert segments(tmp_path) == [segment_name(0)]
    put(log, "c", at=1060)  # it is full
    put(log, "d", at=1111)  # its first record is too old
    assert segments(tmp_path) == [segment_name(0), segment_name(2), segment_name(3)]


def test_the_oldest_go_while_all_are_too_large(tmp_path: Path) -> None:
    log = opened(
        tmp_path, replace(AUDIT_SETTINGS, segment_bytes=1, retention_bytes=200, retention_ms=-1)
    )
    for value in "abcde":
        put(log, value * 20)
    deleted = log.clean(10**12)
    left = segments(tmp_path)
    assert deleted == [segment_name(number) for number in range(len(deleted))] and deleted
    assert sum((tmp_path / "audit-0" / name).stat().st_size for name in left) <= 200
    assert left[-1] == segment_name(5), "a new one was begun"
    put(log, "f")
    assert content(tmp_path)[-1][:2] == (5, 1000)


def test_records_that_are_too_old_are_deleted_and_the_newest_too(tmp_path: Path) -> None:
    log = opened(
        tmp_path,
        replace(
            AUDIT_SETTINGS, segment_bytes=1, segment_ms=100, retention_bytes=-1, retention_ms=100
        ),
    )
    put(log, "a", at=1000)
    put(log, "b", at=1090)
    assert log.clean(1100) == []
    assert log.clean(1101) == [segment_name(0)]
    assert log.clean(1191) == [segment_name(1)]
    assert (log.end_offset, segments(tmp_path)) == (2, [segment_name(2)])
    assert opened(tmp_path).end_offset == 2, "offsets go on after a restart"


def test_everything_may_be_kept(tmp_path: Path) -> None:
    log = opened(
        tmp_path, replace(AUDIT_SETTINGS, segment_bytes=1, retention_bytes=-1, retention_ms=-1)
    )
    for value in "abc":
        put(log, value)
    assert log.clean(10**15) == []


def test_the_age_of_a_segment_whose_index_is_lost_is_that_of_its_file(tmp_path: Path) -> None:
    log = opened(tmp_path, replace(AUDIT_SETTINGS, segment_bytes=1, retention_ms=1000))
    put(log, "a", at=1)
    put(log, "b", at=1)
    (tmp_path / "audit-0" / segment_name(0)).with_suffix(".timeindex").unlink()
    assert log.clean(2_000) == [], "the file was changed just now"
    assert log.clean(10**14) == [segment_name(0), segment_name(1)]


def test_segments_that_cannot_be_mended_are_set_aside(tmp_path: Path) -> None:
    log = opened(tmp_path, TINY)
    put(log, *"abc")
    assert log.repair(1) == [
        f"set aside: {segment_name(0)}{DAMAGED}, {segment_name(1)}{DAMAGED}"
    ], "nothing is wrong with them"
    assert [value for _, _, value in content(tmp_path)] == [b"c"]
    assert log.repair(2) == [f"set aside: {segment_name(2)}{DAMAGED}"], (
        "the newest, too, and a new one goes on"
    )
    put(log, "d")
    assert content(tmp_path) == [(3, 1000, b"d")]


def test_after_close_nothing_is_written(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append(written("a"))
    log.close()
    assert log.flushed == 1
    with pytest.raises(LogFailed, match="closed"):
        log.append(written("b"))
    log.close()  # again is no harm


def test_many_changes_are_batches_of_a_size_to_be_read(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append(written(*("x" * 500_000 for _ in range(5))))
    data = (tmp_path / "audit-0" / segment_name(0)).read_bytes()
    assert [len(batch.records) for batch in decode_batches(data)] == [2, 2, 1]


def test_a_segment_that_indexes_cannot_tell_of_is_followed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = opened(tmp_path)
    log.append(written("a"))
    monkeypatch.setattr(segment, "_INT32_MAX", 100)
    log.append(written("b"))
    assert segments(tmp_path) == [segment_name(0), segment_name(1)]
