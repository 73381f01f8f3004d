"""Records of a coordinator in a partition with followers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.broker.replica.follower_state import Contact
from gateway.ports.services import ReplicaFetch
from gateway.server.broker.coordinator_partition import CoordinatorPartition
from kwire.protocol import ErrorCode
from tests.gateway.server.harness import run
from tests.gateway.sources.data_partitions import partition, record, record_of_leader, settle


def replicated(directory: Path) -> Any:
    """A partition with a follower that is in sync, and has fetched nothing."""
    one = partition(directory / "state-0")
    one.lead(record(1, 1, 2))
    settle(one)
    return one


def append(state: CoordinatorPartition, key: bytes) -> list[int | ErrorCode]:
    outcomes: list[int | ErrorCode] = []
    state.append([(key, b"v", ())], 1000, outcomes.append)
    return outcomes


def test_record_counts_when_the_follower_has_it(tmp_path: Path) -> None:
    one = replicated(tmp_path)
    outcomes = append(CoordinatorPartition(one), b"k")
    assert outcomes == [] and one.end_offset == 1
    assert not one.note_fetch(ReplicaFetch(2, 100, 1, 0, Contact(0.0)))
    assert outcomes == [1]
    one.close()


def test_record_of_a_leader_that_resigned_does_not_count(tmp_path: Path) -> None:
    one = replicated(tmp_path)
    outcomes = append(CoordinatorPartition(one), b"k")
    one.follow(record_of_leader(2))
    assert outcomes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    one.close()


def test_new_leader_loads_what_is_above_its_high_watermark(tmp_path: Path) -> None:
    async def main() -> None:
        one = replicated(tmp_path)
        append(CoordinatorPartition(one), b"k")
        one.lead(record(2, 1, 2))
        settle(one)
        assert one.high_watermark == 0
        replay = await CoordinatorPartition(one).load()
        assert list(replay.records) == [b"k"]
        one.close()

    run(main)
