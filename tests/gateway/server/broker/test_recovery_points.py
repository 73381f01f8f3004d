"""The recovery points of a broker's partitions: all that have grown are moved, and one write saves
them.
"""

from __future__ import annotations

import errno
from functools import partial
from pathlib import Path
from typing import Any

import trio
import trio.testing

from gateway.log.files.disk import Disk
from gateway.log.files.errors import DiskFailed, LogError
from gateway.log.files.offset_checkpoint import RECOVERY_POINT, Checkpoints, read_offsets
from gateway.log.partition.log_directories import LogDirectory
from gateway.server.broker.log_manager import LogManager
from gateway.server.broker.recovery_points import RecoveryPoints
from gateway.sources.data_partition import DataPartition
from kwire.uuid import ZERO_UUID
from tests.gateway.log.faulty_disk import FaultyDisk
from tests.gateway.server.broker.test_data_log_cleaner import Reports
from tests.gateway.sources.data_partitions import appended, batch_of, led, settle
from tests.waiting import until_async


class Replicas:
    """Partitions ``t-0``, ``u-0`` ... whose jobs are performed at once."""

    def __init__(self, root: Path, disk: Disk, count: int) -> None:
        checkpoints = Checkpoints(root, disk, [])
        directory = LogDirectory(root, ZERO_UUID, checkpoints, has_metadata=True)
        self.logs = LogManager([directory], 1, disk, lambda _, __: None)
        self.failures: list[LogError] = []
        self.partitions: list[DataPartition] = []
        for number in range(count):
            one = led(
                root / f"t{number}-0",
                wake=lambda partition: settle(partition),
                disk=disk,
                checkpoints=checkpoints,
            )
            self.partitions.append(one)

    def disk_failed(self, _: LogDirectory, failure: LogError) -> None:
        self.failures.append(failure)


def moved(replicas: Any, reports: Any) -> None:
    trio.run(RecoveryPoints(replicas, reports).move)


def test_points_of_logs_that_have_grown_are_moved_by_one_write(tmp_path: Path) -> None:
    disk, reports = FaultyDisk(), Reports()
    replicas = Replicas(tmp_path, disk, 5)
    for one in replicas.partitions[:3]:
        appended(one, batch_of(b"a", b"b"))
    disk.log.clear()
    moved(replicas, reports)
    points = tmp_path / RECOVERY_POINT
    assert read_offsets(points) == {("t0", 0): 2, ("t1", 0): 2, ("t2", 0): 2}
    assert disk.log.count(f"rename to {RECOVERY_POINT}") == 1
    disk.log.clear()
    moved(replicas, reports)
    assert disk.log == [] and reports.events == []
    appended(replicas.partitions[1], batch_of(b"c"))
    moved(replicas, reports)
    assert read_offsets(points)["t1", 0] == 3
    # Of the others nothing was synced again.
    assert sum(name.startswith("sync 0") and ".log" in name for name in disk.log) == 1


def test_failed_sync_is_reported_and_the_points_of_the_other_logs_are_moved(
    tmp_path: Path,
) -> None:
    disk, reports = FaultyDisk(error=errno.EIO), Reports()
    replicas = Replicas(tmp_path, disk, 2)
    for one in replicas.partitions:
        appended(one, batch_of(b"a"))
    disk.fails_at = disk.count
    moved(replicas, reports)
    assert reports.events == ["partition not synced"]
    assert read_offsets(tmp_path / RECOVERY_POINT) == {("t1", 0): 1}


def test_points_that_cannot_be_saved_tell_of_a_failed_disk(tmp_path: Path) -> None:
    disk, reports = FaultyDisk(error=errno.EIO), Reports()
    replicas = Replicas(tmp_path, disk, 1)
    appended(replicas.partitions[0], batch_of(b"a"))
    replicas.logs.online[0].saved.recovery_points.note("t0", 0, 7)
    disk.fails_at = disk.count + 1  # behind the sync of the log
    moved(replicas, reports)
    assert reports.events == ["partition not synced"]
    (failure,) = replicas.failures
    assert isinstance(failure, DiskFailed) and failure.is_lasting


def _is_moved(points: Path, offset: int) -> bool:
    return read_offsets(points) == {("t0", 0): offset}


def test_points_are_moved_at_each_interval(tmp_path: Path) -> None:
    replicas, points = Replicas(tmp_path, FaultyDisk(), 1), tmp_path / RECOVERY_POINT

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(RecoveryPoints(replicas, Reports()).run)  # type: ignore[arg-type]
            for number in range(3):
                appended(replicas.partitions[0], batch_of(b"a"))
                await until_async(partial(_is_moved, points, number + 1), "the point")
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(rate=1000))
