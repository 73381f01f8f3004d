"""DeleteTopics by name and by id, and the responses to requesters without permissions."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.messages.remove_topic_record import RemoveTopicRecord
from kwire.protocol import ErrorCode
from kwire.uuid import METADATA_TOPIC_ID, ZERO_UUID, Uuid
from tests.gateway.controller.cluster import Cluster, create, made

SOME_ID = Uuid(b"\x07" * 16)
NOT_ALL = ("DELETE", "CLUSTER", "*")


def cluster_of(*names: str) -> Cluster:
    cluster = Cluster()
    configs = [{"name": "retention.ms", "value": "5"}]
    cluster.ask(
        create(
            *(
                {"name": name, "num_partitions": 2, "replication_factor": 1, "configs": configs}
                for name in names
            )
        )
    )
    return cluster


def delete(
    cluster: Cluster, *topics: dict[str, Any], forbidden: list[tuple[str, str, str]] | None = None
) -> list[Any]:
    answer = cluster.ask(
        made("DeleteTopicsRequest", topics=list(topics)), forbidden=forbidden or ()
    )
    return [(one.name, one.topic_id, one.error_code) for one in answer.responses]


@pytest.mark.parametrize("version", range(1, 7))
def test_topic_is_deleted_by_name(version: int) -> None:
    cluster = cluster_of("a", "b")
    topic_id = cluster.image.topic_ids["a"]
    fields: dict[str, Any] = {"topics": [{"name": "a"}]} if version >= 6 else {"topic_names": ["a"]}
    (result,) = cluster.ask(made("DeleteTopicsRequest", **fields), version).responses
    assert (result.name, result.error_code, result.error_message) == ("a", 0, None)
    assert result.topic_id == (topic_id if version >= 6 else ZERO_UUID)
    assert set(cluster.image.topic_ids) == {"b"} and set(cluster.image.topics) == set(
        cluster.image.partitions
    )
    assert (2, "a") not in cluster.image.configs and (2, "b") in cluster.image.configs


def test_response_to_a_deletion_by_id_has_the_name() -> None:
    cluster = cluster_of("a")
    topic_id = cluster.image.topic_ids["a"]
    assert delete(cluster, {"name": None, "topic_id": topic_id}) == [("a", topic_id, 0)]
    assert not cluster.image.topics


def test_records_of_a_deletion_have_the_order_of_the_request() -> None:
    names = ["t7", "t2", "t9", "t4", "t1", "t8", "t3", "t6", "t5", "t0"]
    cluster = cluster_of(*sorted(names))
    ids = [cluster.image.topic_ids[name] for name in names]
    decision = cluster.decide(
        made("DeleteTopicsRequest", topics=[{"name": name} for name in names]), 6
    )
    assert decision.operation is not None
    removed = [RemoveTopicRecord(topic_id=topic_id) for topic_id in ids]
    assert [message for message, _ in decision.operation.records] == removed


def test_unknown_topics_are_refused() -> None:
    cluster = cluster_of("a")
    assert delete(cluster, {"name": "b"}, {"name": None, "topic_id": SOME_ID}) == [
        ("b", ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (None, SOME_ID, ErrorCode.UNKNOWN_TOPIC_ID),
    ]


def test_topic_needs_exactly_one_of_name_and_id() -> None:
    cluster = cluster_of("a", "b")
    topic_id = cluster.image.topic_ids["a"]
    assert delete(
        cluster, {"name": None}, {"name": "a", "topic_id": topic_id}, {"name": "b"}, {"name": "b"}
    ) == [
        (None, ZERO_UUID, ErrorCode.INVALID_REQUEST),
        ("a", topic_id, ErrorCode.INVALID_REQUEST),
        ("b", ZERO_UUID, ErrorCode.INVALID_REQUEST),
    ]
    assert len(cluster.image.topics) == 2


def test_name_of_a_topic_that_is_also_given_by_id_is_refused() -> None:
    cluster = cluster_of("a")
    topic_id = cluster.image.topic_ids["a"]
    results = delete(cluster, {"name": "a"}, {"name": None, "topic_id": topic_id})
    assert results == [("a", topic_id, ErrorCode.INVALID_REQUEST), ("a", topic_id, 0)]


def test_metadata_topic_cannot_be_deleted() -> None:
    results = delete(
        Cluster(), {"name": "__cluster_metadata"}, {"name": None, "topic_id": METADATA_TOPIC_ID}
    )
    assert [error for *_, error in results] == [ErrorCode.INVALID_REQUEST] * 2


def test_refusal_reveals_a_name_only_with_describe() -> None:
    cluster = cluster_of("a")
    topic_id = cluster.image.topic_ids["a"]
    by_id = {"name": None, "topic_id": topic_id}
    rules = [NOT_ALL, ("DELETE", "TOPIC", "*")]
    failed = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert delete(cluster, by_id, {"name": "a"}, forbidden=rules) == [
        ("a", topic_id, failed),
        ("a", ZERO_UUID, failed),
    ]
    rules.append(("DESCRIBE", "TOPIC", "*"))
    assert delete(cluster, by_id, forbidden=rules) == [(None, topic_id, failed)]
    # Whether there is such a topic is not told either.
    assert delete(cluster, {"name": "a"}, {"name": "zz"}, forbidden=rules) == [
        ("a", ZERO_UUID, failed),
        ("zz", ZERO_UUID, failed),
    ]
    assert delete(cluster, {"name": "a"}, forbidden=[("DELETE", "TOPIC", "*")]) == [
        ("a", topic_id, 0)
    ], "allowed on the cluster"
