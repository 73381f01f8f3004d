"""IncrementalAlterConfigs and AlterConfigs: the changes, their records, and the refusals."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.controller.config_changes import Operation
from kwire.messages.config_record import ConfigRecord
from kwire.protocol import ConfigResourceType, ErrorCode
from tests.gateway.controller.cluster import Cluster, create, made

SET, DELETE, APPEND, SUBTRACT = Operation
GROUP, METRICS, LOGGER, BROKER, TOPIC, _ = ConfigResourceType
#: (key, operation, value).
Change = tuple[str, int, str | None]


def cluster_with_topic() -> Cluster:
    cluster = Cluster(nodes=(1, 2))
    cluster.ask(create({"name": "t", "configs": [{"name": "retention.ms", "value": "5"}]}))
    return cluster


def resource(kind: int, name: str, *changes: Change) -> dict[str, Any]:
    configs = [
        {"name": key, "config_operation": operation, "value": value}
        for key, operation, value in changes
    ]
    return {"resource_type": kind, "resource_name": name, "configs": configs}


def alter(cluster: Cluster, *resources: dict[str, Any], **fields: Any) -> list[int]:
    answer = cluster.ask(
        made("IncrementalAlterConfigsRequest", resources=list(resources)), **fields
    )
    assert [(one.resource_type, one.resource_name) for one in answer.responses] == [
        (one["resource_type"], one["resource_name"]) for one in resources
    ]
    assert all((one.error_message is None) == (one.error_code == 0) for one in answer.responses)
    return [one.error_code for one in answer.responses]


def configs(cluster: Cluster, kind: int = TOPIC, name: str = "t") -> dict[str, str]:
    return cluster.image.configs.get((kind, name), {})


def test_keys_are_set_and_unset() -> None:
    cluster = cluster_with_topic()
    assert alter(
        cluster, resource(TOPIC, "t", ("segment.ms", SET, "7"), ("retention.ms", DELETE, None))
    ) == [0]
    assert configs(cluster) == {"segment.ms": "7"}
    assert alter(cluster, resource(TOPIC, "t", ("segment.ms", DELETE, ""))) == [0]
    assert (TOPIC, "t") not in cluster.image.configs


def test_append_and_subtract_change_lists() -> None:
    cluster = cluster_with_topic()
    key = "cleanup.policy"
    steps = (
        (APPEND, "compact", "delete,compact"),
        (APPEND, "compact", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
    )
    for operation, value, expected in steps:
        assert alter(cluster, resource(TOPIC, "t", (key, operation, value))) == [0]
        assert configs(cluster)[key] == expected
    assert alter(cluster, resource(TOPIC, "t", (key, SUBTRACT, "compact"))) == [0]
    assert configs(cluster)[key] == ""
    assert alter(cluster, resource(TOPIC, "t", (key, APPEND, "delete,,"))) == [0]
    assert configs(cluster)[key] == "delete"


def test_unchanged_value_makes_a_record_for_brokers_only() -> None:
    cluster = cluster_with_topic()
    request = made(
        "IncrementalAlterConfigsRequest",
        resources=[resource(TOPIC, "t", ("retention.ms", SET, "5"))],
    )
    assert cluster.decide(request, 1).operation is None
    again = made(
        "IncrementalAlterConfigsRequest",
        resources=[resource(BROKER, "1", ("num.io.threads", SET, "9"))],
    )
    for _ in range(2):
        cluster.ask(again)
        operation = cluster.decide(again, 1).operation
        assert operation is not None and len(operation.records) == 1


def test_a_resource_is_changed_whole_or_not_at_all() -> None:
    cluster = cluster_with_topic()
    bad = resource(TOPIC, "t", ("segment.ms", SET, "7"), ("retention.ms", SET, "x"))
    good = resource(BROKER, "", ("log.retention.ms", SET, "9"))
    assert alter(cluster, bad, good) == [ErrorCode.INVALID_CONFIG, 0]
    assert configs(cluster) == {"retention.ms": "5"}
    assert configs(cluster, BROKER, "")["log.retention.ms"] == "9"


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (resource(TOPIC, "nope", ("retention.ms", SET, "5")), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (resource(TOPIC, "", ("retention.ms", SET, "5")), ErrorCode.INVALID_REQUEST),
        (resource(TOPIC, "a b", ("retention.ms", SET, "5")), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (
            resource(TOPIC, "__cluster_metadata", ("retention.ms", SET, "5")),
            ErrorCode.INVALID_REQUEST,
        ),
        (resource(TOPIC, "t", ("no.such.key", SET, "5")), ErrorCode.INVALID_CONFIG),
        (resource(TOPIC, "t", ("retention.ms", SET, "-2")), ErrorCode.INVALID_CONFIG),
        (resource(TOPIC, "t", ("retention.ms", SET, None)), ErrorCode.INVALID_REQUEST),
        (resource(TOPIC, "t", ("retention.ms", APPEND, "5")), ErrorCode.INVALID_CONFIG),
        (resource(TOPIC, "t", ("retention.ms", 9, "5")), ErrorCode.INVALID_REQUEST),
        (resource(TOPIC, "t", ("cleanup.policy", APPEND, "never")), ErrorCode.INVALID_CONFIG),
        (
            resource(TOPIC, "t", ("retention.ms", SET, "5"), ("retention.ms", SET, "6")),
            ErrorCode.INVALID_REQUEST,
        ),
        (resource(BROKER, "x", ("num.io.threads", SET, "5")), ErrorCode.INVALID_REQUEST),
        (resource(BROKER, "-1", ("num.io.threads", SET, "5")), ErrorCode.INVALID_REQUEST),
        (resource(BROKER, "99999999999", ("num.io.threads", SET, "5")), ErrorCode.INVALID_REQUEST),
        (resource(BROKER, "77", ("num.io.threads", SET, "5")), ErrorCode.BROKER_ID_NOT_REGISTERED),
        (resource(BROKER, "1", ("num.io.threads", SET, "5\u3000")), ErrorCode.INVALID_REQUEST),
        (resource(BROKER, "\xa01", ("num.io.threads", SET, "5")), ErrorCode.INVALID_REQUEST),
        (resource(TOPIC, "t", ("retention.ms", SET, "\x857")), ErrorCode.INVALID_CONFIG),
        (
            resource(TOPIC, "t", ("leader.replication.throttled.replicas", SET, "0:1,\xa01:1")),
            ErrorCode.INVALID_CONFIG,
        ),
        (resource(METRICS, "m", ("match", SET, "client_id=(?P<n>x)")), ErrorCode.INVALID_CONFIG),
        (resource(METRICS, "m", ("match", SET, "client_id\xa0=x")), ErrorCode.INVALID_CONFIG),
        (
            resource(METRICS, "m", ("match", SET, "client_id=" + "x" * 4096)),
            ErrorCode.INVALID_CONFIG,
        ),
        (resource(BROKER, "1", ("num.io.threads", SET, "0")), ErrorCode.INVALID_REQUEST),
        (resource(BROKER, "1", ("node.id", SET, "7")), ErrorCode.INVALID_REQUEST),
        (resource(BROKER, "1", ("ssl.keystore.password", SET, "x")), ErrorCode.INVALID_REQUEST),
        (resource(BROKER, "", ("listeners", SET, "x")), ErrorCode.INVALID_REQUEST),
        (
            resource(BROKER, "", ("listener.name.a.ssl.keystore.type", SET, "x")),
            ErrorCode.INVALID_REQUEST,
        ),
        (resource(BROKER, "1", ("min.insync.replicas", SET, "1")), ErrorCode.INVALID_CONFIG),
        (resource(BROKER, "", ("min.insync.replicas", DELETE, None)), ErrorCode.INVALID_CONFIG),
        (resource(LOGGER, "1", ("kafka", SET, "INFO")), ErrorCode.INVALID_REQUEST),
        (resource(1, "t", ("retention.ms", SET, "5")), ErrorCode.INVALID_REQUEST),
        (resource(METRICS, "", ("interval.ms", SET, "1000")), ErrorCode.INVALID_REQUEST),
        (resource(METRICS, "m", ("interval", SET, "1000")), ErrorCode.INVALID_REQUEST),
        (resource(METRICS, "m", ("match", SET, "client_id=(")), ErrorCode.INVALID_CONFIG),
        (resource(METRICS, "m", ("metrics", APPEND, "a")), ErrorCode.INVALID_CONFIG),
        (resource(METRICS, "m", ("interval.ms", SET, "99")), ErrorCode.INVALID_REQUEST),
        (resource(METRICS, "m", ("interval.ms", SET, "often")), ErrorCode.INVALID_CONFIG),
        (resource(METRICS, "m", ("match", SET, "shoe_size=9")), ErrorCode.INVALID_CONFIG),
        (
            resource(GROUP, "", ("consumer.session.timeout.ms", SET, "50000")),
            ErrorCode.INVALID_REQUEST,
        ),
        (
            resource(GROUP, "g", ("consumer.session.timeout", SET, "50000")),
            ErrorCode.INVALID_CONFIG,
        ),
        (resource(GROUP, "g", ("consumer.session.timeout.ms", SET, "1")), ErrorCode.INVALID_CONFIG),
        (
            resource(GROUP, "g", ("share.auto.offset.reset", SET, "by_duration:P")),
            ErrorCode.INVALID_CONFIG,
        ),
    ],
)
def test_invalid_change_is_refused(asked: dict[str, Any], error: ErrorCode) -> None:
    cluster = cluster_with_topic()
    length = len(cluster.log)
    assert alter(cluster, asked) == [error]
    assert len(cluster.log) == length


def test_keys_of_groups_subscriptions_and_brokers_are_set() -> None:
    cluster = cluster_with_topic()
    asked = [
        resource(
            GROUP,
            "g",
            ("consumer.session.timeout.ms", SET, "50000"),
            ("share.auto.offset.reset", SET, "by_duration:PT1H"),
        ),
        resource(METRICS, "m", ("match", SET, r"client_id=\p{L}.*"), ("interval.ms", SET, "1000")),
        resource(
            BROKER,
            "2",
            ("listener.name.a.ssl.keystore.type", SET, "PEM"),
            ("my.plugin.key", SET, "x"),
        ),
        resource(BROKER, "", ("log.cleanup.policy", APPEND, "compact")),
    ]
    assert alter(cluster, *asked) == [0] * 4
    assert configs(cluster, METRICS, "m") == {"match": r"client_id=\p{L}.*", "interval.ms": "1000"}
    assert configs(cluster, BROKER, "")["log.cleanup.policy"] == "delete,compact"


def test_append_beyond_the_longest_value_is_refused() -> None:
    cluster = cluster_with_topic()
    many = ",".join(f"{number}:1" for number in range(100_000, 102_000))
    more = ",".join(f"{number}:1" for number in range(200_000, 202_000))
    key = "leader.replication.throttled.replicas"
    assert alter(cluster, resource(TOPIC, "t", (key, APPEND, many))) == [0]
    assert alter(cluster, resource(TOPIC, "t", (key, APPEND, more))) == [ErrorCode.INVALID_CONFIG]
    assert configs(cluster)[key] == many


def test_new_min_isr_clears_eligible_leader_replicas() -> None:
    cluster = cluster_with_topic()
    asked = [
        resource(TOPIC, "t", ("min.insync.replicas", SET, "2")),
        resource(BROKER, "", ("min.insync.replicas", SET, "2")),
    ]
    operation = cluster.decide(made("IncrementalAlterConfigsRequest", resources=asked), 1).operation
    assert operation is not None
    cleared: list[Any] = [
        record.message
        for record in operation.records
        if not isinstance(record.message, ConfigRecord)
    ]
    assert [one.topic_name for one in cleared] == ["t", ""]
    older = Cluster(level=25)  # no eligible leader replicas there
    operation = older.decide(
        made("IncrementalAlterConfigsRequest", resources=asked[1:]), 1
    ).operation
    assert operation is not None and len(operation.records) == 1
    older.commit(operation)
    assert alter(older, resource(BROKER, "1", ("min.insync.replicas", SET, "1"))) == [0]


def test_repeated_resource_is_refused() -> None:
    cluster = cluster_with_topic()
    one = resource(TOPIC, "t", ("segment.ms", SET, "7"))
    assert alter(cluster, one, one) == [ErrorCode.INVALID_REQUEST] * 2
    assert configs(cluster) == {"retention.ms": "5"}


def test_change_without_permission_is_refused() -> None:
    rules = [
        ("ALTER_CONFIGS", "TOPIC", "t"),
        ("ALTER_CONFIGS", "CLUSTER", "*"),
        ("ALTER_CONFIGS", "GROUP", "*"),
    ]
    asked = [
        resource(TOPIC, "t", ("segment.ms", SET, "7")),
        resource(BROKER, "", ("log.retention.ms", SET, "7")),
        resource(METRICS, "m", ("interval.ms", SET, "1000")),
        resource(GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")),
    ]
    assert alter(cluster_with_topic(), *asked, forbidden=rules) == [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ]


@pytest.mark.parametrize("version", range(3))
def test_alter_configs_unsets_keys_that_it_does_not_name(version: int) -> None:
    cluster = cluster_with_topic()

    def ask(*given: tuple[str, str | None]) -> int:
        entries = [{"name": key, "value": value} for key, value in given]
        one = {"resource_type": TOPIC, "resource_name": "t", "configs": entries}
        (result,) = cluster.ask(made("AlterConfigsRequest", resources=[one]), version).responses
        return int(result.error_code)

    assert ask(("segment.ms", "7")) == 0
    assert configs(cluster) == {"segment.ms": "7"}
    assert ask(("segment.ms", "x")) == ErrorCode.INVALID_CONFIG
    assert ask(("segment.ms", None)) == ErrorCode.INVALID_REQUEST
    assert configs(cluster) == {"segment.ms": "7"}
    assert ask() == 0
    assert not configs(cluster)
