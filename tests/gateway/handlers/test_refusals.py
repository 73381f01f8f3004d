"""Changes are refused item by item, at every version, with an error that clients do not retry;
lists are empty.
"""

from __future__ import annotations

from typing import Any

import pytest
from kafka.errors import for_code

import kwire
from gateway.handlers.context import Handler
from gateway.handlers.refusals import REASON, REFUSED
from gateway.handlers.table import handlers
from kwire.protocol import ErrorCode
from kwire.uuid import ZERO_UUID, Uuid
from tests.gateway.handlers.world import World

SOME_ID = Uuid(b"\x07" * 16)
#: APIs that an active controller would carry out.
FOR_A_CONTROLLER = (
    "create_topics",
    "delete_topics",
    "create_partitions",
    "alter_configs",
    "incremental_alter_configs",
    "create_acls",
    "delete_acls",
    "alter_client_quotas",
    "alter_user_scram_credentials",
    "unregister_broker",
    "unregister_controller",
    "update_features",
    "elect_leaders",
    "alter_partition_reassignments",
)
#: APIs that read the image of the cluster, if there is one.
OF_THE_IMAGE = (
    "list_partition_reassignments",
    "describe_acls",
    "describe_client_quotas",
    "describe_user_scram_credentials",
)
HANDLERS = {
    handler.name: handler
    for handler in handlers().values()
    if handler.name in (*FOR_A_CONTROLLER, *OF_THE_IMAGE, "init_producer_id", "delete_records")
}


def every_version(*names: str) -> Any:
    return pytest.mark.parametrize(
        ("handler", "version"),
        [(HANDLERS[name], version) for name in names for version in HANDLERS[name].versions],
    )


def test_the_error_ends_the_matter_at_once() -> None:
    assert not for_code(REFUSED).retriable
    assert "read-only" in REASON


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=list(HANDLERS))
def test_versions_are_those_of_the_schema_and_released(handler: Handler) -> None:
    request, response = kwire.request_type(handler.api_key), kwire.response_type(handler.api_key)
    assert set(handler.versions) <= set(request.VERSIONS) & set(response.VERSIONS)
    newest = request.VERSIONS[-1] - (1 if request.LATEST_VERSION_UNSTABLE else 0)
    assert handler.versions == range(request.VERSIONS[0], newest + 1)


@every_version("create_topics")
def test_create_topics(handler: Handler, version: int) -> None:
    topics = [
        {"name": name, "num_partitions": 1, "replication_factor": 1}
        for name in ("a", "__cluster_metadata")
    ]
    answer = World().ask(handler, version, topics=topics)
    assert [(t.name, t.error_code, t.error_message) for t in answer.topics] == [
        ("a", REFUSED, REASON),
        ("__cluster_metadata", REFUSED, REASON),
    ]


@every_version("delete_topics")
def test_delete_topics(handler: Handler, version: int) -> None:
    if version >= 6:
        fields: dict[str, Any] = {"topics": [{"name": "a"}, {"name": None, "topic_id": SOME_ID}]}
        expected = [("a", ZERO_UUID), (None, SOME_ID)]
    else:
        fields, expected = {"topic_names": ["a", "b"]}, [("a", ZERO_UUID), ("b", ZERO_UUID)]
    answer = World().ask(handler, version, **fields)
    assert [(one.name, one.topic_id) for one in answer.responses] == expected
    assert {(one.error_code, one.error_message) for one in answer.responses} == {
        (REFUSED, REASON if version >= 5 else None)
    }


@every_version("delete_records")
def test_delete_records(handler: Handler, version: int) -> None:
    partitions = [{"partition_index": index, "offset": 5} for index in (0, 3)]
    answer = World().ask(
        handler, version, topics=[{"name": "__cluster_metadata", "partitions": partitions}]
    )
    got = [(p.partition_index, p.low_watermark, p.error_code) for p in answer.topics[0].partitions]
    assert got == [(0, -1, REFUSED), (3, -1, REFUSED)]


