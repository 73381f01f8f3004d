"""A start of a partition that holds data reads its log from the recovery point on: counted in bytes
that were read. Files that are missing or contradict the log cost time, and no record.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.log.files.disk import Disk
from gateway.log.files.offset_checkpoint import (
    RECOVERY_POINT,
    Checkpoints,
    format_offsets,
    read_offsets,
)
from gateway.log.partition.cleanup_settings import CleanupSettings
from gateway.ports.replicas import Appended
from gateway.ports.services import State
from gateway.sources.data_partition import DataPartition
from tests.gateway.log.counted_reads import read_by
from tests.gateway.log.crash_disk import QuietDisk, read_state
from tests.gateway.log.faulty_disk import FaultyDisk
from tests.gateway.sources.data_partitions import (
    SETTINGS,
    appended,
    batch_of,
    checkpoint,
    kill,
    led,
    settle,
    shown,
    stop,
    write,
)

_LARGE = replace(SETTINGS, segment_bytes=200_000)
_BATCH_BYTES = 2000


def opened(directory: Path, settings: Any = _LARGE, epoch: int = 2, **more: Any) -> DataPartition:
    more.setdefault("disk", QuietDisk())
    one: DataPartition = led(directory, settings, epoch, **more)
    return one


def grow(one: DataPartition, batches: int) -> None:
    for _ in range(batches):
        number = one.high_watermark
        value = b"%d" % number + bytes(_BATCH_BYTES)
        outcome = appended(one, batch_of(value, producer_id=9, base_sequence=number))
        assert isinstance(outcome, Appended) and outcome.base_offset == number


def size_of(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.glob("*.log"))


def bytes_of_start(monkeypatch: pytest.MonkeyPatch, directory: Path) -> int:
    """Open the partition, and let its process end; return the bytes that were read."""
    made: list[DataPartition] = []
    read = read_by(monkeypatch, lambda: made.append(opened(directory)))
    assert made[0].state is State.READY
    kill(made[0])
    return read


def killed(one: DataPartition, target: Path) -> Path:
    """Copy the data directory of a process that is killed now; return that of the partition."""
    shutil.copytree(one.directory.parent, target)
    return target / one.directory.name


def test_start_after_a_clean_stop_reads_a_small_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = opened(tmp_path / "t-0", epoch=1)
    grow(one, 350)
    stop(one)
    assert len([*(tmp_path / "t-0").glob("*.log")]) > 3
    assert bytes_of_start(monkeypatch, tmp_path / "t-0") < size_of(tmp_path / "t-0") / 20
    one = opened(tmp_path / "t-0", epoch=3)
    assert one.high_watermark == 350 and one.stored.repairs == []
    assert one.end_offset_for_epoch(1) == (1, 350)
    # The five newest batches of a producer are recognized, the one before is not.
    for number in range(345, 350):
        outcome = appended(one, batch_of(b"again", producer_id=9, base_sequence=number))
        assert isinstance(outcome, Appended) and outcome.base_offset == number
    assert not isinstance(appended(one, batch_of(b"a", producer_id=9, base_sequence=344)), Appended)
    grow(one, 5)
    stop(one)


def test_start_after_a_kill_reads_from_the_last_checkpoint_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = opened(tmp_path / "one/t-0", replace(SETTINGS, segment_bytes=10**7))
    grow(one, 400)
    assert checkpoint(one) and not checkpoint(one)
    grow(one, 100)
    copy = killed(one, tmp_path / "killed")
    size = size_of(copy)
    assert size / 5 < bytes_of_start(monkeypatch, copy) < size / 3
    (copy.parent / RECOVERY_POINT).unlink()
    assert bytes_of_start(monkeypatch, copy) >= size


def test_log_without_a_recovery_point_is_read_whole_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older release has written it."""
    one = opened(tmp_path / "t-0")
    grow(one, 300)
    one.close()
    points = tmp_path / RECOVERY_POINT
    points.write_bytes(format_offsets({("__cluster_metadata", 0): 77}))
    assert bytes_of_start(monkeypatch, tmp_path / "t-0") >= size_of(tmp_path / "t-0")
    one = opened(tmp_path / "t-0", checkpoints=Checkpoints(tmp_path, Disk(), []))
    stop(one)
    assert read_offsets(points) == {("__cluster_metadata", 0): 77, ("t", 0): 300}
    assert bytes_of_start(monkeypatch, tmp_path / "t-0") < size_of(tmp_path / "t-0") / 20


