"""Snapshots of a local log: a download that replaces it, and retention."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.log.files.errors import (
    BelowHighWatermark,
    SnapshotNotNewer,
)
from gateway.log.metadata.local_log import LocalLog, LogSettings
from kwire.errors import DecodeError
from kwire.messages.snapshot_header_record import SnapshotHeaderRecord
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.records.control import encode_control_record
from kwire.records.encode import encode_batch
from tests.gateway.log.kafka_files import batch, snapshot_bytes
from tests.gateway.log.local_log_files import (
    fill,
    install,
    segments,
    small,
)

_DAY_MS = 24 * 60 * 60 * 1000


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LocalLog]:
    log = LocalLog.open(tmp_path, LogSettings())
    yield log
    log.close()


# --- snapshots
# -------------------------------------------------------------------------------------------------


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
# -------------------------------------------------------------------------------------------------


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
