"""A partition gets a log directory of its broker."""

from __future__ import annotations

from pathlib import Path

from gateway.controller.nodes import LOST, UNASSIGNED
from gateway.log.files.disk import Disk
from gateway.log.files.offset_checkpoint import Checkpoints
from gateway.log.partition.log_directories import LogDirectory
from gateway.server.broker.log_manager import LogManager
from kwire.uuid import ZERO_UUID, Uuid

A, B, C = (Uuid(bytes([number]) * 16) for number in (10, 11, 12))
TOPIC = Uuid(bytes([1]) * 16)


def manager(root: Path, *ids: Uuid, offline: int = 0) -> LogManager:
    """A manager of directories, of which the last ``offline`` cannot be used."""
    directories = []
    for number, id in enumerate(ids):
        (path := root / str(number)).mkdir()
        is_online = number < len(ids) - offline
        checkpoints = Checkpoints(path, Disk(fsync=False), []) if is_online else None
        directories.append(LogDirectory(path, id if is_online else ZERO_UUID, checkpoints))
    return LogManager(directories, 1, Disk(fsync=False), lambda _, __: None)


def placed(logs: LogManager, index: int, assigned: Uuid | None = UNASSIGNED) -> Uuid | None:
    found = logs.place((TOPIC, index), assigned)
    return None if found is None else found.id


def test_new_log_goes_to_the_directory_with_the_fewest(tmp_path: Path) -> None:
    logs = manager(tmp_path, A, B, C)
    assert [placed(logs, index) for index in range(6)] == [A, B, C, A, B, C]
    logs.forget((TOPIC, 1))
    assert placed(logs, 6) == B
    assert placed(logs, 0) == A, "a log stays where it is"


def test_new_log_goes_where_the_image_says(tmp_path: Path) -> None:
    logs = manager(tmp_path, A, B)
    assert [placed(logs, index, B) for index in range(3)] == [B, B, B]
    assert [placed(logs, index) for index in range(3, 6)] == [A, A, A]
    # Of a broker whose directories were all replaced, and of a level without directories.
    assert placed(logs, 6, C) is not None and placed(logs, 7, None) is not None


def test_log_that_may_be_in_an_offline_directory_is_not_begun_elsewhere(tmp_path: Path) -> None:
    logs = manager(tmp_path, A, B, offline=1)
    assert [placed(logs, 0, one) for one in (B, LOST, ZERO_UUID, None)] == [None] * 4
    assert placed(logs, 1, A) == placed(logs, 2) == A
    (directory,) = logs.online
    assert logs.take_offline(directory) == [(TOPIC, 1), (TOPIC, 2)]
    assert logs.online == [] and placed(logs, 3) is None