def test_segment_that_was_closed_moves_the_recovery_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = opened(tmp_path / "one/t-0")
    grow(one, 310)
    one.stored.checkpoints.recovery_points.save()
    copy = killed(one, tmp_path / "killed")
    *_, active = sorted(copy.glob("*.log"))
    read = bytes_of_start(monkeypatch, copy)
    assert active.stat().st_size <= read < active.stat().st_size * 1.5


def _index(directory: Path) -> Path:
    return sorted(directory.glob("*.index"))[-1]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda directory: _index(directory).unlink(),
        lambda directory: _index(directory).write_bytes(bytes(80)),
        lambda directory: (directory / "leader-epoch-checkpoint").unlink(),
        lambda directory: (directory / "leader-epoch-checkpoint").write_bytes(b"0\n1\n9 0\n"),
        lambda directory: (directory / "leader-epoch-checkpoint").write_bytes(b"torn"),
        lambda directory: [path.unlink() for path in directory.glob("*.snapshot")],
        lambda directory: [path.write_bytes(b"torn") for path in directory.glob("*.snapshot")],
    ],
)
def test_file_that_is_missing_or_wrong_costs_a_read_and_nothing_else(
    tmp_path: Path, spoil: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = opened(tmp_path / "t-0")
    grow(one, 60)
    stop(one)
    whole = read_state(tmp_path)
    spoil(tmp_path / "t-0")
    assert bytes_of_start(monkeypatch, tmp_path / "t-0") >= size_of(tmp_path / "t-0")
    one = opened(tmp_path / "t-0")
    assert [offset for offset, _ in shown(one)] == list(range(60))
    grow(one, 1)
    one = opened(tmp_path / "t-0")
    stop(one)
    left = read_state(tmp_path)
    assert {path for path in whole if path.suffix != ".snapshot"} == {
        path for path in left if path.suffix != ".snapshot"
    }


def test_index_of_a_closed_segment_that_is_missing_is_made_anew(tmp_path: Path) -> None:
    one = opened(tmp_path / "t-0")
    grow(one, 350)
    stop(one)
    first, second, *_ = sorted((tmp_path / "t-0").glob("*.index"))
    before = first.read_bytes(), second.with_suffix(".timeindex").read_bytes()
    first.unlink()
    second.with_suffix(".timeindex").unlink()
    one = opened(tmp_path / "t-0")
    assert (first.read_bytes(), second.with_suffix(".timeindex").read_bytes()) == before
    assert [offset for offset, _ in shown(one)] == list(range(350))
    stop(one)


def test_epochs_of_segments_that_are_not_read_are_known(tmp_path: Path) -> None:
    for epoch in (1, 4, 6):
        one = opened(tmp_path / "t-0", epoch=epoch)
        grow(one, 150)
        stop(one)
    one = opened(tmp_path / "t-0", epoch=9)
    ends = [one.end_offset_for_epoch(epoch) for epoch in (1, 4, 6)]
    assert ends == [(1, 150), (4, 300), (6, 450)]
    assert [one.epoch_at(offset) for offset in (149, 150, 300, 449)] == [1, 4, 6, 6]
    stop(one)


def test_damage_behind_the_recovery_point_is_refused_or_cut(tmp_path: Path) -> None:
    one = opened(tmp_path / "one/t-0")
    grow(one, 20)
    checkpoint(one)
    grow(one, 300)
    copy = killed(one, tmp_path / "killed")
    first, *_, last = sorted(copy.glob("*.log"))
    last.write_bytes(last.read_bytes()[:-1])
    again = opened(copy)
    assert again.high_watermark == 319 and len(again.stored.repairs) == 1
    kill(again)
    data = bytearray(first.read_bytes())
    data[-1] ^= 1
    first.write_bytes(data)
    again = opened(copy)
    assert again.state is State.BROKEN and str(first) in str(again.problems[0])


def test_log_that_ends_before_its_recovery_point_goes_on_where_it_ends(tmp_path: Path) -> None:
    """A file system that lost what was synced, or an older copy of the directory."""
    one = opened(tmp_path / "t-0")
    grow(one, 60)
    stop(one)
    (log,) = (tmp_path / "t-0").glob("*.log")
    data = log.read_bytes()
    log.write_bytes(data[: len(data) // 2])
    one = opened(tmp_path / "t-0")
    end = one.high_watermark
    assert 20 < end < 60 and any("up to 60" in repair for repair in one.stored.repairs)
    assert read_offsets(tmp_path / RECOVERY_POINT) == {("t", 0): end}
    # The producer is known by the batches that are left, not by the snapshot of all of them.
    grow(one, 1)
    assert [offset for offset, _ in shown(one)] == list(range(end + 1))
    stop(one)


def test_start_of_a_compacted_log_reads_a_small_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = opened(
        tmp_path / "t-0", replace(_LARGE, cleanup=CleanupSettings(deletes=False, compacts=True))
    )
    grow(one, 150)
    stop(one)
    # As compaction leaves it: the first batch is gone.
    *_, last = sorted((tmp_path / "t-0").glob("*.log"))
    data = last.read_bytes()
    assert int(last.stem) > 0 and len(data) > 20 * _BATCH_BYTES
    size = len(data) // (150 - int(last.stem))
    last.write_bytes(data[size:])
    for suffix in (".index", ".timeindex"):
        last.with_suffix(suffix).unlink()
    one = opened(tmp_path / "t-0")
    left = [offset for offset, _ in shown(one)]
    assert left == [offset for offset in range(150) if offset != int(last.stem)]
    stop(one)
    assert bytes_of_start(monkeypatch, tmp_path / "t-0") < last.stat().st_size / 4


def test_failed_sync_of_a_checkpoint_has_the_log_opened_again(tmp_path: Path) -> None:
    disk = FaultyDisk(error=errno.EIO)
    one = opened(tmp_path / "t-0", disk=disk)
    grow(one, 10)
    checkpoint(one)
    grow(one, 10)
    before = one.stored.log
    disk.fails_next = "sync 00000000000000000000.log"
    checkpoint(one)
    assert one.stored.log is not before and one.stored.checkpoints.recovery_points.get("t", 0) == 10
    assert checkpoint(one)
    assert [offset for offset, _ in shown(one)] == list(range(20))
    stop(one)


def test_checkpoint_of_a_log_that_was_truncated_meanwhile_counts_for_nothing(
    tmp_path: Path,
) -> None:
    one = opened(tmp_path / "t-0")
    grow(one, 10)
    made: list[Any] = []
    one.checkpoint.plan(made.append)
    settle(one)
    assert one.stored.log is not None
    one.stored.log.truncate_to(5, high_watermark=0)
    write(one, made[0])
    assert not one.stored.checkpoints.recovery_points.get("t", 0)
    assert not [*(tmp_path / "t-0").glob("*.snapshot")]


def test_snapshots_of_former_checkpoints_go(tmp_path: Path) -> None:
    one = opened(tmp_path / "t-0", replace(SETTINGS, segment_bytes=10**7))
    for _ in range(5):
        grow(one, 3)
        checkpoint(one)
    names = {int(path.stem) for path in (tmp_path / "t-0").glob("*.snapshot")}
    assert names == {12, 15}
    stop(one)


def test_topic_of_the_same_name_has_no_recovery_point(tmp_path: Path) -> None:
    points = Checkpoints(tmp_path, Disk(), [])
    one = opened(tmp_path / "t-0", checkpoints=points)
    grow(one, 10)
    checkpoint(one)
    one.delete(shutil.rmtree)
    settle(one)
    assert points.recovery_points.get("t", 0) is None
    assert read_offsets(tmp_path / RECOVERY_POINT) == {}


def test_checkpoint_whose_index_entries_cannot_be_written_is_made_later(tmp_path: Path) -> None:
    disk = FaultyDisk()
    one = opened(tmp_path / "t-0", disk=disk)
    grow(one, 10)
    checkpoint(one)
    grow(one, 5)
    before = one.stored.log
    disk.fails_next = "write 00000000000000000000.index"
    assert not checkpoint(one)
    assert not disk.fails_next, "the write has failed"
    assert one.stored.log is before and one.stored.checkpoints.recovery_points.get("t", 0) == 10
    assert checkpoint(one)
    kill(one)
    one = opened(tmp_path / "t-0")
    assert [offset for offset, _ in shown(one)] == list(range(15)) and not one.stored.repairs
    stop(one)
