"""The log of a partition is moved to another directory: all of it, or it stays."""

from __future__ import annotations

import errno
import itertools
import shutil
from pathlib import Path
from typing import Any

import pytest

from gateway.log.files.offset_checkpoint import Checkpoints
from gateway.log.partition.log_move import LogMove
from gateway.log.partition.log_settings import LogSettings
from gateway.log.partition.partition_directories import partition_directories, remove_deleted
from gateway.ports.replicas import Appended
from gateway.sources.data_partition import DataPartition
from tests.gateway.log.faulty_disk import FaultyDisk
from tests.gateway.sources.data_partitions import (
    TOPIC_ID,
    appended,
    batch_of,
    kill,
    led,
    settle,
    shown,
    stop,
)

SMALL = LogSettings(fsync=True, segment_bytes=300, index_interval_bytes=100)
UNIQUE = "0123456789abcdef" * 2


def values_of(one: DataPartition) -> list[bytes | None]:
    return [value for _, value in shown(one)]


class Moving:
    """A partition ``t-0`` in the directory ``a``, which is moved to ``b``."""

    def __init__(self, root: Path, disk: FaultyDisk | None = None) -> None:
        self.disk = disk or FaultyDisk()
        self.paths = root / "a", root / "b"
        for path in self.paths:
            path.mkdir()
        self.checkpoints = [Checkpoints(path, self.disk, []) for path in self.paths]
        self.log: Any = led(
            self.paths[0] / "t-0", SMALL, disk=self.disk, checkpoints=self.checkpoints[0]
        )
        self.values = [b"%d" % number * 40 for number in range(6)]
        for value in self.values:
            appended(self.log, batch_of(value))
        self.made = LogMove(self.log.directory, self.paths[1], UNIQUE, self.disk)

    def copy(self, *, roll: bool = False) -> None:
        found: list[Any] = []
        self.log.moving.begin(found.append, roll=roll)
        settle(self.log)
        self.made.copy_closed(found[0])

    def finish(self) -> bool:
        found: list[bool] = []
        self.log.moving.finish(self.made, self.checkpoints[1], found.append)
        settle(self.log)
        return found[0]

    def append(self, value: bytes) -> None:
        """Append a value; it counts if it was acknowledged."""
        if isinstance(appended(self.log, batch_of(value)), Appended):
            self.values.append(value)

    def logs(self) -> list[Path]:
        """The directories that a start would take for the log."""
        return [
            found
            for path in self.paths
            if (found := partition_directories(path).get((TOPIC_ID, 0))) is not None
        ]


def read_after_kill(directory: Path, root: Path) -> list[bytes | None]:
    """The records that a start would find in a directory."""
    shutil.copytree(directory.parent, root)
    one = led(root / directory.name, SMALL, epoch=9)
    found = values_of(one)
    kill(one)
    return found


def test_log_is_moved_with_what_was_appended_and_deleted_meanwhile(tmp_path: Path) -> None:
    moving = Moving(tmp_path)
    moving.disk.delete_later = lambda path, delay_ms: None
    moving.copy()
    moving.append(b"later")
    deleted: list[Any] = []
    moving.log.delete_records(3, deleted.append)
    settle(moving.log)
    assert deleted == [3] and list(moving.log.directory.glob("*.deleted"))
    moving.copy(roll=True)
    moving.append(b"latest")
    assert moving.finish() is True
    assert moving.log.directory == moving.paths[1] / "t-0" == moving.logs()[0]
    assert list(moving.log.directory.glob("*.deleted")) == []
    assert len(moving.logs()) == 1 and [path.name for path in moving.paths[0].glob("t-0*")] == []
    moving.append(b"behind the move")
    assert values_of(moving.log) == moving.values[3:]
    assert moving.checkpoints[1].log_starts.get("t", 0) == 3
    assert moving.checkpoints[0].log_starts.get("t", 0) is None
    stop(moving.log)
    again = led(moving.paths[1] / "t-0", SMALL, epoch=2)
    assert values_of(again) == moving.values[3:]


def test_log_that_was_cut_after_the_copy_is_copied_again(tmp_path: Path) -> None:
    moving = Moving(tmp_path)
    moving.copy()
    log = moving.log.stored.log
    log.truncate_to(4, high_watermark=0)
    moving.log.stored.reread()
    moving.values = moving.values[:4]
    for number in range(10, 14):  # of the same lengths
        moving.append(b"%d" % (number % 10) * 40)
    assert moving.finish() is True
    assert values_of(moving.log) == moving.values


def test_move_that_fails_at_any_step_loses_nothing(tmp_path: Path) -> None:
    for fails_at in itertools.count():
        root = tmp_path / str(fails_at)
        root.mkdir()
        moving = Moving(root, FaultyDisk(error=errno.EIO))
        moving.copy()
        moving.disk.fails_at = moving.disk.count + fails_at
        moved = moving.finish()
        has_failed = moving.disk.count > moving.disk.fails_at
        moving.disk.fails_at = -1
        moving.append(b"acknowledged")
        assert values_of(moving.log) == moving.values
        (found,) = moving.logs()
        assert found == moving.log.directory == moving.paths[moved] / "t-0"
        kill(moving.log)
        assert read_after_kill(found, root / "killed") == moving.values
        if not has_failed:
            assert moved
            return


def test_every_directory_that_a_kill_leaves_has_the_whole_log(tmp_path: Path) -> None:
    for dies_at in itertools.count():
        root = tmp_path / str(dies_at)
        root.mkdir()
        moving = Moving(root, FaultyDisk(error=errno.EIO, for_good=True))
        moving.copy()
        moving.disk.fails_at = moving.disk.count + dies_at
        moving.finish()
        has_died = moving.disk.count > moving.disk.fails_at
        kill(moving.log)
        for path in moving.paths:
            remove_deleted(path)
        logs = moving.logs()
        assert logs, "the log is somewhere"
        for number, path in enumerate(logs):
            assert read_after_kill(path, root / f"killed-{number}") == moving.values
        assert list(root.glob("?/*-future")) == []
        if not has_died:
            return


@pytest.mark.parametrize("is_deleted", [True, False])
def test_log_that_is_gone_is_not_moved(tmp_path: Path, is_deleted: bool) -> None:
    moving = Moving(tmp_path)
    moving.copy()
    one: DataPartition = moving.log
    if is_deleted:
        one.delete(shutil.rmtree)
    else:
        one.stored.give_up()
    assert moving.finish() is False
    moving.made.drop()
    assert list(moving.paths[1].glob("t-0*")) == []
