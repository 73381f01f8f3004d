"""A crash behind any file operation of a follower, also while its log is cut or begun anew: it
opens again, follows the leader, and then has what the leader has.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.replica.followed import Append, CutTo, Position, StartAt, Truncate
from gateway.sources.data_partition import DataPartition
from tests.gateway.log.crash_disk import (
    CrashDisk,
    NewStates,
    Op,
    RecordingDisk,
    State,
    write_state,
)
from tests.gateway.sources.data_partitions import (
    SETTINGS,
    kill,
    led,
    record,
    record_of_leader,
    settle,
    shown,
)
from tests.gateway.sources.followings import (
    carry_out,
    catch_up,
    followed,
    following,
    position,
)
from tests.gateway.sources.transactions import committed, end, produce

_SMALL = replace(SETTINGS, segment_bytes=300)
_DIRECTORY = "t-0"
_LAST_EPOCH = 9


class Leader:
    """A leader whose log other leaders have written before, and that loses the end of it."""

    def __init__(self, root: Path) -> None:
        self.log: DataPartition = led(root / _DIRECTORY, _SMALL)
        self._sequence = 0

    def write(self, count: int) -> None:
        """Append transactions of two producers, every third of which is aborted."""
        for _ in range(count):
            number, self._sequence = self._sequence, self._sequence + 1
            produce(self.log, number % 2, number // 2, b"%d" % number)
            if number % 3:
                end(self.log, number % 2, commit=number % 3 == 1)

    def lose(self, offset: int, epoch: int) -> None:
        """Another replica leads from now on, which has nothing from ``offset`` on."""
        self.log.follow(record_of_leader(epoch))
        assert isinstance(carry_out(self.log, CutTo(followed(self.log), offset)), Position)
        self.lead(epoch)

    def lead(self, epoch: int) -> None:
        self.log.lead(record(epoch))
        settle(self.log)
        # Other producers than before: the records are other ones, too.
        self._sequence = 0

    def delete(self, before: int) -> None:
        self.log.delete_records(before, lambda outcome: None)
        settle(self.log)


class Life:
    """A follower that copies, is cut back twice, begins anew, and is stopped in between. Segments
    that it deletes stay for ``delay_ms``.
    """

    def __init__(self, root: Path, delay_ms: int) -> None:
        self._settings = replace(_SMALL, file_delete_delay_ms=delay_ms)
        self.leader = Leader(root / "leader")
        (root / "follower").mkdir()
        self.disk = RecordingDisk(root / "follower")
        self.steps: list[type] = []
        leader = self.leader
        one = self._open(1)
        leader.write(9)
        self._copy(one)
        leader.lose(7, 2)
        leader.write(2)
        one.follow(record_of_leader(2))
        self._copy(one)
        one.close()
        one = self._open(2)
        leader.write(6)
        self._copy(one)
        leader.lose(12, 3)
        leader.write(9)
        leader.delete(leader.log.high_watermark - 4)
        one.follow(record_of_leader(3))
        self._copy(one)
        leader.write(3)
        self._copy(one)
        self.waited = list(self.disk.waiting)
        self.disk.delete_waiting()
        leader.delete(leader.log.high_watermark - 2)
        self._copy(one)
        leader.lead(_LAST_EPOCH)
        one.close()
        fresh = following(root / "fresh" / _DIRECTORY, _LAST_EPOCH, _SMALL)
        catch_up(leader.log, fresh)
        #: The producers as a replica knows them that has the leader's log only.
        self.newest = sequences(fresh)
        self.records, self.committed = shown(leader.log), committed(leader.log)

    def _open(self, epoch: int) -> DataPartition:
        return following(self.disk.root / _DIRECTORY, epoch, self._settings, disk=self.disk)

    def _copy(self, one: DataPartition) -> None:
        self.steps += [type(step) for step in catch_up(self.leader.log, one, most=150)]
        at = position(one)
        assert (at.start_offset, at.end_offset) == (
            self.leader.log.log_start_offset,
            self.leader.log.end_offset,
        )


@pytest.fixture(scope="module", params=[0, 60_000])
def life(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Any:
    made = Life(tmp_path_factory.mktemp("life"), request.param)
    assert {Append, Truncate, StartAt} <= set(made.steps)
    assert bool(made.waited) == (request.param > 0)
    return made


def sequences(one: DataPartition) -> dict[int, tuple[int, int]]:
    """Epoch and newest sequence number of each producer."""
    return {some.producer_id: (some.epoch, some.last_sequence) for some in one.producers()}


def check(root: Path, state: State, life: Life) -> None:
    """Opened again, it follows the leader; what it then has is there after a kill, too."""
    leader = life.leader.log
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    write_state(root, state)
    one = following(root / _DIRECTORY, _LAST_EPOCH, _SMALL)
    assert not one.problems, one.problems
    catch_up(leader, one)
    end_of_copy = position(one)
    kill(one)
    again = following(root / _DIRECTORY, _LAST_EPOCH, _SMALL)
    assert position(again) == end_of_copy
    assert again.producers() == one.producers()
    assert life.newest.items() <= sequences(again).items()
    again.lead(record(_LAST_EPOCH + 1))
    settle(again)
    assert again.log_start_offset == leader.log_start_offset
    assert shown(again) == life.records
    assert committed(again) == life.committed
    kill(again)


def instants(ops: list[Op]) -> Any:
    """Yield the disk and the operation after each operation."""
    disk = CrashDisk()
    for op in ops:
        if op.kind != "ack":
            disk.apply(op)
            yield disk, op


def test_follower_that_is_killed_behind_any_operation_catches_up(life: Life, root: Path) -> None:
    new = NewStates()
    for disk, op in instants(life.disk.ops):
        for state in new.of(disk.killed(op)):
            check(root / "state", state, life)
    assert new.came > 300


def test_follower_that_loses_its_power_behind_any_operation_catches_up(
    life: Life, root: Path
) -> None:
    rand, new = random.Random(7), NewStates()
    for disk, _ in instants(life.disk.ops):
        for state in new.of(disk.lost_power(rand)):
            check(root / "state", state, life)
    assert new.came > 1400
