"""The audit topic in the responses of every handler: a partition for each node of the quorum, and
this node's records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.config.config import Config
from gateway.handlers.apis import (
    describe_configs,
    describe_log_dirs,
    describe_topic_partitions,
    fetch,
    list_config_resources,
    list_offsets,
    metadata,
    offset_commit,
    offset_for_leader_epoch,
    produce,
)
from gateway.handlers.apis.produce import AUDIT
from gateway.handlers.catalog import audit_logs, has_partition, topic_named, topic_with_id
from gateway.ports.pending_response import PendingResponse
from gateway.ports.services import AUDIT_TOPIC, AUDIT_TOPIC_ID
from kwire.protocol import ErrorCode
from kwire.uuid import Uuid
from tests.gateway.handlers.admin_handlers import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_topics,
    incremental_alter_configs,
)
from tests.gateway.handlers.own_world import OTHER, OwnWorld
from tests.gateway.handlers.world import NODE, Batch, MemoryPartition

LOG = "__cluster_metadata"


@dataclass
class MemoryAudit:
    """``gateway.ports.services.Audit`` with two changes at offsets 0 and 1, at 1000 and 2000 ms."""

    nodes: Sequence[int] = (NODE, OTHER)
    partition: MemoryPartition = field(
        default_factory=lambda: MemoryPartition(
            [Batch(0, 0, 0, 1000, size=70), Batch(1, 1, 0, 2000, size=30)]
        )
    )


@pytest.fixture
def world() -> OwnWorld:
    """Nodes 7 and 8 are the quorum's; this is node 7, which has partition 0."""
    world = OwnWorld()
    world.audit = MemoryAudit()
    return world


def test_topic_id_is_fixed() -> None:
    assert str(AUDIT_TOPIC_ID) == "a3dpcmUAgACAAAAAAAAAAQ"
    assert (AUDIT_TOPIC_ID[6] >> 4, AUDIT_TOPIC_ID[8] >> 6) == (8, 2), (
        "version 8 of RFC 9562: no random one is like it"
    )


def test_topic_is_found_by_name_and_by_id(world: OwnWorld) -> None:
    context = world.context(0)
    topic = topic_named(AUDIT_TOPIC, context)
    assert topic is not None and topic == topic_with_id(AUDIT_TOPIC_ID, context) == audit_logs(
        context
    )
    assert [has_partition(topic, index) for index in (0, 1, 2)] == [True, True, False]


@pytest.mark.parametrize(
    "audit", [None, MemoryAudit(nodes=())], ids=["not kept", "no voters known yet"]
)
def test_topic_does_not_exist_without_an_audit_log(world: OwnWorld, audit: Any) -> None:
    world.audit = audit
    assert (
        topic_named(AUDIT_TOPIC, world.context(0))
        is topic_with_id(AUDIT_TOPIC_ID, world.context(0))
        is None
    )
    assert [topic.name for topic in world.ask(metadata, 12, topics=None).topics] == [LOG]


@pytest.mark.parametrize("version", metadata.VERSIONS)
def test_metadata_names_the_leader_of_each_partition(world: OwnWorld, version: int) -> None:
    world.audit.nodes = [2, NODE, OTHER]  # node 2 has registered no listener
    answer = world.ask(metadata, version, topics=[] if version == 0 else None)
    assert [topic.name for topic in answer.topics] == [LOG, AUDIT_TOPIC]
    topic = answer.topics[1]
    assert version < 10 or topic.topic_id == AUDIT_TOPIC_ID
    assert not topic.is_internal, "clients hide what is"
    assert [
        (one.partition_index, one.leader_id, one.replica_nodes, one.isr_nodes)
        for one in topic.partitions
    ] == [
        (0, -1, [2], [2]),
        (1, NODE, [NODE], [NODE]),
        (2, OTHER, [OTHER], [OTHER]),
    ]
    assert [one.error_code for one in topic.partitions] == [ErrorCode.LEADER_NOT_AVAILABLE, 0, 0]
    assert version < 7 or [one.leader_epoch for one in topic.partitions] == [0, 0, 0]


def test_describe_topic_partitions_names_each_leader(world: OwnWorld) -> None:
    (topic,) = world.ask(
        describe_topic_partitions, 0, topics=[{"name": AUDIT_TOPIC}], response_partition_limit=1
    ).topics
    assert (topic.topic_id, [(one.partition_index, one.leader_id) for one in topic.partitions]) == (
        AUDIT_TOPIC_ID,
        [(0, NODE)],
    )
    cursor = {"topic_name": AUDIT_TOPIC, "partition_index": 1}
    answer = world.ask(
        describe_topic_partitions, 0, topics=[], response_partition_limit=9, cursor=cursor
    )
    assert [(one.partition_index, one.leader_id) for one in answer.topics[0].partitions] == [
        (1, OTHER)
    ]


