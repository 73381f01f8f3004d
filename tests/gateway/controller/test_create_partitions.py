"""CreatePartitions: new partitions, placed or assigned manually, and the refusals."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.protocol import ErrorCode
from tests.gateway.controller.cluster import Cluster, create, made


def cluster_with(partitions: int = 2, factor: int = 2) -> Cluster:
    cluster = Cluster(nodes=(1, 2, 3))
    cluster.ask(create({"name": "a", "num_partitions": partitions, "replication_factor": factor}))
    return cluster


def grow(count: int, *assignments: list[int], name: str = "a") -> dict[str, Any]:
    hand = [{"broker_ids": one} for one in assignments] or None
    return {"name": name, "count": count, "assignments": hand}


def ask(cluster: Cluster, *topics: dict[str, Any], **fields: Any) -> list[int]:
    answer = cluster.ask(made("CreatePartitionsRequest", topics=list(topics)), **fields)
    return [one.error_code for one in answer.results]


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_added(version: int) -> None:
    cluster = cluster_with()
    assert ask(cluster, grow(5), version=version) == [0]
    partitions = cluster.image.partitions[cluster.image.topic_ids["a"]]
    assert sorted(partitions) == [0, 1, 2, 3, 4]
    assert {len(partition.replicas) for partition in partitions.values()} == {2}


def test_manual_assignments_are_used() -> None:
    cluster = cluster_with()
    assert ask(cluster, grow(4, [3, 1], [2, 3])) == [0]
    partitions = cluster.image.partitions[cluster.image.topic_ids["a"]]
    assert [partitions[index].replicas for index in (2, 3)] == [[3, 1], [2, 3]]


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (grow(2), ErrorCode.INVALID_PARTITIONS),
        (grow(1), ErrorCode.INVALID_PARTITIONS),
        (grow(-1), ErrorCode.INVALID_PARTITIONS),
        (grow(3, name="b"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (grow(3, name="__cluster_metadata"), ErrorCode.INVALID_REQUEST),
        (grow(4, [1, 2]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (grow(3, [1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (grow(3, [1, 7]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (grow(3, [1, 1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (grow(10_003), ErrorCode.POLICY_VIOLATION),
        (grow(2**31 - 1), ErrorCode.POLICY_VIOLATION),
    ],
)
def test_invalid_request_is_refused(topic: dict[str, Any], error: ErrorCode) -> None:
    cluster = cluster_with()
    length = len(cluster.log)
    assert ask(cluster, topic) == [error]
    assert len(cluster.log) == length


def test_too_many_partitions_refuse_the_whole_request() -> None:
    cluster = Cluster()
    cluster.ask(create({"name": "a"}, {"name": "b"}))
    assert ask(cluster, grow(6001), grow(6001, name="b")) == [ErrorCode.POLICY_VIOLATION] * 2
    assert all(len(partitions) == 1 for partitions in cluster.image.partitions.values())


def test_repeated_name_and_forbidden_name_are_refused() -> None:
    cluster = cluster_with()
    cluster.ask(create({"name": "b"}))
    results = ask(cluster, grow(5), grow(6), grow(2, name="b"), forbidden=[("ALTER", "TOPIC", "b")])
    assert results == [ErrorCode.INVALID_REQUEST, ErrorCode.TOPIC_AUTHORIZATION_FAILED]
