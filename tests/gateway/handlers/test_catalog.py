"""Topics that were created here, in the responses of every handler: their leaders, and that they
are empty.
"""

from __future__ import annotations

from typing import Any

import pytest

from gateway.handlers.apis import (
    describe_cluster,
    describe_configs,
    describe_topic_partitions,
    fetch,
    list_config_resources,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from gateway.handlers.apis.produce import NO_DATA
from gateway.handlers.catalog import topic_named, topic_with_id
from gateway.ports.pending_response import PendingResponse
from kwire.protocol import ErrorCode
from kwire.uuid import METADATA_TOPIC_ID, Uuid
from tests.gateway.handlers.own_world import OTHER, OwnWorld
from tests.gateway.handlers.world import NODE

LOG = "__cluster_metadata"


@pytest.fixture
def world() -> OwnWorld:
    """``orders`` has partition 0 here and partition 1 on the other node."""
    world = OwnWorld()
    world.create("orders", [NODE, OTHER], [OTHER, NODE])
    return world


def topic_id(world: OwnWorld) -> Uuid:
    return world.quorum_image.topic_ids["orders"]


def test_topic_is_found_by_name_and_by_id(world: OwnWorld) -> None:
    context = world.context(0)
    orders = topic_named("orders", context)
    assert orders is not None and orders == topic_with_id(topic_id(world), context)
    assert topic_named(LOG, context) == topic_with_id(METADATA_TOPIC_ID, context)
    assert topic_named("nope", context) is None and topic_with_id(Uuid(b"x" * 16), context) is None


def test_topics_of_an_observed_cluster_do_not_exist_here(world: OwnWorld) -> None:
    world.controller = None  # the observer of a real quorum knows an image, too
    assert topic_named("orders", world.context(0)) is None
    assert [topic.name for topic in world.ask(metadata, 12, topics=None).topics] == [LOG]


@pytest.mark.parametrize("version", metadata.VERSIONS)
def test_metadata_names_leaders_and_nodes(world: OwnWorld, version: int) -> None:
    answer = world.ask(metadata, version, topics=[] if version == 0 else None)
    assert [(one.node_id, one.host, one.port) for one in answer.brokers] == [
        (NODE, "gateway.example", 9092),
        (OTHER, "other.example", 9095),
    ]
    assert [topic.name for topic in answer.topics] == [LOG, "orders"]
    partitions = answer.topics[1].partitions
    assert [(one.partition_index, one.leader_id, one.replica_nodes) for one in partitions] == [
        (0, NODE, [NODE, OTHER]),
        (1, OTHER, [OTHER, NODE]),
    ]
    assert all(one.error_code == 0 for one in partitions)


def test_metadata_leaves_out_nodes_without_the_listener(world: OwnWorld) -> None:
    answer = world.ask(metadata, 12, listener="EXTERNAL", topics=[{"name": "orders"}])
    assert [one.node_id for one in answer.brokers] == [NODE]
    first, second = answer.topics[0].partitions
    assert (first.error_code, first.leader_id, first.offline_replicas) == (0, NODE, [OTHER])
    assert (second.error_code, second.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)


def test_topic_without_describe_is_left_out(world: OwnWorld) -> None:
    world.authorizer.forbidden = {("DESCRIBE", "TOPIC", "orders")}
    assert [topic.name for topic in world.ask(metadata, 12, topics=None).topics] == [LOG]
    by_id = world.ask(metadata, 12, topics=[{"name": None, "topic_id": topic_id(world)}]).topics[0]
    assert (by_id.name, by_id.error_code) == (None, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def test_describe_topic_partitions_page_by_page(world: OwnWorld) -> None:
    seen: list[tuple[str, int]] = []
    cursor: Any = None
    for _ in range(3):
        answer = world.ask(
            describe_topic_partitions, 0, topics=[], response_partition_limit=1, cursor=cursor
        )
        seen += [
            (topic.name, one.partition_index) for topic in answer.topics for one in topic.partitions
        ]
        if answer.next_cursor is None:
            break
        cursor = {
            "topic_name": answer.next_cursor.topic_name,
            "partition_index": answer.next_cursor.partition_index,
        }
    assert seen == [(LOG, 0), ("orders", 0), ("orders", 1)]


def test_describe_cluster_names_both_nodes(world: OwnWorld) -> None:
    answer = world.ask(describe_cluster, 2)
    assert [(one.broker_id, one.host) for one in answer.brokers] == [
        (NODE, "gateway.example"),
        (OTHER, "other.example"),
    ]
    controllers = world.ask(describe_cluster, 2, endpoint_type=2)
    assert [(one.broker_id, one.port) for one in controllers.brokers] == [(OTHER, 9093)]
    assert (
        world.ask(describe_cluster, 2, listener="CONTROLLER").error_code
        == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    )


@pytest.mark.parametrize("version", range(4, 19))
def test_fetch_of_an_empty_partition_waits(world: OwnWorld, version: int) -> None:
    named = {"topic_id": topic_id(world)} if version >= 13 else {"topic": "orders"}
    partitions = [
        {"partition": index, "fetch_offset": 0, "partition_max_bytes": 1000} for index in (0, 1, 2)
    ]
    fields: dict[str, Any] = {"max_bytes": 1000, "topics": [{**named, "partitions": partitions}]}
    (found,) = world.ask(fetch, version, max_wait_ms=0, min_bytes=1, **fields).responses
    assert [(one.error_code, bytes(one.records)) for one in found.partitions] == [
        (0, b""),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, b""),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, b""),
    ]
    assert (found.partitions[0].high_watermark, found.partitions[0].last_stable_offset) == (0, 0)
    fields["topics"] = [{**named, "partitions": partitions[:1]}]
    assert isinstance(
        world.ask(fetch, version, max_wait_ms=500, min_bytes=1, **fields),
        PendingResponse,
    )


