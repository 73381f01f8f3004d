"""The local log as its owner uses it: append, roll, truncate, epochs, high watermark, snapshots,
retention, opening again.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.log.errors import (
    BelowHighWatermark,
    LogDamaged,
    LogError,
    LogFailed,
    LogLocked,
    SnapshotNotNewer,
)
from gateway.log.local_log import LocalLog, LogSettings
from gateway.snapshot_id import SnapshotId
from kwire.errors import DecodeError
from kwire.messages.quorum_state_data import QuorumStateData
from kwire.messages.snapshot_header_record import SnapshotHeaderRecord
from kwire.records.control import encode_control_record
from kwire.records.encode import encode_batch
from kwire.uuid import METADATA_TOPIC_ID, Uuid
from tests.gateway.log.faulty_disk import FaultyDisk
from tests.gateway.log.kafka_files import WrittenBatch, batch, snapshot_bytes

_DAY_MS = 24 * 60 * 60 * 1000
_FIRST = "00000000000000000000.log"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LocalLog]:
    log = LocalLog.open(tmp_path, LogSettings())
    yield log
    log.close()


def small(tmp_path: Path, **settings: Any) -> LocalLog:
    """One whose segments hold five of the smallest batches."""
    return LocalLog.open(
        tmp_path,
        LogSettings(**{"segment_bytes": 400, "index_interval_bytes": 100, **settings}),
    )


def fill(log: LocalLog, epoch: int, count: int = 1, records: int = 1) -> list[WrittenBatch]:
    batches = []
    for _ in range(count):
        batches.append(batch(log.end_offset, records, epoch))
        log.append(batches[-1].data)
    return batches


def install(log: LocalLog, snapshot: SnapshotId, data: bytes | None = None) -> None:
    writer = log.new_snapshot(snapshot)
    writer.write(0, data or snapshot_bytes(snapshot.epoch, (3,)))
    writer.freeze()
    log.truncate_to_snapshot(snapshot)


def segments(log: LocalLog) -> list[int]:
    return sorted(int(path.stem) for path in log.directory.glob("*.log"))


# --- appending
# --------------------------------------------------------------------------------------------------------


def test_a_new_log_is_empty_and_kafkas_files_are_there(tmp_path: Path) -> None:
    log = LocalLog.open(tmp_path / "a" / "b", LogSettings())
    assert (log.start_offset, log.end_offset, log.last_epoch, log.high_watermark) == (0, 0, 0, 0)
    assert log.latest_snapshot is None
    assert log.quorum_state is None
    assert log.meta_properties is None
    assert log.end_offset_for_epoch(0) == (-1, -1)
    assert sorted(path.name for path in log.directory.iterdir()) == [
        "00000000000000000000.index",
        _FIRST,
        "00000000000000000000.timeindex",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    assert (
        log.directory / "partition.metadata"
    ).read_text() == f"version: 0\ntopic_id: {METADATA_TOPIC_ID}"
    assert (log.directory / "leader-epoch-checkpoint").read_text() == "0\n0\n"
    log.close()


def test_batches_are_kept_as_they_came(log: LocalLog) -> None:
    one, two, three = batch(0, 3, 1), batch(3, 1, 1, control=True), batch(4, 2, 5)
    assert log.append(one.data + two.data) == 4
    assert log.append(memoryview(three.data)) == 6
    assert log.append(b"") == 6
    assert (log.directory / _FIRST).read_bytes() == one.data + two.data + three.data
    assert log.last_epoch == 5
    assert (log.directory / "leader-epoch-checkpoint").read_text() == "0\n2\n1 0\n5 4\n"


@pytest.mark.parametrize("left", [1, 12, 60, 61, 70])
def test_a_cut_last_batch_of_an_answer_is_left_out(log: LocalLog, left: int) -> None:
    one, two = batch(0, 2), batch(2, 2)
    assert log.append(one.data + two.data[:left]) == 2
    assert log.append(two.data) == 4
    assert (log.directory / _FIRST).read_bytes() == one.data + two.data


@pytest.mark.parametrize(
    ("bad", "rule"),
    [
        (batch(3, 1, 3).data, "base-offset"),
        (batch(1, 1, 3).data, "base-offset"),
        (batch(2, 1, 2).data, "leader-epoch"),
        (batch(2, 1, 3).data[:-1] + b"!", "crc"),
        (batch(2, 1, 3).data[:16] + b"\1" + batch(2, 1, 3).data[17:], "batch-magic"),
        (batch(2, 1, 3).data[:8] + b"\0\0\0\x10" + batch(2, 1, 3).data[12:], "batch-length"),
        (batch(2, 1, 3).data[:8] + b"\xff\0\0\0" + batch(2, 1, 3).data[12:], "batch-length"),
    ],
)
def test_nothing_of_an_answer_with_a_bad_batch_is_written(
    log: LocalLog, bad: bytes, rule: str
) -> None:
    log.append(batch(0, 1, 3).data)
    good = batch(1, 1, 3).data
    with pytest.raises(DecodeError) as caught:
        log.append(good + bad)
    assert caught.value.rule == rule
    assert caught.value.offset == len(good)
    assert (log.end_offset, log.last_epoch) == (1, 3)
    assert (log.directory / _FIRST).read_bytes() == batch(0, 1, 3).data


def test_every_flipped_bit_of_an_answer_is_refused_or_outside_the_crc(log: LocalLog) -> None:
    data = batch(0, 2, 1).data
    for position in range(len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 0x10
        if 12 <= position < 16:  # the leader epoch lies outside the CRC, as in Kafka
            continue
        if 8 <= position < 12:  # a length beyond the bytes is an unfinished batch
            with (
                pytest.raises(DecodeError)
                if position > 10 and flipped[position] < data[position]
                else _nothing()
            ):
                assert log.append(bytes(flipped)) == 0
            continue
        with pytest.raises(DecodeError):
            log.append(bytes(flipped))
    assert log.end_offset == 0


class _nothing:
    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...


# --- rolling
# ----------------------------------------------------------------------------------------------------------


def test_segments_roll_by_size_within_one_answer(tmp_path: Path) -> None:
    log = small(tmp_path)
    batches = [batch(offset, 1, 1 + offset // 5) for offset in range(20)]
    log.append(b"".join(one.data for one in batches))
    assert segments(log) == [0, 5, 10, 15]
    for base in segments(log):
        assert (log.directory / f"{base:020d}.log").stat().st_size <= 400
    joined = b"".join((log.directory / f"{base:020d}.log").read_bytes() for base in segments(log))
    assert joined == b"".join(one.data for one in batches)
    log.close()


def test_a_batch_larger_than_a_segment_has_one_of_its_own(tmp_path: Path) -> None:
    log = small(tmp_path)
    fill(log, 1, 2)
    log.append(batch(2, 1, 1, size=1000).data)
    fill(log, 1)
    assert segments(log) == [0, 2, 3]
    log.close()


def test_segments_roll_by_age_told_by_their_batches(tmp_path: Path) -> None:
    log = LocalLog.open(tmp_path, LogSettings(segment_ms=1000))
    for offset, timestamp in enumerate((5000, 5999, 6000, 6001, 6500, 7002)):
        log.append(batch(offset, 1, timestamps=(timestamp,)).data)
    assert segments(log) == [0, 3, 5]
    log.close()


# --- truncating
# -------------------------------------------------------------------------------------------------------


def test_truncation_drops_batches_epochs_and_segments(tmp_path: Path) -> None:
    log = small(tmp_path)
    kept = fill(log, 1, 6) + fill(log, 2, 2)
    fill(log, 3, 12)
    assert len(segments(log)) > 3
    log.truncate_to(8)
    assert (log.end_offset, log.last_epoch) == (8, 2)
    assert log.end_offset_for_epoch(2) == (2, 8)
    assert log.end_offset_for_epoch(3) == (-1, -1)
    assert (log.directory / "leader-epoch-checkpoint").read_text() == "0\n2\n1 0\n2 6\n"
    kept += fill(log, 7, 3)
    log.close()
    log = small(tmp_path)
    assert log.problems == []
    joined = b"".join((log.directory / f"{base:020d}.log").read_bytes() for base in segments(log))
    assert joined == b"".join(one.data for one in kept)
    assert [log.end_offset_for_epoch(epoch) for epoch in range(9)] == [
        (0, 0), (1, 6), (2, 8), (2, 8), (2, 8), (2, 8), (2, 8), (7, 11), (-1, -1),
    ]  # fmt: skip
    log.close()


@pytest.mark.parametrize(
    ("offset", "end"),
    [(0, 0), (1, 0), (2, 0), (3, 3), (5, 3), (6, 6), (8, 6), (9, 9), (10, 10), (99, 10)],
)
def test_truncation_inside_a_batch_goes_to_its_begin(tmp_path: Path, offset: int, end: int) -> None:
    log = small(tmp_path, segment_bytes=200)
    fill(log, 1, 3, records=3)
    fill(log, 1)
    log.truncate_to(offset)
    assert log.end_offset == end
    assert fill(log, 2)[0].offset == end
    log.close()


def test_committed_records_are_never_truncated(tmp_path: Path) -> None:
    log = small(tmp_path)
    fill(log, 1, 9, records=2)
    log.set_high_watermark(9)  # in the middle of a batch, as no quorum would have it
    before = sorted((path.name, path.read_bytes()) for path in log.directory.iterdir())
    for offset in (0, 8, 9):
        with pytest.raises(
            BelowHighWatermark, match=rf"truncate to offset {offset}.* high watermark 9"
        ):
            log.truncate_to(offset)
    assert sorted((path.name, path.read_bytes()) for path in log.directory.iterdir()) == before
    log.truncate_to(10)
    assert log.end_offset == 10
    log.close()


# --- high watermark
# ---------------------------------------------------------------------------------------------------


def test_the_high_watermark_is_kept(tmp_path: Path) -> None:
    log = small(tmp_path)
    fill(log, 1, 4)
    log.set_high_watermark(3)
    log.set_high_watermark(2)
    assert log.high_watermark == 3, "it never goes back"
    with pytest.raises(ValueError, match="beyond the end of the log, 4"):
        log.set_high_watermark(5)
    log.close()
    log = small(tmp_path)
    assert log.high_watermark == 3
    log.close()


def test_what_is_flushed_already_is_not_flushed_again_for_the_high_watermarks_sake(
    tmp_path: Path,
) -> None:
    disk = FaultyDisk()
    log = LocalLog.open(tmp_path, LogSettings(), disk=disk)
    fill(log, 1, 2)
    assert log.flushed_offset == 0
    log.set_high_watermark(1)
    assert log.flushed_offset == 2
    fill(log, 1, 2)
    before = disk.count
    log.set_high_watermark(2)
    assert disk.log[before:] == ["write high-watermark", "sync high-watermark"]
    log.set_high_watermark(3)
    assert log.flushed_offset == 4
    log.truncate_to(3)
    assert log.flushed_offset == 3
    log.close()


# --- snapshots
# --------------------------------------------------------------------------------------------------------


def test_a_downloaded_snapshot_takes_the_logs_place(tmp_path: Path) -> None:
    log = small(tmp_path)
    fill(log, 1, 9)
    log.set_high_watermark(5)
    install(log, SnapshotId(100, 4))
    assert (log.start_offset, log.end_offset, log.last_epoch, log.high_watermark) == (
        100,
        100,
        4,
        100,
    )
    assert segments(log) == [100]
    assert log.latest_snapshot == SnapshotId(100, 4)
    assert log.end_offset_for_epoch(4) == (-1, -1), "the log holds no batch"
    with pytest.raises(DecodeError, match="offset 9 stands where offset 100"):
        log.append(batch(9, 1, 4).data)
    with pytest.raises(DecodeError, match="epoch 3 at offset 100 follows epoch 4"):
        log.append(batch(100, 1, 3).data)
    fill(log, 4, 2)
    assert log.end_offset_for_epoch(4) == (4, 102)
    assert log.end_offset_for_epoch(1) == (1, 100)
    install(log, SnapshotId(200, 4))
    assert [path.name for path in log.directory.glob("*.checkpoint")] == [
        SnapshotId(200, 4).file_name
    ]
    log.close()
    log = small(tmp_path)
    assert (log.start_offset, log.end_offset, log.last_epoch, log.high_watermark) == (
        200,
        200,
        4,
        200,
    )
    log.close()


@pytest.mark.parametrize("records", [0, 3])
def test_a_log_that_ends_before_the_only_snapshot_begins_anew_there(
    tmp_path: Path, records: int
) -> None:
    """As a crash leaves it between a snapshot's arrival and the truncation, when an older snapshot
    is gone already.
    """
    log = small(tmp_path)
    install(log, SnapshotId(41, 4))
    if records:
        fill(log, 4, records)
    log.close()
    (log.directory / SnapshotId(41, 4).file_name).unlink()
    (log.directory / SnapshotId(63, 4).file_name).write_bytes(snapshot_bytes(4, (3,)))
    log = small(tmp_path)
    assert (log.start_offset, log.end_offset, log.last_epoch) == (63, 63, 4)
    assert segments(log) == [63]
    fill(log, 4)
    log.close()


def test_a_snapshot_that_is_not_beyond_the_log_does_not_take_its_place(log: LocalLog) -> None:
    fill(log, 2, 9)
    for snapshot in (SnapshotId(9, 2), SnapshotId(5, 2)):
        with pytest.raises(SnapshotNotNewer):
            install(log, snapshot)
    log.set_high_watermark(9)
    with pytest.raises(BelowHighWatermark, match="begin anew"):
        install(log, SnapshotId(8, 3))
    with pytest.raises(SnapshotNotNewer, match="not the newest complete snapshot"):
        log.truncate_to_snapshot(SnapshotId(100, 9))
    assert log.end_offset == 9


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (snapshot_bytes(4, (3,), footer=False), "no SNAPSHOT_FOOTER"),
        (snapshot_bytes(4, (3,))[:-1], "incomplete"),
        (snapshot_bytes(4, (3,)).replace(b"\1" * 20, b"\1" * 19 + b"!"), "wrong CRC"),
        (batch(0, 3).data, "does not begin with a SNAPSHOT_HEADER"),
        (b"", "does not begin"),
    ],
)
def test_a_damaged_snapshot_never_gets_its_name(log: LocalLog, data: bytes, reason: str) -> None:
    writer = log.new_snapshot(SnapshotId(100, 4))
    writer.write(0, data)
    with pytest.raises(DecodeError, match=reason):
        writer.freeze()
    assert not list(log.directory.glob("*checkpoint.part"))
    assert log.latest_snapshot is None


def test_a_snapshot_is_written_in_order_and_can_be_abandoned(log: LocalLog) -> None:
    data = snapshot_bytes(4, (3,))
    writer = log.new_snapshot(SnapshotId(100, 4))
    writer.write(0, data[:50])
    for position in (0, 49, 51):
        with pytest.raises(ValueError, match="do not continue a snapshot of 50 bytes"):
            writer.write(position, data[50:])
    assert writer.size == 50
    assert log.latest_snapshot is None
    writer.abandon()
    writer.abandon()
    assert not list(log.directory.glob("*.part"))
    again = log.new_snapshot(SnapshotId(100, 4))
    again.write(0, data)
    again.freeze()
    again.abandon()
    assert (log.directory / SnapshotId(100, 4).file_name).read_bytes() == data


# --- retention
# --------------------------------------------------------------------------------------------------------


def header_of(timestamp: int) -> bytes:
    record = encode_control_record(
        "SNAPSHOT_HEADER", SnapshotHeaderRecord(last_contained_log_timestamp=timestamp)
    )
    return encode_batch([record], partition_leader_epoch=1, is_control=True)


def with_snapshots(tmp_path: Path, *ends: int, **settings: Any) -> LocalLog:
    """A log of 30 batches of one record in six segments, all committed, with snapshots of ``ends``,
    one a day.
    """
    log = small(tmp_path, **settings)
    fill(log, 1, 30)
    log.set_high_watermark(30)
    for day, end in enumerate(ends):
        writer = log.new_snapshot(SnapshotId(end, 1))
        writer.write(0, header_of(day * _DAY_MS) + _behind_header(snapshot_bytes(1, (3,))))
        writer.freeze()
    return log


def _behind_header(snapshot: bytes) -> bytes:
    return snapshot[12 + int.from_bytes(snapshot[8:12], "big") :]


def test_nothing_goes_while_there_is_room(tmp_path: Path) -> None:
    log = with_snapshots(tmp_path, 10, 20)
    assert log.clean(now_ms=2 * _DAY_MS) == []
    assert log.start_offset == 0
    log.close()


def test_old_snapshots_go_and_the_whole_segments_before_the_next(tmp_path: Path) -> None:
    log = with_snapshots(tmp_path, 10, 20, 25, retention_ms=3 * _DAY_MS)
    assert segments(log)[:4] == [0, 5, 10, 15]
    assert log.clean(now_ms=3 * _DAY_MS + 1) == [
        "00000000000000000000.log",
        "00000000000000000005.log",
        "00000000000000000010.log",
        "00000000000000000015.log",
        "00000000000000000010-0000000001.checkpoint",
    ]
    assert log.start_offset == 20
    assert segments(log)[0] == 20
    assert log.clean(now_ms=3 * _DAY_MS + 1) == []
    assert log.clean(now_ms=10**15)[-1] == "00000000000000000020-0000000001.checkpoint"
    assert log.latest_snapshot == SnapshotId(25, 1)
    assert log.clean(now_ms=10**15) == [], "the newest snapshot stays, however old"
    assert (log.directory / "leader-epoch-checkpoint").read_text() == "0\n1\n1 25\n"
    log.close()
    log = small(tmp_path)
    assert (log.start_offset, log.end_offset, log.problems) == (25, 30, [])
    log.close()


def test_retention_by_size_counts_segments_and_snapshots(tmp_path: Path) -> None:
    log = with_snapshots(tmp_path, 10, 20, 25)
    total = sum(
        path.stat().st_size
        for suffix in ("log", "checkpoint")
        for path in log.directory.glob(f"*.{suffix}")
    )
    log.close()
    log = small(tmp_path, retention_bytes=total)
    assert log.clean(now_ms=0) == []
    log.close()
    log = small(tmp_path, retention_bytes=total - 1)
    assert log.clean(now_ms=0)[-1] == "00000000000000000010-0000000001.checkpoint"
    assert log.clean(now_ms=0) == []
    log.close()


def test_nothing_above_the_high_watermark_is_cleaned(tmp_path: Path) -> None:
    log = small(tmp_path, retention_bytes=1)
    fill(log, 1, 30)
    log.set_high_watermark(15)
    for end in (10, 12, 20):
        writer = log.new_snapshot(SnapshotId(end, 1))
        writer.write(0, snapshot_bytes(1, (3,)))
        writer.freeze()
    log.clean(now_ms=0)
    assert log.start_offset == 12
    assert log.latest_snapshot == SnapshotId(20, 1)
    log.close()


# --- the directory
# ----------------------------------------------------------------------------------------------------


def test_one_directory_has_one_owner(tmp_path: Path, log: LocalLog) -> None:
    with pytest.raises(LogLocked, match=r"in use by this process.*data\.dir of its own"):
        LocalLog.open(tmp_path, LogSettings())
    code = "from gateway.log.local_log import *; LocalLog.open(Path(__import__('sys').argv[1]), LogSettings())"
    command = [sys.executable, "-c", code, str(tmp_path)]
    other = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "LogLocked" in other.stderr
    assert "another process" in other.stderr
    log.close()
    again = LocalLog.open(tmp_path, LogSettings())
    again.close()


def test_a_closed_log_cannot_be_changed(log: LocalLog) -> None:
    log.close()
    with pytest.raises(LogFailed):
        log.append(batch(0).data)
    log.close()


def test_quorum_state_and_meta_properties(tmp_path: Path) -> None:
    log = small(tmp_path)
    directory_id = Uuid.parse("nB3C44ernpzHQ4jsByJ14g")
    log.write_meta_properties("Jm6A9emLQ36FJ-20rS3iUA", 7, directory_id)
    log.write_quorum_state(QuorumStateData(leader_id=2, leader_epoch=9), 1)
    log.close()
    log = small(tmp_path)
    assert log.quorum_state == (1, QuorumStateData(leader_id=2, leader_epoch=9))
    assert log.meta_properties is not None
    assert log.meta_properties.cluster_id == "Jm6A9emLQ36FJ-20rS3iUA"
    assert log.meta_properties.directory_id == directory_id
    log.close()


def test_files_that_a_crash_left_are_removed_and_strangers_are_not(tmp_path: Path) -> None:
    log = small(tmp_path)
    fill(log, 1)
    log.close()
    left = [
        "00000000000000000100-0000000004.checkpoint.part", "00000000000000000100-0000000004-17.checkpoint.part",
        "00000000000000000003.log.deleted", "00000000000000000007.index", "00000000000000000007.timeindex",
        "quorum-state.tmp", "leader-epoch-checkpoint.tmp",
    ]  # fmt: skip
    for name in (*left, "notes.txt", "00000000000000000000.snapshot"):
        (log.directory / name).write_bytes(b"x")
    (tmp_path / "meta.properties.tmp").write_bytes(b"x")
    small(tmp_path).close()
    names = {path.name for path in log.directory.iterdir()}
    assert names.isdisjoint(left)
    assert {"notes.txt", "00000000000000000000.snapshot"} <= names
    assert not (tmp_path / "meta.properties.tmp").exists()


def test_the_bootstrap_snapshot_is_nobodys_and_stays(tmp_path: Path) -> None:
    log = small(tmp_path)
    (log.directory / "00000000000000000000-0000000000.checkpoint").write_bytes(b"whatever")
    log.close()
    log = small(tmp_path)
    assert log.latest_snapshot is None
    assert (log.directory / "00000000000000000000-0000000000.checkpoint").exists()
    log.close()


# --- damage
# -----------------------------------------------------------------------------------------------------------


def damaged(tmp_path: Path, name: str, position: int) -> Path:
    path = tmp_path / "__cluster_metadata-0" / name
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(data)
    return path


def test_a_damaged_or_torn_end_is_cut_off_and_told(tmp_path: Path) -> None:
    log = small(tmp_path)
    batches = fill(log, 1, 3)
    log.set_high_watermark(2)
    log.close()
    damaged(tmp_path, _FIRST, -1)
    log = small(tmp_path)
    assert log.end_offset == 2
    assert len(log.problems) == 1
    assert (
        f"{_FIRST}: {len(batches[2].data)} bytes from byte {len(batches[0].data) * 2} on cut off"
        in log.problems[0]
    )
    log.append(batch(2).data)
    log.close()
    with (log.directory / _FIRST).open("ab") as file:
        file.write(batch(3).data[:30])
    log = small(tmp_path)
    assert log.end_offset == 3
    assert "an unfinished batch" in log.problems[0]
    log.close()


def test_damage_below_the_high_watermark_is_never_cut_off(tmp_path: Path) -> None:
    log = small(tmp_path)
    one = fill(log, 1, 3)[0]
    log.set_high_watermark(3)
    log.close()
    path = damaged(tmp_path, _FIRST, len(one.data) + 30)
    before = path.read_bytes()
    with pytest.raises(
        LogDamaged, match="wrong CRC at offset 1, but up to 3 it was committed"
    ) as caught:
        small(tmp_path)
    assert caught.value.file == str(path)
    assert caught.value.position == len(one.data)
    assert "fetched anew from the quorum" in str(caught.value)
    assert path.read_bytes() == before
    log = LocalLog.open(tmp_path, LogSettings(fsync=False))
    assert (log.end_offset, log.high_watermark) == (1, 1), (
        "without fsync a crash may do this: it is fetched again"
    )
    assert any("before the high watermark 3" in problem for problem in log.problems)
    log.close()


def test_a_lost_segment_is_noticed(tmp_path: Path) -> None:
    log = small(tmp_path)
    fill(log, 1, 12)
    log.set_high_watermark(12)
    log.close()
    (log.directory / "00000000000000000005.log").unlink()
    with pytest.raises(LogDamaged, match="ends at offset 5, but up to 12 it was committed"):
        small(tmp_path)
    (log.directory / _FIRST).unlink()
    with pytest.raises(LogDamaged, match="starts at offset 10 and there is no snapshot"):
        small(tmp_path)


@pytest.mark.parametrize(
    "name",
    ["00000000000000000005.index", "00000000000000000005.timeindex", "leader-epoch-checkpoint"],
)
@pytest.mark.parametrize("content", [None, b"", b"x" * 24, bytes(24), b"0\n1\n7 2\n"])
def test_indexes_and_epochs_are_made_anew_when_missing_or_wrong(
    tmp_path: Path, name: str, content: bytes | None
) -> None:
    log = small(tmp_path)
    for epoch in range(1, 13):
        fill(log, epoch)
    log.close()
    kept = {path.name: path.read_bytes() for path in log.directory.iterdir()}
    if content is None:
        (log.directory / name).unlink()
    else:
        (log.directory / name).write_bytes(content)
    log = small(tmp_path)
    assert [log.end_offset_for_epoch(epoch) for epoch in range(1, 13)] == [
        (epoch, epoch) for epoch in range(1, 13)
    ]
    log.close()
    assert {path.name: path.read_bytes() for path in log.directory.iterdir()} == kept


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b'{"data_version":2}', b'{"data_version":-1}', b'{"leaderId":1}', b"\0" * 90, b"\xff\xfe\x00binary",
        b'{"leaderId":1,"leaderEpoch":2,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA"}', b"[]", b'{"leaderId":1,"lea',
    ],
)  # fmt: skip
def test_a_quorum_state_that_cannot_be_read_is_not_guessed_at(
    tmp_path: Path, content: bytes
) -> None:
    log = small(tmp_path)
    log.close()
    (log.directory / "quorum-state").write_bytes(content)
    with pytest.raises(
        LogDamaged, match=r"quorum-state.*remove it: an observer learns the epoch anew"
    ):
        small(tmp_path)
    (log.directory / "quorum-state").unlink()
    log = small(tmp_path)
    assert log.quorum_state is None
    log.close()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("high-watermark", b"\xff" * 8192),
        ("meta.properties", b"version=7\n"),
        (
            "__cluster_metadata-0/partition.metadata",
            b"version: 0\ntopic_id: nB3C44ernpzHQ4jsByJ14g",
        ),
        (
            "__cluster_metadata-0/partition.metadata",
            b"version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ",
        ),
    ],
)
def test_other_files_that_cannot_be_read_are_told(
    tmp_path: Path, name: str, content: bytes
) -> None:
    small(tmp_path).close()
    (tmp_path / name).write_bytes(content)
    with pytest.raises(LogDamaged) as caught:
        small(tmp_path)
    assert caught.value.file == str(tmp_path / name)


def test_a_snapshot_that_is_damaged_is_removed_if_the_log_does_not_need_it(tmp_path: Path) -> None:
    log = small(tmp_path)
    fill(log, 1, 3)
    log.close()
    bad = log.directory / SnapshotId(2, 1).file_name
    bad.write_bytes(b"")
    log = small(tmp_path)
    assert (log.start_offset, log.end_offset, log.latest_snapshot) == (0, 3, None)
    assert "a snapshot that the log does not need: removed" in log.problems[0]
    install(log, SnapshotId(50, 2))
    log.close()
    (log.directory / SnapshotId(50, 2).file_name).write_bytes(snapshot_bytes(2, (3,))[:-9])
    with pytest.raises(LogDamaged, match="the snapshot that the log starts at is damaged"):
        small(tmp_path)


def test_a_directory_that_may_not_be_written_is_told(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(LogError, match="cannot make directory"):
            LocalLog.open(tmp_path / "file", LogSettings())
        return
    tmp_path.chmod(0o500)
    with pytest.raises(LogError, match="permission"):
        LocalLog.open(tmp_path / "data", LogSettings())
