"""OffsetForLeaderEpoch returns what Kafka's epoch cache would."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.handlers.apis import offset_for_leader_epoch
from gateway.ports.services import State
from kwire.protocol import ErrorCode
from tests.gateway.handlers.world import MemoryPartition, World


def ask(
    world: World, version: int, epoch: int, *, topic: str = "__cluster_metadata", **more: Any
) -> Any:
    partition = {"partition": 0, "leader_epoch": epoch, **more}
    topics = [{"topic": topic, "partitions": [partition]}]
    answer = world.ask(
        offset_for_leader_epoch, version, replica_id=-1 if version >= 3 else -2, topics=topics
    )
    assert answer.topics[0].topic == topic
    return answer.topics[0].partitions[0]


@pytest.mark.parametrize("version", offset_for_leader_epoch.VERSIONS)
@pytest.mark.parametrize(
    ("epoch", "end"),
    [
        (1, (1, 10)),
        (2, (1, 10)),
        (3, (3, 15)),
        (4, (-1, -1)),
        (2**31 - 1, (-1, -1)),
        (-1, (-1, -1)),
        (0, (0, 0)),
    ],
)
def test_the_end_of_an_epoch(version: int, epoch: int, end: tuple[int, int]) -> None:
    found = ask(World(), version, epoch)
    assert (found.error_code, found.leader_epoch, found.end_offset) == (0, *end)


def test_an_epoch_older_than_the_log_ends_where_the_log_begins() -> None:
    world = World()
    world.partition.batches = world.partition.batches[2:]
    world.partition.log_start_offset = 10
    found = ask(world, 4, 1)
    assert (found.leader_epoch, found.end_offset) == (1, 10)


def test_an_empty_log_knows_no_epoch() -> None:
    found = ask(World(MemoryPartition()), 4, 1)
    assert (found.error_code, found.leader_epoch, found.end_offset) == (0, -1, -1)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"topic": "orders"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"current_leader_epoch": 1}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"current_leader_epoch": 9}, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_request_with_a_wrong_field_is_refused(fields: dict[str, Any], error: ErrorCode) -> None:
    found = ask(World(), 4, 3, **fields)
    assert (found.error_code, found.leader_epoch, found.end_offset) == (error, -1, -1)


def test_while_loading_nothing_is_said_of_epochs() -> None:
    world = World()
    world.partition.state = State.LOADING
    assert ask(world, 4, 1).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_asking_needs_the_right_to_describe_the_topic_or_to_be_a_broker() -> None:
    world = World()
    of_topic = ("DESCRIBE", "TOPIC", "__cluster_metadata")
    world.authorizer.forbidden = {of_topic, ("CLUSTER_ACTION", "CLUSTER", "kafka-cluster")}
    assert ask(world, 4, 1).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    world.authorizer.forbidden = {of_topic}
    assert ask(world, 4, 1).error_code == ErrorCode.NONE