@every_version("create_partitions")
def test_create_partitions(handler: Handler, version: int) -> None:
    answer = World().ask(handler, version, topics=[{"name": "a", "count": 3, "assignments": None}])
    assert [(one.name, one.error_code, one.error_message) for one in answer.results] == [
        ("a", REFUSED, REASON)
    ]


@every_version("elect_leaders")
@pytest.mark.parametrize("topic", ["a", None])
def test_elect_leaders(handler: Handler, version: int, topic: str | None) -> None:
    asked = None if topic is None else [{"topic": topic, "partitions": [4, 5]}]
    answer = World().ask(handler, version, topic_partitions=asked)
    got = [
        (one.topic, p.partition_id, p.error_code, p.error_message)
        for one in answer.replica_election_results
        for p in one.partition_result
    ]
    expected = [("__cluster_metadata", 0)] if topic is None else [("a", 4), ("a", 5)]
    assert got == [(name, index, REFUSED, REASON) for name, index in expected]


@every_version("alter_partition_reassignments")
def test_alter_partition_reassignments(handler: Handler, version: int) -> None:
    partitions = [
        {"partition_index": 0, "replicas": [1, 2]},
        {"partition_index": 1, "replicas": None},
    ]
    more: dict[str, Any] = {"allow_replication_factor_change": False} if version >= 1 else {}
    answer = World().ask(handler, version, topics=[{"name": "a", "partitions": partitions}], **more)
    assert answer.allow_replication_factor_change is (version == 0)
    got = [
        (p.partition_index, p.error_code, p.error_message) for p in answer.responses[0].partitions
    ]
    assert (answer.error_code, answer.error_message) == (REFUSED, REASON)
    assert got == [(0, REFUSED, REASON), (1, REFUSED, REASON)]


@every_version("alter_configs", "incremental_alter_configs")
def test_alter_configs(handler: Handler, version: int) -> None:
    resources = [
        {
            "resource_type": 2,
            "resource_name": "a",
            "configs": [{"name": "retention.ms", "value": "1"}],
        },
        {"resource_type": 4, "resource_name": "7", "configs": []},
    ]
    answer = World().ask(handler, version, resources=resources)
    got = [
        (one.resource_type, one.resource_name, one.error_code, one.error_message)
        for one in answer.responses
    ]
    assert got == [(2, "a", REFUSED, REASON), (4, "7", REFUSED, REASON)]


@every_version("alter_client_quotas")
def test_alter_client_quotas(handler: Handler, version: int) -> None:
    entity = [
        {"entity_type": "user", "entity_name": "ann"},
        {"entity_type": "client-id", "entity_name": None},
    ]
    operations = [{"key": "producer_byte_rate", "value": 1.5}]
    (entry,) = (
        World().ask(handler, version, entries=[{"entity": entity, "ops": operations}]).entries
    )
    assert (entry.error_code, entry.error_message) == (REFUSED, REASON)
    assert [(one.entity_type, one.entity_name) for one in entry.entity] == [
        ("user", "ann"),
        ("client-id", None),
    ]


@every_version("update_features")
def test_update_features(handler: Handler, version: int) -> None:
    answer = World().ask(
        handler, version, feature_updates=[{"feature": "metadata.version", "max_version_level": 30}]
    )
    assert (answer.error_code, answer.error_message) == (REFUSED, REASON)
    assert answer.results == []


@every_version("unregister_broker")
def test_unregister_broker(handler: Handler, version: int) -> None:
    answer = World().ask(handler, version, broker_id=3)
    assert (answer.error_code, answer.error_message) == (REFUSED, REASON)


@every_version("unregister_controller")
def test_unregister_controller(handler: Handler, version: int) -> None:
    answer = World().ask(handler, version, controller_id=3)
    assert (answer.error_code, answer.error_message) == (REFUSED, REASON)


