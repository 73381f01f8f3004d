"""A crash behind any file operation of a partition: of the process it takes no acknowledged record,
of the machine none that was synced; the log goes on, and no record comes back changed.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from gateway.broker.produce.validation import ProducedBatch
from gateway.ports.replicas import Appended
from gateway.ports.services import State as PartitionState
from gateway.sources.data_partition import DataPartition
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
    appended,
    batch_of,
    checkpoint,
    led,
    partition,
    record,
    settle,
    shown,
    stop,
)

_SEGMENT_BYTES = 250
_DIRECTORY = "t-0"


class Promise(NamedTuple):
    """Records below ``written`` survive a crash of the process, those below ``synced`` a power
    failure.
    """

    written: int = 0
    synced: int = 0


class Life:
    """A partition through three leader epochs, with several segments and a clean stop in between.
    Record ``n`` has the value ``n``, and is number ``n`` of its producer.
    """

    def __init__(self, root: Path) -> None:
        self.disk = RecordingDisk(root)
        self._promise = Promise()
        for epoch in (1, 3, 4):
            self._one: DataPartition = partition(
                root / _DIRECTORY,
                replace(SETTINGS, segment_bytes=_SEGMENT_BYTES),
                disk=self.disk,
            )
            self._one.lead(record(epoch))
            settle(self._one)
            for count in (1, 2, 1, 3, 1, 1):
                self._append(count)
                if epoch == 3:
                    self._sync(checkpoint)
            self._sync(stop)

    def _sync(self, sync: Callable[[DataPartition], object]) -> None:
        sync(self._one)
        self._say(synced=self._promise.written)

    def _append(self, count: int) -> None:
        first = self._promise.written
        outcome = appended(self._one, batch(first, count))
        assert isinstance(outcome, Appended) and outcome.base_offset == first
        *_, active = sorted((self.disk.root / _DIRECTORY).glob("*.log"))
        # A segment is synced before the next one begins.
        self._say(written=first + count, synced=max(self._promise.synced, int(active.stem)))

    def _say(self, **more: int) -> None:
        self._promise = self._promise._replace(**more)
        self.disk.ack(self._promise)


def batch(first: int, count: int = 1) -> ProducedBatch:
    return batch_of(
        *(b"%d" % number for number in range(first, first + count)),
        producer_id=1,
        producer_epoch=0,
        base_sequence=first,
    )


@pytest.fixture(scope="module")
def ops(tmp_path_factory: pytest.TempPathFactory) -> list[Op]:
    found = Life(tmp_path_factory.mktemp("life")).disk.ops
    assert {"write", "sync", "create", "rename", "sync directory"} <= {op.kind for op in found}
    return found


def instants(ops: list[Op]) -> Iterator[tuple[Promise, CrashDisk, Op]]:
    """Yield the promise, the disk and the operation after each operation."""
    disk, promise = CrashDisk(), Promise()
    for op in ops:
        if op.kind == "ack":
            promise = op.value
        else:
            disk.apply(op)
            yield promise, disk, op


def check(root: Path, state: State, promised: int) -> None:
    """Opened, it has the promised records and perhaps some behind them, each in its place, and
    takes the next one of the same producer.
    """
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    write_state(root, state)
    one = led(root / _DIRECTORY, epoch=9, disk=QuietDisk())
    assert one.state is PartitionState.READY, one.problems
    found = shown(one)
    assert found == [(number, b"%d" % number) for number in range(len(found))]
    assert len(found) >= promised
    outcome = appended(one, batch(len(found)))
    assert isinstance(outcome, Appended) and outcome.base_offset == len(found)
    again = appended(one, batch(len(found)))
    assert again == outcome, "the producer's batch is recognized"
    one.close()


def test_the_process_is_killed_behind_every_operation(ops: list[Op], root: Path) -> None:
    new = NewStates()
    for promise, disk, op in instants(ops):
        for state in new.of(disk.killed(op), promise.written):
            check(root / "state", state, promise.written)
    assert new.came > 300


def test_the_power_is_lost_behind_every_operation(ops: list[Op], root: Path) -> None:
    rand, new = random.Random(7), NewStates()
    for promise, disk, _ in instants(ops):
        for state in new.of(disk.lost_power(rand), promise.synced):
            check(root / "state", state, promise.synced)
    assert new.came > 1300


@pytest.mark.parametrize(
    "forgotten",
    [
        lambda op: op.kind == "sync" and op.path.suffix == ".log",
        lambda op: op.kind == "sync directory",
    ],
)
def test_a_log_that_forgot_to_sync_would_be_found_out(
    ops: list[Op], forgotten: Callable[[Op], bool], root: Path
) -> None:
    rand, new = random.Random(8), NewStates()
    with pytest.raises(AssertionError):
        for promise, disk, _ in instants([op for op in ops if not forgotten(op)]):
            for state in new.of(disk.lost_power(rand), promise.synced):
                check(root / "state", state, promise.synced)
