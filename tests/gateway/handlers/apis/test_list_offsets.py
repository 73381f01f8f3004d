"""ListOffsets: both ends of the log, timestamps, and refusals."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.errors import for_code

from gateway.handlers.apis import list_offsets
from gateway.handlers.apis.list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
)
from gateway.ports.services import State
from kwire.protocol import ErrorCode
from tests.gateway.handlers.world import MemoryPartition, World

NEWEST = list_offsets.VERSIONS[-1]
#: The versions that answer with one offset.
SINGLE = list_offsets.VERSIONS[1:]


def ask(
    world: World, version: int, timestamp: int, *, name: str = "__cluster_metadata", **more: Any
) -> Any:
    isolation = (
        {"isolation_level": more.pop("isolation_level")} if "isolation_level" in more else {}
    )
    partition = {"partition_index": 0, "timestamp": timestamp, **more}
    answer = world.ask(
        list_offsets,
        version,
        replica_id=-1,
        topics=[{"name": name, "partitions": [partition]}],
        **isolation,
    )
    (topic,) = answer.topics
    assert topic.name == name
    return topic.partitions[0]


@pytest.mark.parametrize("version", SINGLE)
@pytest.mark.parametrize(("timestamp", "offset", "epoch"), [(LATEST, 15, 3), (EARLIEST, 0, 1)])
def test_both_ends_at_every_version(version: int, timestamp: int, offset: int, epoch: int) -> None:
    found = ask(World(), version, timestamp)
    assert (found.error_code, found.offset, found.timestamp) == (0, offset, -1)
    assert found.leader_epoch == (epoch if version >= 4 else -1)


@pytest.mark.parametrize(("level", "end"), [(0, 15), (1, 12)])
def test_latest_offset_is_the_end_that_the_isolation_level_lets_a_consumer_see(
    level: int, end: int
) -> None:
    world = World()
    world.partition.open_transaction_at = 12
    assert ask(world, NEWEST, LATEST, isolation_level=level).offset == end
    assert ask(world, NEWEST, 4500, isolation_level=level).offset == 10
    world.partition.open_transaction_at = 10
    assert ask(world, NEWEST, 4500, isolation_level=level).offset == (-1 if level else 10)


def test_the_earliest_offset_is_the_log_start() -> None:
    world = World()
    world.partition.log_start_offset = 10
    found = ask(world, NEWEST, EARLIEST)
    assert (found.offset, found.leader_epoch) == (10, 3)


@pytest.mark.parametrize("version", SINGLE)
@pytest.mark.parametrize(
    ("timestamp", "found"),
    [
        (0, (0, 1000, 1)),
        (1000, (0, 1000, 1)),
        (1001, (1, 2000, 1)),
        (4000, (10, 5000, 3)),
        (5001, (-1, -1, -1)),
    ],
)
def test_by_timestamp(version: int, timestamp: int, found: tuple[int, int, int]) -> None:
    got = ask(World(), version, timestamp)
    epoch = found[2] if version >= 4 else -1
    assert (got.error_code, got.offset, got.timestamp, got.leader_epoch) == (0, *found[:2], epoch)


@pytest.mark.parametrize(
    ("timestamp", "since", "found"),
    [
        (MAX_TIMESTAMP, 7, (10, 5000, 3)),
        (EARLIEST_LOCAL, 8, (0, -1, 1)),
        (LATEST_TIERED, 9, (-1, -1, -1)),
        (EARLIEST_PENDING_UPLOAD, 11, (-1, -1, -1)),
        (-7, 99, None),
        (-(2**63), 99, None),
    ],
)
@pytest.mark.parametrize("version", SINGLE)
def test_special_timestamps_from_their_version_on(
    version: int, timestamp: int, since: int, found: Any
) -> None:
    got = ask(World(), version, timestamp)
    if version < since:
        assert (got.error_code, got.offset) == (ErrorCode.UNSUPPORTED_VERSION, -1)
    else:
        assert (got.error_code, got.offset, got.timestamp, got.leader_epoch) == (0, *found)


def test_an_empty_log() -> None:
    world = World(MemoryPartition())
    assert [
        ask(world, NEWEST, timestamp).offset for timestamp in (LATEST, EARLIEST, MAX_TIMESTAMP, 0)
    ] == [0, 0, -1, -1]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"name": "orders"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition_index": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"current_leader_epoch": 2}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"current_leader_epoch": 4}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"current_leader_epoch": 3}, ErrorCode.NONE),
    ],
)
def test_list_offsets_with_a_wrong_field_is_refused(
    fields: dict[str, Any], error: ErrorCode
) -> None:
    assert ask(World(), NEWEST, LATEST, **fields).error_code == error


def test_asking_needs_the_right_to_describe() -> None:
    world = World()
    world.authorizer.forbidden = {("DESCRIBE", "TOPIC", "*")}
    assert (
        ask(world, NEWEST, LATEST, name="orders").error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    )


@pytest.mark.parametrize(
    ("version", "error"),
    [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE), (11, 78)],
)
@pytest.mark.parametrize("timestamp", [LATEST, EARLIEST, 1000])
def test_while_loading_no_offset_is_told(version: int, error: int, timestamp: int) -> None:
    world = World()
    world.partition.state = State.LOADING
    found = ask(world, version, timestamp)
    assert (found.error_code, found.offset) == (error, -1)
    assert for_code(found.error_code).retriable


def test_a_partition_asked_twice_is_refused_and_the_others_are_not() -> None:
    partitions = [
        {"partition_index": 0, "timestamp": LATEST},
        {"partition_index": 0, "timestamp": EARLIEST},
    ]
    topics = [
        {"name": "__cluster_metadata", "partitions": partitions},
        {"name": "x", "partitions": partitions[:1]},
    ]
    answer = World().ask(list_offsets, NEWEST, replica_id=-1, topics=topics)
    assert [[p.error_code for p in topic.partitions] for topic in answer.topics] == [[42], [3]]


def test_records_above_the_high_watermark_have_no_timestamp_yet() -> None:
    class Behind(MemoryPartition):
        high_watermark = 10

    world = World(Behind(World().partition.batches))
    assert ask(world, NEWEST, 2001).offset == -1
    assert ask(world, NEWEST, MAX_TIMESTAMP).offset == -1
    assert ask(world, NEWEST, LATEST).offset == 10


@pytest.mark.parametrize(
    ("timestamp", "most", "offsets"),
    [
        (LATEST, 10, [15, 0]),
        (LATEST, 1, [15]),
        (EARLIEST, 10, [0]),
        (EARLIEST, 0, []),
        (5000, 10, [0]),  # when the log was last changed
        (4999, 10, []),
        (2**62, 10, [15, 0]),
        (LATEST, -1, []),
    ],
)
def test_version_0_answers_with_a_list(timestamp: int, most: int, offsets: list[int]) -> None:
    found = ask(World(), 0, timestamp, max_num_offsets=most)
    assert (found.error_code, found.old_style_offsets) == (0, offsets)


def test_version_0_refuses_as_the_others_do() -> None:
    loading, forbidding = World(), World()
    loading.partition.state = State.LOADING
    forbidding.authorizer.forbidden = {("DESCRIBE", "TOPIC", "*")}
    cases = [(World(), "orders", 3), (loading, "__cluster_metadata", 5), (forbidding, "orders", 29)]
    for world, name, error in cases:
        found = ask(world, 0, LATEST, name=name, max_num_offsets=5)
        assert (found.error_code, found.old_style_offsets) == (error, [])


def test_version_0_of_an_empty_log() -> None:
    found = ask(World(MemoryPartition()), 0, LATEST, max_num_offsets=5)
    assert found.old_style_offsets == [0]