@every_version("init_producer_id")
@pytest.mark.parametrize(
    ("transactional_id", "error"),
    [
        (None, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        ("tx", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ],
)
def test_init_producer_id(
    handler: Handler, version: int, transactional_id: str | None, error: ErrorCode
) -> None:
    answer = World().ask(
        handler, version, transactional_id=transactional_id, transaction_timeout_ms=1000
    )
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (error, -1, -1)


ACL = {
    "resource_type": 2,
    "resource_name": "a",
    "principal": "User:x",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
FILTER: dict[str, Any] = {
    "resource_type_filter": 1,
    "pattern_type_filter": 1,
    "operation": 1,
    "permission_type": 1,
}
FILTER |= {"resource_name_filter": None, "principal_filter": None, "host_filter": None}


@every_version("create_acls")
def test_create_acls(handler: Handler, version: int) -> None:
    answer = World().ask(handler, version, creations=[ACL, ACL])
    assert [(one.error_code, one.error_message) for one in answer.results] == [
        (REFUSED, REASON)
    ] * 2


@every_version("delete_acls")
def test_delete_acls(handler: Handler, version: int) -> None:
    answer = World().ask(handler, version, filters=[FILTER])
    got = [(one.error_code, one.error_message, one.matching_acls) for one in answer.filter_results]
    assert got == [(REFUSED, REASON, [])]


@every_version("describe_acls")
def test_describe_acls(handler: Handler, version: int) -> None:
    answer = World().ask(handler, version, **FILTER)
    assert (answer.error_code, answer.resources) == (ErrorCode.SECURITY_DISABLED, [])
    assert answer.error_message


@every_version("alter_user_scram_credentials")
def test_alter_user_scram_credentials(handler: Handler, version: int) -> None:
    change = {
        "name": "bob",
        "mechanism": 1,
        "iterations": 4096,
        "salt": b"s",
        "salted_password": b"p",
    }
    deletions = [{"name": name, "mechanism": 1} for name in ("ann", "bob")]
    answer = World().ask(handler, version, deletions=deletions, upsertions=[change])
    assert [(one.user, one.error_code) for one in answer.results] == [
        ("ann", REFUSED),
        ("bob", REFUSED),
    ]


@every_version("list_partition_reassignments")
@pytest.mark.parametrize(
    "topics", [None, [{"name": "__cluster_metadata", "partition_indexes": [0]}]]
)
def test_no_partition_is_being_moved(handler: Handler, version: int, topics: Any) -> None:
    answer = World().ask(handler, version, topics=topics)
    assert (answer.error_code, answer.error_message, answer.topics) == (0, None, [])


@every_version("describe_client_quotas")
def test_nobody_is_throttled(handler: Handler, version: int) -> None:
    answer = World().ask(
        handler, version, components=[{"entity_type": "user", "match_type": 2, "match": None}]
    )
    assert (answer.error_code, answer.entries) == (0, [])


@every_version("describe_user_scram_credentials")
def test_no_user_is_known(handler: Handler, version: int) -> None:
    assert World().ask(handler, version, users=None).results == []
    answer = World().ask(handler, version, users=[{"name": name} for name in ("ann", "bob", "ann")])
    assert [(one.user, one.error_code) for one in answer.results] == [
        ("ann", ErrorCode.DUPLICATE_RESOURCE),
        ("bob", ErrorCode.RESOURCE_NOT_FOUND),
    ]


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("list_partition_reassignments", "DESCRIBE"),
        ("describe_client_quotas", "DESCRIBE_CONFIGS"),
        ("describe_user_scram_credentials", "DESCRIBE"),
    ],
)
def test_questions_about_the_cluster_need_the_right_to_ask(name: str, operation: str) -> None:
    world = World()
    world.authorizer.forbidden = {(operation, "CLUSTER", "kafka-cluster")}
    answer = world.ask(HANDLERS[name], HANDLERS[name].versions[-1])
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
