"""The view topics as clients see them: found and listed, fetched when they are made, read only,
each with its own permission.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.handlers.apis import (
    describe_configs,
    describe_log_dirs,
    describe_topic_partitions,
    fetch,
    list_config_resources,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from gateway.handlers.apis.produce import VIEW
from gateway.handlers.catalog import topic_named, topic_with_id
from gateway.ports.pending_response import PendingResponse
from gateway.ports.services import AUDIT_TOPIC_ID, Isolation
from gateway.ports.view_topics import CHANGES, VIEW_TOPICS, view_topic
from kwire.protocol import ErrorCode
from tests.gateway.handlers.admin_handlers import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_topics,
    incremental_alter_configs,
)
from tests.gateway.handlers.own_world import OwnWorld
from tests.gateway.handlers.world import NODE, Batch, MemoryPartition

LOG = "__cluster_metadata"
TOPIC = view_topic("topics")
TOPIC_ID = VIEW_TOPICS[TOPIC]


@dataclass(eq=False)
class LazyPartition(MemoryPartition):
    """A partition whose batches are made when ``made`` is set."""

    made: bool = False

    def bytes_available(
        self, offset: int, limit: int, isolation: Isolation = Isolation.HIGH_WATERMARK
    ) -> int:
        return super().bytes_available(offset, limit, isolation) if self.made else 0


@dataclass
class MemoryViews:
    """``gateway.ports.services.Views`` with one partition for all views."""

    available: bool = True
    listed: bool = True
    log: LazyPartition = field(default_factory=lambda: LazyPartition([Batch(0, 0, 0, size=70)]))

    def partition(self, topic: str) -> LazyPartition:
        assert topic in VIEW_TOPICS
        return self.log


@pytest.fixture
def world() -> OwnWorld:
    world = OwnWorld()
    world.views = MemoryViews()
    return world


def test_topic_ids_are_fixed() -> None:
    assert str(TOPIC_ID) == "a3dpcmUAgACAAAAAAAABAQ"
    assert len({AUDIT_TOPIC_ID, *VIEW_TOPICS.values()}) == 12
    for topic_id in VIEW_TOPICS.values():
        assert (topic_id[6] >> 4, topic_id[8] >> 6) == (8, 2), "version 8 of RFC 9562"


def test_topic_is_found_by_name_and_by_id(world: OwnWorld) -> None:
    context = world.context(0)
    topic = topic_named(TOPIC, context)
    assert topic is not None and topic == topic_with_id(TOPIC_ID, context)


@pytest.mark.parametrize(
    "views", [None, MemoryViews(available=False)], ids=["disabled", "no state to show"]
)
def test_topics_do_not_exist_without_views(world: OwnWorld, views: Any) -> None:
    world.views = views
    assert topic_named(TOPIC, world.context(0)) is topic_with_id(TOPIC_ID, world.context(0)) is None
    assert [topic.name for topic in world.ask(metadata, 12, topics=None).topics] == [LOG]


@pytest.mark.parametrize("version", metadata.VERSIONS)
def test_metadata_has_each_view_with_one_partition_here(world: OwnWorld, version: int) -> None:
    answer = world.ask(metadata, version, topics=[] if version == 0 else None)
    assert [topic.name for topic in answer.topics] == [LOG, *VIEW_TOPICS]
    for topic in answer.topics[1:]:
        assert version < 10 or topic.topic_id == VIEW_TOPICS[topic.name]
        assert not topic.is_internal, "clients hide what is"
        (partition,) = topic.partitions
        assert (partition.partition_index, partition.leader_id) == (0, NODE)
    if version >= 12:
        (one,) = world.ask(metadata, version, topics=[{"name": None, "topic_id": TOPIC_ID}]).topics
        assert one.name == TOPIC


def test_all_lists_of_topics_name_them(world: OwnWorld) -> None:
    found = world.ask(list_config_resources, 1, resource_types=[2]).config_resources
    assert [one.resource_name for one in found] == sorted([LOG, *VIEW_TOPICS])
    answer = world.ask(describe_topic_partitions, 0, topics=[], response_partition_limit=100)
    assert [topic.name for topic in answer.topics] == sorted([LOG, *VIEW_TOPICS])
    (directory,) = world.ask(describe_log_dirs, 4, topics=None).results
    assert [topic.name for topic in directory.topics] == [LOG], "views have no files"


def test_topics_that_are_not_listed_are_found_by_name_and_id(world: OwnWorld) -> None:
    world.views.listed = False
    assert [topic.name for topic in world.ask(metadata, 12, topics=None).topics] == [LOG]
    found = world.ask(list_config_resources, 1, resource_types=[2]).config_resources
    assert [one.resource_name for one in found] == [LOG]
    answer = world.ask(describe_topic_partitions, 0, topics=[], response_partition_limit=100)
    assert [topic.name for topic in answer.topics] == [LOG]
    for named in ({"name": TOPIC}, {"name": None, "topic_id": TOPIC_ID}):
        (one,) = world.ask(metadata, 12, topics=[named]).topics
        assert (one.error_code, one.name, one.topic_id) == (0, TOPIC, TOPIC_ID)
    (one,) = world.ask(
        describe_topic_partitions, 0, topics=[{"name": TOPIC}], response_partition_limit=100
    ).topics
    assert (one.error_code, one.name) == (0, TOPIC)


def asked(version: int, offset: int = 0) -> dict[str, Any]:
    named = {"topic_id": TOPIC_ID} if version >= 13 else {"topic": TOPIC}
    partition = {
        "partition": 0,
        "fetch_offset": offset,
        "partition_max_bytes": 10_000,
        "current_leader_epoch": -1,
    }
    topics = [{**named, "partitions": [partition]}]
    return {"max_bytes": 10_000, "min_bytes": 1, "max_wait_ms": 500, "topics": topics}


@pytest.mark.parametrize("version", fetch.VERSIONS)
def test_fetch_waits_until_batches_are_made(world: OwnWorld, version: int) -> None:
    pending = world.ask(fetch, version, **asked(version))
    assert isinstance(pending, PendingResponse), "below the high watermark, but not made yet"
    said: list[Any] = []
    pending.attach(said.append)
    world.views.log.made = True
    pending.try_complete()
    (partition,) = said[0].responses[0].partitions
    assert partition.high_watermark == 1 and len(partition.records) == 70


def test_offsets_and_epochs_are_those_of_the_view(world: OwnWorld) -> None:
    for timestamp, offset in ((-1, 1), (-2, 0)):
        partitions = [{"partition_index": 0, "timestamp": timestamp}]
        topics = [{"name": TOPIC, "partitions": partitions}]
        (found,) = world.ask(list_offsets, 8, topics=topics).topics
        assert found.partitions[0].offset == offset
    partitions = [{"partition": 0, "leader_epoch": 0, "current_leader_epoch": -1}]
    topics = [{"topic": TOPIC, "partitions": partitions}]
    (found,) = world.ask(offset_for_leader_epoch, 4, topics=topics).topics
    assert found.partitions[0].end_offset == 1


@pytest.mark.parametrize(("topic", "policy"), [(TOPIC, "compact"), (view_topic(CHANGES), "delete")])
def test_describe_configs_names_the_cleanup_policy(
    world: OwnWorld, topic: str, policy: str
) -> None:
    resource = {"resource_type": 2, "resource_name": topic, "configuration_keys": None}
    (result,) = world.ask(describe_configs, 4, resources=[resource]).results
    configs = {config.name: config.value for config in result.configs}
    assert (configs["cleanup.policy"], configs["retention.ms"]) == (policy, "-1")
    assert all(config.read_only for config in result.configs)


@pytest.mark.parametrize("version", produce.VERSIONS)
def test_produce_is_refused(world: OwnWorld, version: int) -> None:
    named = {"topic_id": TOPIC_ID} if version >= 13 else {"name": TOPIC}
    data = [{**named, "partition_data": [{"index": 0, "records": None}]}]
    (topic,) = world.ask(produce, version, acks=1, topic_data=data).responses
    (partition,) = topic.partition_responses
    assert partition.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert version < 8 or partition.error_message == VIEW


def test_topic_cannot_be_created_or_changed(world: OwnWorld) -> None:
    refused = ErrorCode.INVALID_REQUEST
    topic = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1}
    (created,) = world.ask(create_topics, 7, topics=[topic], timeout_ms=1000).topics
    assert (created.error_code, TOPIC in created.error_message) == (refused, True)
    grown = [{"name": TOPIC, "count": 9, "assignments": None}]
    (found,) = world.ask(create_partitions, 3, topics=grown).results
    assert (found.error_code, "one partition" in found.error_message) == (refused, True)
    configs = [{"name": "retention.ms", "value": "5"}]
    resource = {"resource_type": 2, "resource_name": TOPIC, "configs": configs}
    for handler, version in ((alter_configs, 2), (incremental_alter_configs, 1)):
        (changed,) = world.ask(handler, version, resources=[resource]).responses
        assert (changed.error_code, "derived" in changed.error_message) == (refused, True)
    for named in ({"name": TOPIC}, {"name": None, "topic_id": TOPIC_ID}):
        (deleted,) = world.ask(delete_topics, 6, topics=[named], timeout_ms=1000).responses
        assert (deleted.error_code, TOPIC in deleted.error_message) == (refused, True)


def test_read_of_one_view_permits_no_other(world: OwnWorld) -> None:
    world.views.log.made = True
    world.authorizer.forbidden = {
        (operation, "TOPIC", view_topic("acls")) for operation in ("READ", "DESCRIBE")
    }
    names = [topic.name for topic in world.ask(metadata, 12, topics=None).topics]
    assert TOPIC in names and view_topic("acls") not in names
    fault = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    for version in (12, 13):
        request = asked(version)
        key = "topic_id" if version >= 13 else "topic"
        acls = view_topic("acls")
        request["topics"][0][key] = VIEW_TOPICS[acls] if version >= 13 else acls
        (topic,) = world.ask(fetch, version, **request).responses
        assert topic.partitions[0].error_code == fault
        assert world.ask(fetch, version, **asked(version)).responses[0].partitions[0].records


def test_authorized_operations_are_those_of_a_read_only_topic(world: OwnWorld) -> None:
    answer = world.ask(
        metadata, 12, topics=[{"name": TOPIC}], include_topic_authorized_operations=True
    )
    assert answer.topics[0].topic_authorized_operations == 1 << 3 | 1 << 8 | 1 << 10, (
        "READ, DESCRIBE, DESCRIBE_CONFIGS"
    )