def test_fetch_beyond_the_end_is_out_of_range(world: OwnWorld) -> None:
    partition = {"partition": 0, "fetch_offset": 1, "partition_max_bytes": 1000}
    (found,) = world.ask(
        fetch,
        12,
        max_wait_ms=500,
        min_bytes=1,
        topics=[{"topic": "orders", "partitions": [partition]}],
    ).responses
    assert found.partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(("timestamp", "offset"), [(-1, 0), (-2, 0), (-3, -1), (1000, -1)])
def test_list_offsets_of_an_empty_partition_are_zero(
    world: OwnWorld, timestamp: int, offset: int
) -> None:
    asked = [{"partition_index": index, "timestamp": timestamp} for index in (0, 1)]
    (found,) = world.ask(list_offsets, 8, topics=[{"name": "orders", "partitions": asked}]).topics
    assert [(one.error_code, one.offset) for one in found.partitions] == [
        (0, offset),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1),
    ]


def test_epoch_of_an_empty_partition_ends_at_zero(world: OwnWorld) -> None:
    asked = [{"partition": 0, "leader_epoch": 0, "current_leader_epoch": 0}]
    (found,) = world.ask(
        offset_for_leader_epoch, 4, topics=[{"topic": "orders", "partitions": asked}]
    ).topics
    assert (found.partitions[0].leader_epoch, found.partitions[0].end_offset) == (0, 0)


@pytest.mark.parametrize("version", produce.VERSIONS)
def test_produce_is_refused_with_a_reason(world: OwnWorld, version: int) -> None:
    named = {"topic_id": topic_id(world)} if version >= 13 else {"name": "orders"}
    answer = world.ask(
        produce,
        version,
        acks=1,
        topic_data=[{**named, "partition_data": [{"index": 0, "records": None}]}],
    )
    (partition,) = answer.responses[0].partition_responses
    assert partition.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if version >= 8:
        assert partition.error_message == NO_DATA


def test_describe_configs_returns_set_and_inherited_values(world: OwnWorld) -> None:
    kinds = [(2, "orders"), (2, LOG), (4, ""), (32, "g"), (16, "m"), (16, "")]
    resources = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": None}
        for kind, name in kinds
    ]
    results = world.ask(
        describe_configs, 4, resources=resources, include_synonyms=True, include_documentation=True
    ).results
    assert [one.error_code for one in results] == [0, 0, 0, 0, 0, ErrorCode.INVALID_REQUEST]
    orders, log, brokers, group, metrics, _ = (
        {config.name: config for config in one.configs} for one in results
    )
    assert len(orders) == len(log) == 37 and len(group) == 21 and len(metrics) == 3
    assert not orders["retention.ms"].read_only and log["retention.ms"].read_only
    assert [(one.value, one.source) for one in orders["min.insync.replicas"].synonyms] == [
        ("1", 3),
        ("1", 5),
    ]
    assert {name: (one.value, one.config_source) for name, one in brokers.items()} == {
        "min.insync.replicas": ("1", 3)
    }
    assert all(config.documentation for config in orders.values())


def test_list_config_resources_names_topics_nodes_and_groups(world: OwnWorld) -> None:
    world.quorum_image.configs[16, "m"] = {"interval.ms": "1000"}
    found = world.ask(list_config_resources, 1, resource_types=[]).config_resources
    assert [(one.resource_type, one.resource_name) for one in found] == [
        (2, LOG), (2, "orders"), (4, str(NODE)), (4, str(OTHER)), (16, "m"),
    ]  # fmt: skip
    assert [one.resource_name for one in world.ask(list_config_resources, 0).config_resources] == [
        "m"
    ]
