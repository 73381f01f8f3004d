"""A start reads the log from its recovery point on, and not what is known to be on disk: counted in
bytes that were read.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.log.files.offset_checkpoint import RECOVERY_POINT, format_offsets, read_offsets
from gateway.log.metadata.control_records import read_control_records
from gateway.log.metadata.local_log import LocalLog, LogSettings
from gateway.log.reading.own_log import OwnLog
from kwire.messages.snapshot_footer_record import SnapshotFooterRecord
from kwire.messages.snapshot_header_record import SnapshotHeaderRecord
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.records import Record, encode_batch
from tests.gateway.log.counted_reads import read_by
from tests.gateway.log.crash_disk import read_state
from tests.gateway.log.kafka_files import batch, snapshot_bytes
from tests.gateway.log.local_log_files import FIRST
from tests.gateway.log.voting import control_batch, voters

_SETTINGS = LogSettings(retention_bytes=-1, retention_ms=-1)
_BATCH_BYTES = 2000
_KEY = ("__cluster_metadata", 0)


def grow(log: LocalLog, batches: int, epoch: int = 1) -> None:
    for _ in range(batches):
        log.append(batch(log.end_offset, 2, epoch, size=_BATCH_BYTES // 2).data)
    log.flush()


def start(data_dir: Path) -> None:
    """Open the log for writing and for readers, as a node does."""
    log = LocalLog.open(data_dir, _SETTINGS)
    assert log.problems == []
    OwnLog(log.log, snapshot_prefix=False)
    log.close()


def cut_off(data_dir: Path, log: LocalLog) -> Path:
    """Copy the directory of a process that is killed now."""
    copy = data_dir.with_name(f"{data_dir.name} killed at {log.end_offset}")
    shutil.copytree(data_dir, copy)
    log.close()
    return copy


def test_start_after_a_clean_stop_reads_a_small_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LocalLog.open(tmp_path / "log", _SETTINGS)
    grow(log, 200)
    grow(log, 200, epoch=2)
    log.close()
    size = (tmp_path / "log/__cluster_metadata-0" / FIRST).stat().st_size
    assert size > 400 * _BATCH_BYTES
    before = read_state(tmp_path / "log")
    assert read_by(monkeypatch, lambda: start(tmp_path / "log")) < size / 20
    assert read_state(tmp_path / "log") == before
    log = LocalLog.open(tmp_path / "log", _SETTINGS)
    assert (log.end_offset, log.epochs) == (800, ((1, 0), (2, 400)))
    grow(log, 5, epoch=3)
    assert log.end_offset_for_epoch(2) == (2, 800)
    log.close()


def test_start_of_a_log_that_begins_inside_its_segment_reads_a_small_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = LogSettings(segment_bytes=300_000, retention_bytes=1, retention_ms=-1)
    log = LocalLog.open(tmp_path / "log", settings)
    grow(log, 200)
    grow(log, 110, epoch=2)
    grow(log, 90, epoch=3)
    log.set_high_watermark(800)
    for end, epoch in ((300, 1), (640, 3)):
        writer = log.new_snapshot(SnapshotId(end, epoch))
        writer.write(0, snapshot_bytes(epoch, ()))
        writer.freeze()
    log.clean(now_ms=0)
    assert (log.start_offset, log.epochs) == (640, ((3, 640),))
    log.close()
    (path,) = (tmp_path / "log/__cluster_metadata-0").glob("*.log")
    assert int(path.stem) < 620, "records of an epoch that is not kept are in it, too"
    assert read_by(monkeypatch, lambda: start(tmp_path / "log")) < path.stat().st_size / 5
    log = LocalLog.open(tmp_path / "log", settings)
    assert (log.start_offset, log.end_offset, log.epochs) == (640, 800, ((3, 640),))
    log.close()


def test_start_after_a_kill_reads_from_the_last_checkpoint_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LocalLog.open(tmp_path / "log", _SETTINGS)
    grow(log, 400)
    log.checkpoint()
    grow(log, 100)
    killed = cut_off(tmp_path / "log", log)
    size = (killed / "__cluster_metadata-0" / FIRST).stat().st_size
    assert size / 5 < read_by(monkeypatch, lambda: start(killed)) < size / 3
    (killed / RECOVERY_POINT).unlink()
    assert read_by(monkeypatch, lambda: start(killed)) >= size


@pytest.mark.parametrize(
    "spoil",
    [
        lambda log: log.with_suffix(".index").unlink(),
        lambda log: log.with_suffix(".index").write_bytes(bytes(80)),
        lambda log: log.with_suffix(".timeindex").write_bytes(bytes(24)),
        lambda log: log.with_name("leader-epoch-checkpoint").write_bytes(b"0\n1\n7 0\n"),
        lambda log: log.with_name("leader-epoch-checkpoint").unlink(),
        lambda log: os.truncate(log.with_suffix(".index"), 7),
    ],
)
def test_files_that_contradict_the_log_have_all_of_it_read(
    tmp_path: Path, spoil: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LocalLog.open(tmp_path / "log", _SETTINGS)
    grow(log, 100)
    log.close()
    path = tmp_path / "log/__cluster_metadata-0" / FIRST
    whole = read_state(tmp_path / "log")
    spoil(path)
    size = path.stat().st_size
    assert read_by(monkeypatch, lambda: start(tmp_path / "log")) >= size
    assert read_state(tmp_path / "log") == whole


def test_index_of_another_log_is_not_used(tmp_path: Path) -> None:
    for name, size in (("one", 50), ("other", 900)):
        log = LocalLog.open(tmp_path / name, _SETTINGS)
        for _ in range(200):
            log.append(batch(log.end_offset, 1, 1, size=size).data)
        log.close()
    one, other = (tmp_path / name / "__cluster_metadata-0" / FIRST for name in ("one", "other"))
    good = other.with_suffix(".index").read_bytes()
    shutil.copy(one.with_suffix(".index"), other.with_suffix(".index"))
    start(tmp_path / "other")
    assert other.with_suffix(".index").read_bytes() == good


def test_truncation_lowers_the_recovery_point_first(tmp_path: Path) -> None:
    log = LocalLog.open(tmp_path / "log", _SETTINGS)
    grow(log, 50)
    log.set_high_watermark(20)
    log.checkpoint()
    points = tmp_path / "log" / RECOVERY_POINT
    assert read_offsets(points) == {_KEY: 100}
    log.truncate_to(60)
    assert read_offsets(points)[_KEY] <= 20
    grow(log, 10, epoch=2)
    log.close()
    assert read_offsets(points) == {_KEY: 80}


def test_point_beyond_the_log_is_lowered_before_an_append(tmp_path: Path) -> None:
    """The files were restored from an older copy."""
    log = LocalLog.open(tmp_path / "log", _SETTINGS)
    grow(log, 50)
    log.close()
    points = tmp_path / "log" / RECOVERY_POINT
    points.write_bytes(format_offsets({("orders", 1): 7, _KEY: 500}))
    log = LocalLog.open(tmp_path / "log", _SETTINGS)
    assert read_offsets(points) == {("orders", 1): 7, _KEY: 100}
    log.close()


def test_file_that_cannot_be_read_is_told_and_costs_no_more_than_a_read(tmp_path: Path) -> None:
    log = LocalLog.open(tmp_path / "log", _SETTINGS)
    grow(log, 5)
    log.close()
    (tmp_path / "log" / RECOVERY_POINT).write_bytes(b"0\n5\n")
    log = LocalLog.open(tmp_path / "log", _SETTINGS)
    assert len(log.problems) == 1 and RECOVERY_POINT in log.problems[0]
    assert log.end_offset == 10
    log.close()


def test_voter_sets_are_read_from_the_newest_snapshot_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LocalLog.open(tmp_path / "log", _SETTINGS)
    log.append(control_batch(0, 1))
    grow(log, 400)
    end = log.end_offset
    log.set_high_watermark(end)
    writer = log.new_snapshot(SnapshotId(end, 1))
    head = ("SNAPSHOT_HEADER", SnapshotHeaderRecord()), ("KRAFT_VOTERS", voters(1))
    footer = control_batch(2, 1, ("SNAPSHOT_FOOTER", SnapshotFooterRecord()))
    writer.write(0, control_batch(0, 1, *head) + footer)
    writer.freeze()
    log.append(control_batch(end, 1, ("KRAFT_VOTERS", voters(1))))
    log.close()
    size = (log.directory / FIRST).stat().st_size
    found = read_control_records(log.directory)
    assert [offset for offset, _ in found.voters] == [end - 1, end]
    assert read_by(monkeypatch, lambda: read_control_records(log.directory)) < size / 20


def test_record_of_the_tail_is_checked_whatever_the_point_says(tmp_path: Path) -> None:
    log = LocalLog.open(tmp_path / "log", _SETTINGS)
    grow(log, 50)
    log.close()
    path = tmp_path / "log/__cluster_metadata-0" / FIRST
    with path.open("ab") as file:
        record = Record(offset=100, timestamp=1, value=b"x" * 50)
        file.write(encode_batch([record], partition_leader_epoch=1)[:-1] + b"?")
    log = LocalLog.open(tmp_path / "log", _SETTINGS)
    assert log.end_offset == 100
    assert len(log.problems) == 1 and "wrong CRC" in log.problems[0]
    log.close()
