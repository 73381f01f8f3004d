"""A crash behind any file operation, of the process or the machine: nothing promised is lost, the
log opens and goes on.
"""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.log.files.errors import LogDamaged
from gateway.log.metadata.local_log import LocalLog
from gateway.log.reading.follower import DirectoryFollower
from kwire.errors import DecodeError
from tests.gateway.log.crash_disk import (
    CrashDisk,
    NewStates,
    Op,
    QuietDisk,
    RecordingDisk,
    State,
    read_state,
    write_state,
)
from tests.gateway.log.kafka_files import batch
from tests.gateway.log.promises import agrees_with_itself, follows, keeps
from tests.gateway.log.workload import SMALL, Promise, Workload

#: Of the states that a loss of power may leave at one instant, and of the crashes during recovery,
#: one in so many is tried.
_POWER_STEP = 5
_NESTED_STEP = 150
#: Of the states of a life in random order, this share is tried.
_RANDOM_SHARE = 0.05
#: In one of so many states the log is opened twice more.
_THOROUGH_STEP = 8
#: Every operation, and every batch that was ever written, by base offset and epoch.
Recording = tuple[list[Op], dict[tuple[int, int], bytes]]


@pytest.fixture(scope="module")
def recorded(root: Path) -> Recording:
    """Record the disk operations of a whole life of a log."""
    (root / "recorded").mkdir()
    disk = RecordingDisk(root / "recorded")
    workload = Workload(root / "recorded", disk, disk.ack)
    workload.run()
    workload.log.close()
    return disk.ops, workload.written


def test_process_killed_behind_every_operation(recorded: Recording, root: Path) -> None:
    ops, written = recorded
    new, tried = NewStates(), 0
    for _, promise, disk, op in _instants(ops):
        for state in new.of(disk.killed(op), promise):
            tried += 1
            _check(root / "state", state, promise, written, tried % _THOROUGH_STEP == 0)
    assert new.came > 400


def test_power_lost_behind_every_operation(recorded: Recording, root: Path) -> None:
    ops, written = recorded
    rand = random.Random(4)
    tried = 0
    for number, promise, disk, _ in _instants(ops):
        for way, state in enumerate(disk.lost_power(rand)):
            if (number + way) % _POWER_STEP == 0:
                tried += 1
                _check(root / "state", state, promise, written, tried % _THOROUGH_STEP == 0)
    assert tried > 300


@pytest.mark.parametrize(
    ("kind", "suffixes"),
    [
        ("sync", {".log"}),
        ("sync", {".tmp"}),
        ("sync", {".part"}),
        ("sync", {""}),
        ("sync directory", {""}),
    ],
)
def test_a_log_that_forgot_to_sync_would_be_found_out(
    kind: str, suffixes: set[str], recorded: Recording, root: Path
) -> None:
    ops, written = recorded
    rand = random.Random(6)
    forgetful = [
        op
        for op in ops
        if not (op.kind == kind and (op.path.suffix in suffixes or kind == "sync directory"))
    ]
    assert len(forgetful) < len(ops)
    with pytest.raises((AssertionError, DecodeError, LogDamaged)):
        for _, promise, disk, _ in _instants(forgetful):
            for state in disk.lost_power(rand):
                _check(root / "forgetful", state, promise, written, False)


@pytest.mark.parametrize("seed", range(4))
def test_crashes_of_lives_in_any_order(seed: int, root: Path) -> None:
    rand = random.Random(seed)
    (root / f"life {seed}").mkdir()
    disk = RecordingDisk(root / f"life {seed}")
    workload = Workload(root / f"life {seed}", disk, disk.ack)
    workload.run_at_random(rand, 25)
    workload.log.close()
    for _, promise, crash, op in _instants(disk.ops):
        for state in itertools.chain(crash.killed(op), crash.lost_power(rand)):
            if rand.random() < _RANDOM_SHARE:
                _check(
                    root / "state",
                    state,
                    promise,
                    workload.written,
                    rand.random() < 1 / _THOROUGH_STEP,
                )


def test_crash_while_recovering_from_a_crash(recorded: Recording, root: Path) -> None:
    ops, written = recorded
    rand = random.Random(5)
    states = (
        (promise, state)
        for _, promise, disk, op in _instants(ops)
        for state in itertools.chain(disk.killed(op), disk.lost_power(rand))
    )
    new = NewStates()
    for promise, state in itertools.islice(states, 0, None, _NESTED_STEP):
        write_state(root / "first", state)
        recording = RecordingDisk(root / "first")
        LocalLog.open(root / "first", SMALL, disk=recording).close()
        shutil.rmtree(root / "first")
        nested = CrashDisk(state)
        for op in recording.ops:
            nested.apply(op)
            left = next(nested.killed(op)), next(nested.lost_power(rand))
            for one in new.of(left, promise):
                _check(root / "second", one, promise, written, False)
    assert new.came > 100


def _instants(ops: list[Op]) -> Iterator[tuple[int, Promise, CrashDisk, Op]]:
    """Each operation once it was done, with what had been promised by then."""
    disk, promise = CrashDisk(), Promise()
    for number, op in enumerate(ops):
        if op.kind == "ack":
            promise = op.value
        else:
            disk.apply(op)
            yield number, promise, disk, op


def _check(
    root: Path,
    state: State,
    promise: Promise,
    written: dict[tuple[int, int], bytes],
    thoroughly: bool,
) -> None:
    write_state(root, state)
    follower = DirectoryFollower(str(root / "__cluster_metadata-0"), snapshot_prefix=True)
    follower.step()  # a reader may look before the owner is back
    log = LocalLog.open(root, SMALL, disk=QuietDisk())
    try:
        keeps(log, promise, written)
        agrees_with_itself(log)
        if thoroughly:
            log.close()
            before = read_state(root)
            log = LocalLog.open(root, SMALL, disk=QuietDisk())
            assert log.problems == []
            log.close()
            assert read_state(root) == before, "opening what was opened before changes nothing"
            log = LocalLog.open(root, SMALL, disk=QuietDisk())
        one = batch(log.end_offset, 1, log.last_epoch + 1)
        assert log.append(one.data) == one.next_offset
        follows(follower, log)
    finally:
        log.close()
        shutil.rmtree(root)
