"""Reassignments of partitions: begun, completed, cancelled, listed. Cases of Kafka's
ReplicationControlManagerTest.
"""

from __future__ import annotations

from typing import Any

import pytest

from kwire.protocol import ErrorCode
from tests.gateway.controller.broker_cluster import BrokerCluster
from tests.gateway.controller.cluster import Cluster, create, made


def listed(
    it: Cluster, topics: Any = None
) -> dict[tuple[str, int], tuple[list[int], list[int], list[int]]]:
    """The listed reassignments: replicas, added ones, removed ones."""
    answer = it.ask(made("ListPartitionReassignmentsRequest", topics=topics))
    assert answer.error_code == 0
    return {
        (topic.name, one.partition_index): (
            one.replicas,
            one.adding_replicas,
            one.removing_replicas,
        )
        for topic in answer.topics
        for one in topic.partitions
    }


def now(it: BrokerCluster) -> tuple[list[int], list[int], int]:
    return it.partition().replicas, it.partition().isr, it.partition().leader


def test_reassignment_completes_when_added_replicas_are_in_sync() -> None:
    it = BrokerCluster((1, 2, 3, 4))
    it.create([1, 2], [3, 4])
    assert it.reassign([3, 4]) == ErrorCode.NONE
    assert now(it) == ([3, 4, 1, 2], [1, 2], 1)
    moving = {("orders", 0): ([3, 4, 1, 2], [3, 4], [1, 2])}
    assert listed(it) == moving
    assert (
        listed(
            it,
            [
                {"name": "orders", "partition_indexes": [0, 1, 9]},
                {"name": "x", "partition_indexes": [0]},
            ],
        )
        == moving
    )
    assert listed(it, [{"name": "orders", "partition_indexes": [1]}]) == {}
    it.alter([1, 2, 3])
    assert now(it) == ([3, 4, 1, 2], [1, 2, 3], 1)
    assert it.alter([1, 2, 3, 4]).error_code == ErrorCode.NEW_LEADER_ELECTED
    assert now(it) == ([3, 4], [3, 4], 3)
    assert (it.partition().leader_epoch, listed(it)) == (1, {})


@pytest.mark.parametrize(
    ("replicas", "then"),
    [
        ([3, 2, 1], ([3, 2, 1], [1, 2, 3], 1)),  # another order
        ([3, 2], ([3, 2], [2, 3], 3)),  # fewer
        ([1, 2, 3], ([1, 2, 3], [1, 2, 3], 1)),  # the same
    ],
)
def test_reassignment_to_replicas_in_sync_completes_at_once(replicas: list[int], then: Any) -> None:
    it = BrokerCluster((1, 2, 3))
    it.create([1, 2, 3])
    assert it.reassign(replicas) == ErrorCode.NONE
    assert now(it) == then
    assert listed(it) == {}