def asked(version: int, *partitions: int, offset: int = 0, **more: Any) -> dict[str, Any]:
    named = {"topic_id": AUDIT_TOPIC_ID} if version >= 13 else {"topic": AUDIT_TOPIC}
    listed = [
        {
            "partition": index,
            "fetch_offset": offset,
            "partition_max_bytes": 10_000,
            "current_leader_epoch": 0,
        }
        for index in partitions
    ]
    return {
        "max_bytes": 10_000,
        "min_bytes": 1,
        "max_wait_ms": 500,
        "topics": [{**named, "partitions": listed}],
        **more,
    }


@pytest.mark.parametrize("version", fetch.VERSIONS)
def test_fetch_returns_the_records_of_this_node(world: OwnWorld, version: int) -> None:
    (found,) = world.ask(fetch, version, **asked(version, 0, 1, 2)).responses
    own, others, none = found.partitions
    assert bytes(own.records) == b"".join(batch.data for batch in world.audit.partition.batches)
    assert (own.error_code, own.high_watermark, own.last_stable_offset) == (0, 2, 2)
    assert others.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert none.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_fetch_waits_at_the_end(world: OwnWorld) -> None:
    pending = world.ask(fetch, 12, **asked(12, 0, offset=2))
    assert isinstance(pending, PendingResponse)
    said: list[Any] = []
    pending.attach(said.append)
    world.audit.partition.append(epoch=0, timestamp=3000)
    pending.try_complete()
    assert said[0].responses[0].partitions[0].high_watermark == 3


@pytest.mark.parametrize(
    ("timestamp", "offset"), [(-1, 2), (-2, 0), (-3, 1), (1500, 1), (2001, -1)]
)
def test_list_offsets_finds_ends_and_timestamps(
    world: OwnWorld, timestamp: int, offset: int
) -> None:
    partitions = [{"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": 0}]
    (found,) = world.ask(
        list_offsets, 8, topics=[{"name": AUDIT_TOPIC, "partitions": partitions}]
    ).topics
    assert (found.partitions[0].error_code, found.partitions[0].offset) == (0, offset)
    (old,) = world.ask(list_offsets, 0, topics=[{"name": AUDIT_TOPIC, "partitions": [
        {"partition_index": 0, "timestamp": -1, "max_num_offsets": 2}]}]).topics  # fmt: skip
    assert old.partitions[0].old_style_offsets == [2, 0]


def test_the_end_of_its_one_epoch(world: OwnWorld) -> None:
    partitions = [
        {"partition": 0, "leader_epoch": epoch, "current_leader_epoch": 0} for epoch in (0, 1)
    ]
    (found,) = world.ask(
        offset_for_leader_epoch, 4, topics=[{"topic": AUDIT_TOPIC, "partitions": partitions}]
    ).topics
    assert [(one.leader_epoch, one.end_offset) for one in found.partitions] == [(0, 2), (-1, -1)]


def test_describe_configs_returns_this_nodes_settings(world: OwnWorld) -> None:
    world.config = Config(
        metadata_audit_retention_bytes=-1,
        metadata_audit_retention_ms=5000,
        metadata_audit_segment_bytes=2048,
    )
    resource = {"resource_type": 2, "resource_name": AUDIT_TOPIC, "configuration_keys": None}
    (result,) = world.ask(describe_configs, 4, resources=[resource], include_synonyms=True).results
    assert result.error_code == 0
    configs = {config.name: config for config in result.configs}
    wanted = {
        "retention.bytes": "-1",
        "retention.ms": "5000",
        "segment.bytes": "2048",
        "cleanup.policy": "delete",
    }
    assert {name: configs[name].value for name in wanted} == wanted
    assert len(configs) == 37 and all(config.read_only for config in configs.values())
    assert [one.source for one in configs["retention.ms"].synonyms] == [4, 5], (
        "static here, and Kafka's default"
    )


def test_describe_log_dirs_has_this_nodes_partition(world: OwnWorld) -> None:
    world.audit.nodes = [2, NODE]
    (result,) = world.ask(describe_log_dirs, 4, topics=None).results
    sizes = {
        (topic.name, one.partition_index): one.partition_size
        for topic in result.topics
        for one in topic.partitions
    }
    assert sizes == {(LOG, 0): 400, (AUDIT_TOPIC, 1): 100}
    (result,) = world.ask(
        describe_log_dirs, 4, topics=[{"topic": AUDIT_TOPIC, "partitions": [0]}]
    ).results
    assert result.topics == [], "that is the other node's"
    world.audit.nodes = [2]
    assert len(world.ask(describe_log_dirs, 4, topics=None).results[0].topics) == 1


