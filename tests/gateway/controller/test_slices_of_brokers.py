"""A decision about a broker, or about what brokers have by thousands, is interrupted as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.gateway.controller.broker_cluster import TOPIC, BrokerCluster
from tests.gateway.controller.cluster import allowing, made
from tests.gateway.controller.test_slices import CALLS_MAX, NUMBERS, acl
from tests.gateway.steps import calls_per_step


@pytest.fixture
def it() -> BrokerCluster:
    """Two brokers with thousands of partitions, which broker 1 leads, and thousands of ACLs."""
    it = BrokerCluster([1, 2])
    it.create(*([1, 2] for _ in NUMBERS))
    it.ask(made("CreateAclsRequest", creations=[acl(f"t{number}") for number in NUMBERS]))
    return it


def alter_partition(it: BrokerCluster) -> Any:
    isr = [{"broker_id": 1, "broker_epoch": it.broker(1).broker_epoch}]
    partitions = [
        {"partition_index": n, "leader_epoch": 0, "partition_epoch": 0, "new_isr_with_epochs": isr}
        for n in NUMBERS
    ]
    topics = [{"topic_id": it.image.topic_ids[TOPIC], "partitions": partitions}]
    epoch = it.broker(1).broker_epoch
    return made("AlterPartitionRequest", broker_id=1, broker_epoch=epoch, topics=topics)


def assign_to_directory(it: BrokerCluster) -> Any:
    topics = [
        {
            "topic_id": it.image.topic_ids[TOPIC],
            "partitions": [{"partition_index": n} for n in NUMBERS],
        }
    ]
    return made(
        "AssignReplicasToDirsRequest",
        broker_id=1,
        broker_epoch=it.broker(1).broker_epoch,
        directories=[{"id": it.directory(1), "topics": topics}],
    )


def reassign(it: BrokerCluster) -> Any:
    partitions = [{"partition_index": n, "replicas": [2]} for n in NUMBERS]
    topics = [{"name": TOPIC, "partitions": partitions}]
    return made("AlterPartitionReassignmentsRequest", topics=topics)


def heartbeat(it: BrokerCluster, **wants: bool) -> Any:
    return made(
        "BrokerHeartbeatRequest",
        broker_id=1,
        broker_epoch=it.broker(1).broker_epoch,
        current_metadata_offset=len(it.log) - 1,
        **wants,
    )


def delete_acls(**wanted: Any) -> Any:
    filters = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1}
    return {**filters, "permission_type": 1, **wanted}


REQUESTS: dict[str, Callable[[BrokerCluster], Any]] = {
    "AlterPartition": alter_partition,
    "AssignReplicasToDirs": assign_to_directory,
    "AlterPartitionReassignments of one topic": reassign,
    "BrokerHeartbeat that fences": lambda it: heartbeat(it, want_fence=True),
    "BrokerHeartbeat that shuts down": lambda it: heartbeat(it, want_shut_down=True),
    "UnregisterBroker": lambda it: made("UnregisterBrokerRequest", broker_id=1),
    "ElectLeaders of all": lambda it: made("ElectLeadersRequest", topic_partitions=None),
    "DeleteTopics of one topic": lambda it: made("DeleteTopicsRequest", topics=[{"name": TOPIC}]),
    "DeleteAcls of all": lambda it: made("DeleteAclsRequest", filters=[delete_acls()]),
    "DeleteAcls by name": lambda it: made(
        "DeleteAclsRequest",
        filters=[delete_acls(resource_name_filter=f"t{number}") for number in NUMBERS],
    ),
    "ListPartitionReassignments": lambda it: made(
        "ListPartitionReassignmentsRequest",
        topics=[{"name": TOPIC, "partition_indexes": list(NUMBERS)}],
    ),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_decision_about_thousands_of_partitions_yields_between_them(
    it: BrokerCluster, name: str
) -> None:
    request = REQUESTS[name](it)
    version = type(request).VERSIONS[-1]
    decision, calls = calls_per_step(it.controller.decide(request, version, allowing(), it.now_ms))
    assert calls <= CALLS_MAX
    if decision.operation is not None:
        it.commit(decision.operation)
    it.check()


def test_unfencing_a_broker_with_many_partitions_yields_between_them(it: BrokerCluster) -> None:
    it.fence(2)
    it.fence(1)
    work = it.controller.decide(heartbeat(it), 1, allowing(), it.now_ms)
    decision, calls = calls_per_step(work)
    assert calls <= CALLS_MAX and decision.operation is not None
    it.commit(decision.operation)
    assert {it.partition(number).leader for number in NUMBERS} == {1}
