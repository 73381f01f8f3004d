"""The active controller creates the audit topic when every voter is an unfenced broker; no client
can.
"""

from __future__ import annotations

from typing import Any

import pytest

from gateway.ports.services import AUDIT_TOPIC
from kwire.cluster.image import TOPIC_RESOURCE
from kwire.protocol import ErrorCode
from tests.gateway.controller.broker_cluster import BrokerCluster
from tests.gateway.controller.cluster import create, made

CONFIGS = {"cleanup.policy": "delete", "retention.ms": "1000"}
CHECK_MS = 1_000


def cluster(voters: tuple[int, ...], **settings: Any) -> BrokerCluster:
    return BrokerCluster(nodes=voters, audit_topic=CONFIGS, **settings)


def configs(it: BrokerCluster) -> dict[str, str]:
    return dict(it.image.configs.get((TOPIC_RESOURCE, AUDIT_TOPIC), {}))


def test_topic_of_one_node_is_created_as_soon_as_its_broker_is_unfenced() -> None:
    it = cluster((1,))
    it.register(1)
    assert it.poll() == []
    it.heartbeat(1)
    assert it.controller.deadline_ms == it.now_ms, "before a client can ask for anything"
    assert it.poll() == ["createAuditTopic"]
    assert it.partition(topic=AUDIT_TOPIC).replicas == [1] and configs(it) == CONFIGS
    it.now_ms += CHECK_MS
    assert it.poll() == []


def test_topic_of_three_nodes_has_three_replicas_two_of_which_acknowledge() -> None:
    it = cluster((1, 2, 3))
    for broker in (1, 2):
        it.come(broker)
        assert it.poll() == [], "a replica would be missing for ever"
    it.come(3)
    assert it.poll() == ["createAuditTopic"]
    partition = it.partition(topic=AUDIT_TOPIC)
    assert sorted(partition.isr) == [1, 2, 3]
    assert configs(it) == {**CONFIGS, "min.insync.replicas": "2"}


@pytest.mark.parametrize("brokers", [(4, 5, 6), (1, 2, 4), ()])
def test_topic_is_not_created_while_a_voter_is_no_broker(brokers: tuple[int, ...]) -> None:
    it = cluster((1, 2, 3))
    for broker in brokers:
        it.come(broker)
    it.now_ms += CHECK_MS
    assert it.poll() == []


def test_topic_is_created_by_the_next_controller_too() -> None:
    it = cluster((1,))
    it.come(1)
    it.controller.deactivate()
    it.controller.activate(it.image, it.now_ms)
    it.now_ms += CHECK_MS
    assert it.poll() == ["createAuditTopic"]


def test_topic_is_not_created_where_it_is_disabled() -> None:
    it = BrokerCluster([1], nodes=(1,))
    it.now_ms += CHECK_MS
    assert it.poll() == []


def test_no_client_can_create_extend_or_delete_the_topic_but_configure_it() -> None:
    it = cluster((1,))
    answer = it.ask(create({"name": AUDIT_TOPIC}))
    assert answer.topics[0].error_code == ErrorCode.INVALID_REQUEST
    it.come(1)
    it.poll()
    more = {"name": AUDIT_TOPIC, "count": 2, "assignments": None}
    answer = it.ask(made("CreatePartitionsRequest", topics=[more]))
    assert answer.results[0].error_code == ErrorCode.INVALID_REQUEST
    for by in ({"name": AUDIT_TOPIC}, {"name": None, "topic_id": it.image.topic_ids[AUDIT_TOPIC]}):
        answer = it.ask(made("DeleteTopicsRequest", topics=[by]), 6)
        assert answer.responses[0].error_code == ErrorCode.INVALID_REQUEST
    assert alter(it, "retention.ms", "5") == ErrorCode.NONE
    assert configs(it)["retention.ms"] == "5"
    assert alter(it, "cleanup.policy", "compact") == ErrorCode.INVALID_CONFIG


def alter(it: BrokerCluster, name: str, value: str) -> int:
    resource = {
        "resource_type": TOPIC_RESOURCE,
        "resource_name": AUDIT_TOPIC,
        "configs": [{"name": name, "config_operation": 0, "value": value}],
    }
    answer = it.ask(made("IncrementalAlterConfigsRequest", resources=[resource]), 1)
    code: int = answer.responses[0].error_code
    return code
