"""Pipes and devices in place of the files of a log directory are refused, and never waited for.
New files and directories are for their owner alone.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway.log.files.disk import Disk
from gateway.log.files.errors import DiskFailed
from gateway.log.files.leader_epoch_checkpoint import read_leader_epochs
from gateway.log.files.meta_properties import read_meta_properties
from gateway.log.files.partition_metadata import read_topic_id
from gateway.log.files.quorum_state import read_quorum_state
from gateway.log.files.synced_end import SyncedEnd
from gateway.log.offsets.offset_store_format import SYNCED_END, migrate
from gateway.sources import open_log
from kwire.conformance.log.check import check_log
from kwire.metadata_log.open_file import read_regular
from tests.gateway.server.harness import run
from tests.gateway.server.own_nodes import lone_node
from tests.waiting import PATIENCE_S

PARTITION = "__cluster_metadata-0"


def outcome(function: Callable[[], Any]) -> str:
    """The words of the error that ``function`` raises, empty without one. It must not wait."""
    said: list[str] = []

    def call() -> None:
        try:
            function()
            said.append("")
        except Exception as error:
            said.append(str(error))

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert said, "it waits for a writer of the pipe"
    return said[0]


@pytest.mark.parametrize(
    "read",
    [read_topic_id, read_meta_properties, read_quorum_state, read_leader_epochs, read_regular],
)
def test_pipe_is_refused_in_place_of_a_small_file(
    read: Callable[[Path], Any], tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        assert "a pipe or device" in outcome(partial(read, path))
    assert "Is a directory" in outcome(lambda: read(tmp_path))


def test_pipe_in_place_of_an_old_synced_end_is_none_and_is_removed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / SYNCED_END)
    end = SyncedEnd(tmp_path, Disk(), [])
    assert outcome(lambda: migrate(tmp_path, Disk(), end)) == "" and end.offset == 0
    assert not (tmp_path / SYNCED_END).exists()


def test_pipe_is_refused_in_place_of_a_file_that_is_written(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DiskFailed, match="a pipe or device"):
        Disk().open(tmp_path / "pipe")


def made(directory: Path) -> list[Path]:
    """The files that a node made in ``directory``."""

    async def main() -> None:
        async with lone_node(directory) as node:
            assert await node.create("orders") == 0

    run(main)
    return [path for path in directory.rglob("*") if path.is_file()]


def test_no_file_of_a_directory_is_waited_for(tmp_path: Path) -> None:
    for file in made(tmp_path / "data"):
        aside = tmp_path / "aside"
        file.rename(aside)
        os.mkfifo(file)
        outcome(lambda: open_log(tmp_path / "data" / PARTITION).refresh())
        outcome(lambda: check_log(tmp_path / "data" / PARTITION))
        file.unlink()
        aside.rename(file)


def test_files_and_directories_of_a_node_are_for_its_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        files = made(tmp_path / "new" / "data")
    finally:
        os.umask(before)
    assert any(file.suffix == ".log" for file in files)
    directories = [one for one in (tmp_path / "new").rglob("*") if one.is_dir()]
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [*files, *directories]}
    assert {path: oct(mode) for path, mode in modes.items() if mode & 0o077} == {}


def test_files_and_directories_that_exist_keep_their_modes(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data").chmod(0o750)
    path = tmp_path / "data" / "file"
    path.touch()
    path.chmod(0o640)
    disk = Disk()
    disk.make_directory(tmp_path / "data")
    disk.open(path).close()
    assert [stat.S_IMODE(one.stat().st_mode) for one in (tmp_path / "data", path)] == [0o750, 0o640]