def test_list_config_resources_names_the_topic(world: OwnWorld) -> None:
    found = world.ask(list_config_resources, 1, resource_types=[2]).config_resources
    assert [one.resource_name for one in found] == [LOG, AUDIT_TOPIC]


@pytest.mark.parametrize("version", produce.VERSIONS)
def test_produce_is_refused(world: OwnWorld, version: int) -> None:
    named = {"topic_id": AUDIT_TOPIC_ID} if version >= 13 else {"name": AUDIT_TOPIC}
    answer = world.ask(
        produce,
        version,
        acks=1,
        topic_data=[{**named, "partition_data": [{"index": 0, "records": None}]}],
    )
    (partition,) = answer.responses[0].partition_responses
    assert partition.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert version < 8 or partition.error_message == AUDIT


def test_topic_cannot_be_created_or_changed(world: OwnWorld) -> None:
    refused = ErrorCode.INVALID_REQUEST
    topic = {"name": AUDIT_TOPIC, "num_partitions": 1, "replication_factor": 1}
    (created,) = world.ask(create_topics, 7, topics=[topic], timeout_ms=1000).topics
    assert (created.error_code, AUDIT_TOPIC in created.error_message) == (refused, True)
    (grown,) = world.ask(
        create_partitions, 3, topics=[{"name": AUDIT_TOPIC, "count": 9, "assignments": None}]
    ).results
    assert (grown.error_code, AUDIT_TOPIC in grown.error_message) == (refused, True)
    resource = {
        "resource_type": 2,
        "resource_name": AUDIT_TOPIC,
        "configs": [{"name": "retention.ms", "value": "5"}],
    }
    for handler, version in ((alter_configs, 2), (incremental_alter_configs, 1)):
        (changed,) = world.ask(handler, version, resources=[resource]).responses
        assert (changed.error_code, "metadata.audit." in changed.error_message) == (refused, True)
    for named in ({"name": AUDIT_TOPIC}, {"name": None, "topic_id": AUDIT_TOPIC_ID}):
        (deleted,) = world.ask(delete_topics, 6, topics=[named], timeout_ms=1000).responses
        assert (deleted.error_code, AUDIT_TOPIC in deleted.error_message) == (refused, True)


def test_access_without_permission_is_refused(world: OwnWorld) -> None:
    world.authorizer.forbidden = {
        (operation, "TOPIC", AUDIT_TOPIC) for operation in ("READ", "DESCRIBE", "DESCRIBE_CONFIGS")
    }
    fault = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert [topic.name for topic in world.ask(metadata, 12, topics=None).topics] == [LOG]
    assert world.ask(metadata, 12, topics=[{"name": AUDIT_TOPIC}]).topics[0].error_code == fault
    for version in (12, 13):
        assert (
            world.ask(fetch, version, **asked(version, 0)).responses[0].partitions[0].error_code
            == fault
        )
    partitions = [{"partition_index": 0, "timestamp": -1}]
    (found,) = world.ask(
        list_offsets, 8, topics=[{"name": AUDIT_TOPIC, "partitions": partitions}]
    ).topics
    assert found.partitions[0].error_code == fault
    resource = {"resource_type": 2, "resource_name": AUDIT_TOPIC, "configuration_keys": None}
    assert world.ask(describe_configs, 4, resources=[resource]).results[0].error_code == fault
    commit = {"partition_index": 0, "committed_offset": 1}
    answer = world.ask(
        offset_commit, 9, group_id="g", topics=[{"name": AUDIT_TOPIC, "partitions": [commit]}]
    )
    assert answer.topics[0].partitions[0].error_code == fault


def test_authorized_operations_are_those_of_a_read_only_topic(world: OwnWorld) -> None:
    answer = world.ask(
        metadata, 12, topics=[{"name": AUDIT_TOPIC}], include_topic_authorized_operations=True
    )
    assert answer.topics[0].topic_authorized_operations == 1 << 3 | 1 << 8 | 1 << 10, (
        "READ, DESCRIBE, DESCRIBE_CONFIGS"
    )


def test_unknown_topic_id_is_not_found(world: OwnWorld) -> None:
    assert topic_with_id(Uuid(b"x" * 16), world.context(0)) is None