def test_reassignment_is_cancelled() -> None:
    it = BrokerCluster((1, 2, 3))
    it.create([1, 2])
    assert it.reassign(None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert it.reassign([2, 3]) == ErrorCode.NONE
    assert it.alter([1, 2]).error_code == 0
    assert it.reassign(None) == ErrorCode.NONE
    assert now(it) == ([2, 1], [1, 2], 1)
    assert (listed(it), it.partition().leader_epoch) == ({}, 1), "who was added is fenced off"


@pytest.mark.parametrize("unclean", ["true", "false"])
def test_cancelling_with_only_added_replicas_in_sync_is_unclean(unclean: str) -> None:
    it = BrokerCluster((1, 2, 3, 4), level=22)
    it.create([1, 2], unclean_leader_election_enable=unclean)
    assert it.reassign([3, 4]) == ErrorCode.NONE
    it.alter([1, 3])
    it.fence(1)
    assert now(it) == ([3, 4, 1, 2], [3], 3)
    assert it.reassign(None) == (
        ErrorCode.NONE if unclean == "true" else ErrorCode.INVALID_REPLICA_ASSIGNMENT
    )
    assert now(it) == (([1, 2], [2], 2) if unclean == "true" else ([3, 4, 1, 2], [3], 3))


def test_reassignment_is_replaced_and_reversed() -> None:
    it = BrokerCluster((1, 2, 3, 4, 5))
    it.create([1, 2])
    assert it.reassign([3, 4]) == ErrorCode.NONE
    assert it.reassign([4, 5]) == ErrorCode.NONE
    assert now(it) == ([4, 5, 1, 2, 3], [1, 2], 1)
    assert listed(it) == {("orders", 0): ([4, 5, 1, 2, 3], [5], [1, 2, 3])}
    assert it.reassign([1, 2]) == ErrorCode.NONE
    assert now(it) == ([1, 2], [1, 2], 1)
    assert listed(it) == {}


def test_reassignment_is_replaced_by_a_larger_one() -> None:
    it = BrokerCluster((1, 2, 3, 4))
    it.create([1, 2])
    assert it.reassign([3, 4]) == ErrorCode.NONE
    assert it.reassign([1, 2, 3, 4]) == ErrorCode.NONE
    assert listed(it) == {("orders", 0): ([1, 2, 3, 4], [3, 4], [])}
    it.alter([1, 2, 3, 4])
    assert (now(it), listed(it)) == (([1, 2, 3, 4], [1, 2, 3, 4], 1), {})


def test_reassignment_continues_when_brokers_are_fenced() -> None:
    it = BrokerCluster((1, 2, 3))
    it.create([1, 2])
    it.reassign([2, 3])
    it.fence(1)
    assert now(it) == ([2, 3, 1], [2], 2)
    it.alter([2, 3])
    assert now(it) == ([2, 3], [2, 3], 2)


@pytest.mark.parametrize(
    ("replicas", "error"),
    [
        ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 9], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, -1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_invalid_target_is_refused(replicas: list[int], error: ErrorCode) -> None:
    it = BrokerCluster((1, 2))
    it.create([1, 2])
    assert it.reassign(replicas) == error


def test_replication_factor_change_is_refused_if_disallowed() -> None:
    it = BrokerCluster((1, 2, 3))
    it.create([1, 2])
    assert (
        it.reassign([1, 2, 3], allow_replication_factor_change=False)
        == ErrorCode.INVALID_REPLICATION_FACTOR
    )
    assert (
        it.reassign([1], allow_replication_factor_change=False)
        == ErrorCode.INVALID_REPLICATION_FACTOR
    )
    assert it.reassign([2, 3], allow_replication_factor_change=False) == ErrorCode.NONE
    assert it.reassign([3, 1], allow_replication_factor_change=False) == ErrorCode.NONE, (
        "two, though four stand in the record"
    )


def test_unknown_partitions_are_refused() -> None:
    it = BrokerCluster((1,))
    it.create([1])
    assert it.reassign([1], index=5) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert it.reassign([1], topic="nothing") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_reassignment_needs_alter_on_the_cluster() -> None:
    it = BrokerCluster((1, 2))
    it.create([1])
    partitions = [{"partition_index": 0, "replicas": [2]}]
    move = made(
        "AlterPartitionReassignmentsRequest", topics=[{"name": "orders", "partitions": partitions}]
    )
    answer = it.ask(move, forbidden=[("ALTER", "CLUSTER", "kafka-cluster")])
    assert (
        answer.error_code
        == answer.responses[0].partitions[0].error_code
        == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    )
    look = made("ListPartitionReassignmentsRequest", topics=None)
    answer = it.ask(look, forbidden=[("DESCRIBE", "CLUSTER", "kafka-cluster")])
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_reassignment_without_brokers_completes_at_once() -> None:
    it = Cluster(nodes=(1, 2, 3))
    it.ask(
        create({"name": "orders", "assignments": [{"partition_index": 0, "broker_ids": [1, 2]}]})
    )
    partitions = [{"partition_index": 0, "replicas": [2, 3]}]
    it.ask(
        made(
            "AlterPartitionReassignmentsRequest",
            topics=[{"name": "orders", "partitions": partitions}],
        )
    )
    (partition,) = (one[0] for one in it.image.partitions.values())
    assert (partition.replicas, sorted(partition.isr), partition.leader) == ([2, 3], [2, 3], 2)
    assert listed(it) == {}
