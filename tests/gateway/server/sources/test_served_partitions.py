"""The partitions of a node: found by the name and the id of their topic, or refused with the error
for the client.
"""

from __future__ import annotations

import pytest

from gateway.ports.services import (
    AUDIT_TOPIC,
    AUDIT_TOPIC_ID,
    Isolation,
    OffsetOutOfRange,
    Partition,
    State,
)
from gateway.ports.view_topics import VIEW_TOPICS, view_topic
from kwire.protocol import CLUSTER_METADATA_TOPIC, METADATA_TOPIC_ID, ErrorCode
from kwire.uuid import Uuid
from tests.gateway.handlers.own_world import OTHER, OwnWorld
from tests.gateway.handlers.test_audit_topic import MemoryAudit
from tests.gateway.handlers.test_view_topics import MemoryViews
from tests.gateway.handlers.world import NODE

VIEW = view_topic("topics")
NOT_LED = ErrorCode.NOT_LEADER_OR_FOLLOWER
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture
def world() -> OwnWorld:
    """``orders`` has partition 0 here and partition 1 on the other node; so has the audit topic."""
    world = OwnWorld()
    world.audit, world.views = MemoryAudit(), MemoryViews()
    world.create("orders", [NODE, OTHER], [OTHER, NODE])
    return world


def found(world: OwnWorld, topic: str | Uuid, count: int) -> list[Partition | ErrorCode]:
    partitions = world.context(0).gateway.partitions
    return [partitions.find(topic, index) for index in range(-1, count)]


@pytest.mark.parametrize("topic", [CLUSTER_METADATA_TOPIC, METADATA_TOPIC_ID])
def test_metadata_topic_has_one_partition_at_every_node(world: OwnWorld, topic: str | Uuid) -> None:
    assert found(world, topic, 2) == [UNKNOWN, world.partition, UNKNOWN]


@pytest.mark.parametrize("topic", [AUDIT_TOPIC, AUDIT_TOPIC_ID])
def test_partition_of_the_audit_topic_is_that_of_the_node_at_its_index(
    world: OwnWorld, topic: str | Uuid
) -> None:
    own = world.audit.partition
    assert found(world, topic, 3) == [UNKNOWN, own, NOT_LED, UNKNOWN]
    world.audit.nodes = [2, NODE, OTHER]
    assert found(world, topic, 4) == [UNKNOWN, NOT_LED, own, NOT_LED, UNKNOWN]
    world.audit.nodes = []
    assert found(world, topic, 1) == [UNKNOWN, UNKNOWN]


@pytest.mark.parametrize("topic", [VIEW, VIEW_TOPICS[VIEW]])
def test_view_topic_has_one_partition_while_views_are_available(
    world: OwnWorld, topic: str | Uuid
) -> None:
    assert found(world, topic, 2) == [UNKNOWN, world.views.log, UNKNOWN]
    world.views.available = False
    assert found(world, topic, 1) == [UNKNOWN, UNKNOWN]
    world.views = None
    assert found(world, topic, 1) == [UNKNOWN, UNKNOWN]


def test_partition_of_a_created_topic_is_found_where_this_node_leads_it(world: OwnWorld) -> None:
    by_name = found(world, "orders", 3)
    assert by_name == found(world, world.quorum_image.topic_ids["orders"], 3)
    assert [by_name[0], *by_name[2:]] == [UNKNOWN, NOT_LED, UNKNOWN]
    assert not isinstance(by_name[1], ErrorCode)
    assert found(world, "nope", 1) == found(world, Uuid(b"x" * 16), 1) == [UNKNOWN, UNKNOWN]


def test_created_topic_of_an_observed_cluster_has_no_partition_here(world: OwnWorld) -> None:
    world.controller = None  # the observer of a real quorum knows an image, too
    assert found(world, "orders", 1) == [UNKNOWN, UNKNOWN]


def test_partition_of_a_created_topic_is_empty(world: OwnWorld) -> None:
    (_, empty), (_, again) = found(world, "orders", 1), found(world, "orders", 1)
    assert not isinstance(empty, ErrorCode) and empty is again
    assert (empty.state, empty.leader_epoch, empty.size_bytes) == (State.READY, 0, 0)
    assert (empty.log_start_offset, empty.high_watermark, empty.read(0, 10).size) == (0, 0, 0)
    assert empty.offset_for_timestamp(0) is empty.max_timestamp() is None
    assert (empty.end_offset_for_epoch(0), empty.epoch_at(0)) == ((-1, -1), -1)
    for offset in (-1, 1):
        with pytest.raises(OffsetOutOfRange):
            empty.read(offset, 10)
    assert empty.bytes_available(0, 1) == 0


@pytest.mark.parametrize("replica_id", [-1, 0, 3])
def test_sender_of_any_replica_id_reads_as_a_consumer(world: OwnWorld, replica_id: int) -> None:
    isolation = world.partitions.policy.isolation
    assert isolation(replica_id, 0) is Isolation.HIGH_WATERMARK
    assert isolation(replica_id, 1) is Isolation.TXN_COMMITTED
