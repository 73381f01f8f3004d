"""A partition that follows another one, as a fetcher and the leader's handler make it do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.broker.replica.followed import Append, CutTo, Followed, Position, StartAt, Truncate
from gateway.log.partition.log_settings import LogSettings
from gateway.ports.services import Isolation
from gateway.sources.data_partition import DataPartition
from gateway.sources.follower_appends import Change, Outcome
from gateway.sources.log_reader import content
from tests.gateway.sources.data_partitions import SETTINGS, partition, record_of_leader, settle


def following(
    directory: Path, epoch: int = 1, settings: LogSettings = SETTINGS, **more: Any
) -> DataPartition:
    """An open partition that another broker leads."""
    made = partition(directory, settings, **more)
    made.follow(record_of_leader(epoch))
    settle(made)
    return made


def position(one: DataPartition) -> Position:
    """Where its log is."""
    found = one.follower.position
    assert found is not None, one.problems
    return found


def followed(one: DataPartition, epoch: int | None = None) -> Followed:
    """The partition as a fetcher knows it, in its leader's epoch."""
    of = one.leader_epoch if epoch is None else epoch
    return Followed(one.topic_id, one.index, of, position(one), 1 << 20)


def carry_out(one: DataPartition, step: Change) -> Outcome:
    """The outcome of a step, after the jobs that it takes."""
    outcomes: list[Outcome] = []
    one.follower.take(step, outcomes.append)
    settle(one)
    assert len(outcomes) == 1, "the outcome comes once"
    return outcomes[0]


def answer_of(leader: DataPartition, one: DataPartition, most: int = 1 << 20) -> Change:
    """The step that the leader's answer leads to."""
    at = position(one)
    epoch, end = leader.end_offset_for_epoch(at.epoch) if at.epoch >= 0 else (-1, -1)
    if at.epoch >= 0 and (epoch < at.epoch or end < at.end_offset):
        return Truncate(followed(one), epoch, end)
    if at.end_offset > leader.end_offset:
        return CutTo(followed(one), leader.end_offset)
    if at.end_offset < leader.log_start_offset:
        return StartAt(followed(one), leader.log_start_offset)
    read = leader.read(at.end_offset, most, Isolation.LOG_END)
    data = content(read.chunks)
    read.release()
    return Append(followed(one), data, leader.high_watermark, leader.log_start_offset)


def catch_up(leader: DataPartition, one: DataPartition, most: int = 1 << 20) -> list[Change]:
    """Follow until there is nothing new; return the steps."""
    steps: list[Change] = []
    while True:
        step = answer_of(leader, one, most)
        is_done = isinstance(step, Append) and not step.records
        steps.append(step)
        outcome = carry_out(one, step)
        assert isinstance(outcome, Position), outcome
        if is_done:
            return steps


def files(one: DataPartition, *suffixes: str) -> dict[str, bytes]:
    """The content of the files of a log with these suffixes."""
    found = sorted(one.directory.iterdir())
    return {path.name: path.read_bytes() for path in found if path.suffix in suffixes}


def same(leader: DataPartition, one: DataPartition) -> bool:
    """Whether both have the same batches, epochs, producers and aborted transactions."""

    def kept(some: DataPartition) -> tuple[object, ...]:
        data = b"".join(files(some, ".log").values())
        producers = sorted(some.producers())
        aborted = some.stored.producers.aborted(0, 1 << 40)
        log = some.stored.log
        assert log is not None
        return data, log.epochs, log.end_offset, producers, aborted

    return kept(leader) == kept(one)
