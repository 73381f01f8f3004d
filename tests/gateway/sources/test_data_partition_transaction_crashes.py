"""A crash behind any file operation of a partition with transactions: its producers, its last
stable offset and its aborted transactions are those that its batches say.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.ports.services import State as PartitionState
from tests.gateway.log.crash_disk import (
    CrashDisk,
    NewStates,
    Op,
    QuietDisk,
    RecordingDisk,
    State,
    write_state,
)
from tests.gateway.sources.data_partitions import (
    SETTINGS,
    checkpoint,
    led,
    partition,
    record,
    settle,
    stop,
)
from tests.gateway.sources.test_data_partition_transactions import files, newest, states
from tests.gateway.sources.transactions import Model, committed, stable

_DIRECTORY = "t-0"


@pytest.fixture(scope="module")
def ops(tmp_path_factory: pytest.TempPathFactory) -> list[Op]:
    """A partition with several segments, aborted transactions in most, and a clean stop."""
    root, model = tmp_path_factory.mktemp("life"), Model(11)
    disk = RecordingDisk(root)
    for epoch in (1, 2):
        one = partition(root / _DIRECTORY, replace(SETTINGS, segment_bytes=400), disk=disk)
        one.lead(record(epoch))
        settle(one)
        for step in range(12):
            model.step(one)
            if step % 4 == 2:
                checkpoint(one)
        stop(one)
    assert len(files(root / _DIRECTORY, ".snapshot")) > 3
    assert len(files(root / _DIRECTORY, ".txnindex")) > 1
    return disk.ops


def check(root: Path, state: State) -> None:
    """The files of producers change nothing of the partition that is opened."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    write_state(root, state)
    directory = root / _DIRECTORY
    one = led(directory, epoch=9, disk=QuietDisk())
    assert one.state is PartitionState.READY, one.problems
    found = newest(states(one)), stable(one), committed(one), files(directory, ".txnindex")
    one.close()
    for path in [*directory.glob("*.snapshot"), *directory.glob("*.txnindex")]:
        path.unlink()
    one = led(directory, epoch=10, disk=QuietDisk())
    again = newest(states(one)), stable(one), committed(one), files(directory, ".txnindex")
    one.close()
    assert found == again


def test_the_process_is_killed_behind_every_operation(ops: list[Op], root: Path) -> None:
    disk, new = CrashDisk(), NewStates()
    for op in ops:
        disk.apply(op)
        for state in new.of(disk.killed(op)):
            check(root / "state", state)
    assert new.came > 350


def test_the_power_is_lost_behind_every_operation(ops: list[Op], root: Path) -> None:
    disk, rand, new = CrashDisk(), random.Random(9), NewStates()
    for op in ops:
        disk.apply(op)
        for state in new.of(disk.lost_power(rand)):
            check(root / "state", state)
    assert new.came > 1500


def test_an_index_that_was_not_synced_would_be_found_out(ops: list[Op], root: Path) -> None:
    rand, new = random.Random(9), NewStates()
    with pytest.raises(AssertionError):
        for _ in range(3):
            disk = CrashDisk()
            for op in ops:
                if op.kind == "sync" and op.path.suffix == ".txnindex":
                    continue
                disk.apply(op)
                for state in new.of(disk.lost_power(rand)):
                    check(root / "state", state)
