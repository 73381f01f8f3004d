"""CreateTopics: records, responses, and every refusal."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.controller.records import OPERATION_RECORDS_MAX
from kwire.protocol import ErrorCode
from kwire.uuid import ZERO_UUID, Uuid
from tests.gateway.controller.cluster import Cluster, create, made

TOPIC = {"name": "orders", "num_partitions": 2, "replication_factor": 1}
UNASSIGNED = Uuid(bytes(15) + b"\x01")


def by_hand(*replicas: list[int], **fields: Any) -> dict[str, Any]:
    assignments = [
        {"partition_index": index, "broker_ids": one} for index, one in enumerate(replicas)
    ]
    return {"name": "orders", "assignments": assignments, **fields}


def configured(**configs: str | None) -> dict[str, Any]:
    return {
        **TOPIC,
        "configs": [
            {"name": name.replace("_", "."), "value": value} for name, value in configs.items()
        ],
    }


def refused(topic: dict[str, Any], cluster: Cluster | None = None) -> ErrorCode:
    cluster = cluster or Cluster(nodes=(1, 2, 3))
    length = len(cluster.log)
    (result,) = cluster.ask(create(topic)).topics
    assert result.error_message and result.name == topic["name"] and result.topic_id == ZERO_UUID
    assert len(cluster.log) == length
    return ErrorCode(result.error_code)


def test_records_are_in_kafkas_order() -> None:
    cluster = Cluster(nodes=(1, 2))
    decision = cluster.decide(create(configured(retention_ms="5000", min_insync_replicas="2")), 7)
    assert decision.operation is not None
    assert [record.message.NAME for record in decision.operation.records] == [
        "TopicRecord",
        "ConfigRecord",
        "ConfigRecord",
        "ClearElrRecord",
        "PartitionRecord",
        "PartitionRecord",
    ]
    assert len(decision.operation.batches) == 1


@pytest.mark.parametrize("version", range(2, 8))
def test_response_has_the_fields_of_its_version(version: int) -> None:
    cluster = Cluster()
    (result,) = cluster.ask(create(configured(retention_ms="5000")), version).topics
    topic_id = cluster.image.topic_ids["orders"]
    assert result.error_code == 0 and result.error_message is None
    assert result.topic_id == (topic_id if version >= 7 else ZERO_UUID)
    if version >= 5:
        configs = {one.name: (one.value, one.config_source) for one in result.configs}
        assert (result.num_partitions, result.replication_factor) == (2, 1)
        assert configs["retention.ms"] == ("5000", 1)
        assert configs["min.insync.replicas"] == ("1", 3)
        assert configs["cleanup.policy"] == ("delete", 5)
        assert [one.name for one in result.configs] == sorted(configs) and len(configs) == 37


def test_first_active_replica_leads_a_new_partition() -> None:
    cluster = Cluster(nodes=(1, 2, 3))
    cluster.ask(create({"name": "orders", "num_partitions": 6, "replication_factor": 2}))
    partitions = cluster.image.partitions[cluster.image.topic_ids["orders"]]
    assert sorted(partitions) == list(range(6))
    for partition in partitions.values():
        assert len(set(partition.replicas)) == 2 and set(partition.replicas) <= {1, 2, 3}
        assert partition.isr == partition.replicas and partition.leader == partition.replicas[0]
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
        assert partition.directories == [UNASSIGNED, UNASSIGNED]
    leaders = [partition.leader for partition in partitions.values()]
    assert all(leaders.count(node) == 2 for node in (1, 2, 3))


def test_unset_counts_get_the_defaults() -> None:
    cluster = Cluster(nodes=(1, 2), num_partitions=3, default_replication_factor=2)
    (result,) = cluster.ask(create({"name": "orders"})).topics
    assert (result.num_partitions, result.replication_factor) == (3, 2)


def test_manual_assignments_are_used() -> None:
    cluster = Cluster(nodes=(1, 2, 3))
    assert cluster.ask(create(by_hand([3, 1], [2, 3]))).topics[0].error_code == 0
    partitions = cluster.image.partitions[cluster.image.topic_ids["orders"]]
    assert [partitions[index].replicas for index in (0, 1)] == [[3, 1], [2, 3]]
    assert [partitions[index].leader for index in (0, 1)] == [3, 2]


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (by_hand([1], num_partitions=1), ErrorCode.INVALID_REQUEST),
        (by_hand([1], replication_factor=1), ErrorCode.INVALID_REQUEST),
        (by_hand([]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (by_hand([1, 1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (by_hand([1, 9]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (by_hand([1, 2], [3]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (
            {"name": "x", "assignments": [{"partition_index": 1, "broker_ids": [1]}]},
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            {"name": "x", "assignments": [{"partition_index": 0, "broker_ids": [1]}] * 2},
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        ({"name": "x", "replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"name": "x", "replication_factor": -2}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"name": "x", "replication_factor": 4}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"name": "x", "num_partitions": 0}, ErrorCode.INVALID_PARTITIONS),
        ({"name": "x", "num_partitions": -2}, ErrorCode.INVALID_PARTITIONS),
        ({"name": "x", "num_partitions": OPERATION_RECORDS_MAX + 1}, ErrorCode.POLICY_VIOLATION),
        ({"name": "x", "num_partitions": 2**31 - 1}, ErrorCode.POLICY_VIOLATION),
        (
            {"name": "x", "num_partitions": OPERATION_RECORDS_MAX},
            ErrorCode.POLICY_VIOLATION,
        ),  # and the record of the topic
        ({"name": ""}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": ".."}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "a b"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "a" * 250}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "__cluster_metadata"}, ErrorCode.INVALID_REQUEST),
        (configured(no_such_key="1"), ErrorCode.INVALID_CONFIG),
        (configured(retention_ms="soon"), ErrorCode.INVALID_CONFIG),
        (configured(retention_ms=None), ErrorCode.INVALID_CONFIG),
        (configured(retention_ms="\xa086400000"), ErrorCode.INVALID_CONFIG),
        (configured(cleanup_policy="compact,\u2003delete"), ErrorCode.INVALID_CONFIG),
        (configured(remote_storage_enable="true"), ErrorCode.INVALID_CONFIG),
        (
            configured(min_compaction_lag_ms="10", max_compaction_lag_ms="5"),
            ErrorCode.INVALID_CONFIG,
        ),
    ],
)
def test_invalid_topic_is_refused(topic: dict[str, Any], error: ErrorCode) -> None:
    assert refused(topic) is error


def test_name_that_collides_in_metrics_is_refused() -> None:
    cluster = Cluster()
    cluster.ask(create({"name": "a.b"}))
    assert refused({"name": "a_b"}, cluster) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert refused({"name": "a.b"}, cluster) is ErrorCode.TOPIC_ALREADY_EXISTS
    assert cluster.ask(create({"name": "a-b"})).topics[0].error_code == 0
    cluster.ask(made("DeleteTopicsRequest", topics=[{"name": "a.b"}]))
    assert cluster.ask(create({"name": "a_b"})).topics[0].error_code == 0


def test_repeated_name_is_refused_and_others_are_created() -> None:
    cluster = Cluster()
    results = cluster.ask(create(TOPIC, TOPIC, {"name": "other"})).topics
    assert [(one.name, one.error_code) for one in results] == [
        ("orders", ErrorCode.INVALID_REQUEST),
        ("other", 0),
    ]
    assert set(cluster.image.topic_ids) == {"other"}


def test_too_many_partitions_refuse_the_whole_request() -> None:
    cluster = Cluster()
    topics = [{"name": name, "num_partitions": 6000} for name in ("a", "b")]
    assert [one.error_code for one in cluster.ask(create(*topics)).topics] == [
        ErrorCode.POLICY_VIOLATION
    ] * 2
    assert not cluster.image.topics


def test_create_without_permission_is_refused() -> None:
    cluster = Cluster()
    nobody = [("CREATE", "CLUSTER", "*"), ("CREATE", "TOPIC", "orders")]
    results = cluster.ask(create(TOPIC, {"name": "mine"}), forbidden=nobody).topics
    assert [one.error_code for one in results] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0]
    (result,) = cluster.ask(create(TOPIC), forbidden=[("CREATE", "TOPIC", "*")]).topics
    assert result.error_code == 0, "who may create on the cluster may create any"


def test_configs_are_withheld_without_describe_configs() -> None:
    (result,) = Cluster().ask(create(TOPIC), forbidden=[("DESCRIBE_CONFIGS", "TOPIC", "*")]).topics
    assert (
        result.error_code == 0
        and result.topic_config_error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    )
    assert not result.configs and (result.num_partitions, result.replication_factor) == (-1, -1)


@pytest.mark.parametrize("level", [7, 16, 17, 22, 23, 30])
def test_partitions_have_directories_from_level_17_on(level: int) -> None:
    cluster = Cluster(level=level)
    assert cluster.ask(create(TOPIC)).topics[0].error_code == 0
    partitions = cluster.image.partitions[cluster.image.topic_ids["orders"]]
    assert all(
        partition.directories == [UNASSIGNED if level >= 17 else ZERO_UUID]
        for partition in partitions.values()
    )
