"""A decision on thousands of elements can be interrupted after each few of them."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from gateway.controller.apis import admin_keys, refused
from gateway.controller.controller import Controller
from gateway.controller.records import OPERATION_RECORDS_MAX
from gateway.controller.settings import ControllerSettings
from gateway.ports.answer_errors import errors_of
from gateway.ports.streamed import Streamed
from kwire.cluster import Image
from kwire.message import Message
from kwire.messages.access_control_entry_record import AccessControlEntryRecord
from kwire.messages.delegation_token_record import DelegationTokenRecord
from kwire.protocol import ErrorCode
from kwire.uuid import Uuid
from tests.gateway.controller.broker_cluster import BrokerCluster
from tests.gateway.controller.cluster import Cluster, allowing, create, made, whole
from tests.gateway.steps import calls_per_step

COUNT = 2_000
#: Calls of functions in one step. Encoding or applying the records of a slice makes 7,000, in about
#: 1 ms, and counting the elements or packing their records into batches makes up to six for each.
#: A decision on an element makes ten or more.
CALLS_MAX = 2_000 + 7 * COUNT


def topics() -> list[dict[str, Any]]:
    return [{"name": f"t{number}", "num_partitions": 1} for number in range(COUNT)]


def configured(name: str, **entry: Any) -> Message:
    entries = [{"name": "retention.ms", "value": "1000", **entry}]
    resources = [
        {"resource_type": 2, "resource_name": f"t{number}", "configs": entries}
        for number in range(COUNT)
    ]
    return made(name, resources=resources)


def of_one_broker() -> dict[str, Any]:
    """Keys of a plug-in, which only the broker knows."""
    configs = [
        {"name": f"plugin.{number}", "value": "1", "config_operation": 0} for number in NUMBERS
    ]
    return {"resource_type": 4, "resource_name": "1", "configs": configs}


def removed_quotas() -> list[dict[str, Any]]:
    return [{"key": f"key{number}", "value": 0.0, "remove": True} for number in NUMBERS]


def acl(name: str) -> dict[str, Any]:
    return {
        "resource_type": 2,
        "resource_name": name,
        "resource_pattern_type": 3,
        "principal": "User:ann",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }


def quota(user: str) -> dict[str, Any]:
    return {
        "entity": [{"entity_type": "user", "entity_name": user}],
        "ops": [{"key": "producer_byte_rate", "value": 1.0, "remove": False}],
    }


def credential(user: str) -> dict[str, Any]:
    return {
        "name": user,
        "mechanism": 1,
        "iterations": 4096,
        "salt": b"salt",
        "salted_password": b"password",
    }


NUMBERS = range(COUNT)
REQUESTS: dict[str, Callable[[], Any]] = {
    "CreateTopics": lambda: create(
        *({"name": f"new{number}", "num_partitions": 1} for number in NUMBERS)
    ),
    "CreateTopics of one topic": lambda: create({"name": "new", "num_partitions": COUNT}),
    "CreateTopics by hand": lambda: create(
        {
            "name": "new",
            "assignments": [{"partition_index": index, "broker_ids": [1]} for index in NUMBERS],
        }
    ),
    "CreateTopics, refused": lambda: create(*({"name": f"a#{number}"} for number in NUMBERS)),
    "CreatePartitions": lambda: made(
        "CreatePartitionsRequest",
        topics=[{"name": f"t{number}", "count": 2, "assignments": None} for number in NUMBERS],
    ),
    "CreatePartitions of one topic": lambda: made(
        "CreatePartitionsRequest", topics=[{"name": "t0", "count": COUNT, "assignments": None}]
    ),
    "DeleteTopics": lambda: made(
        "DeleteTopicsRequest", topics=[{"name": f"t{number}"} for number in NUMBERS]
    ),
    "IncrementalAlterConfigs": lambda: configured(
        "IncrementalAlterConfigsRequest", config_operation=0
    ),
    "IncrementalAlterConfigs of one broker": lambda: made(
        "IncrementalAlterConfigsRequest", resources=[of_one_broker()]
    ),
    "AlterConfigs": lambda: configured("AlterConfigsRequest"),
    "CreateAcls": lambda: made(
        "CreateAclsRequest", creations=[acl(f"t{number}") for number in NUMBERS]
    ),
    "AlterClientQuotas": lambda: made(
        "AlterClientQuotasRequest", entries=[quota(f"u{number}") for number in NUMBERS]
    ),
    "AlterClientQuotas of one user": lambda: made(
        "AlterClientQuotasRequest", entries=[{**quota("u"), "ops": removed_quotas()}]
    ),
    "UpdateFeatures": lambda: made(
        "UpdateFeaturesRequest",
        feature_updates=[
            {"feature": f"f{number}", "max_version_level": 0, "upgrade_type": 2}
            for number in NUMBERS
        ],
    ),
    "AlterUserScramCredentials": lambda: made(
        "AlterUserScramCredentialsRequest",
        deletions=[],
        upsertions=[credential(f"u{number}") for number in NUMBERS],
    ),
    "ElectLeaders": lambda: made(
        "ElectLeadersRequest",
        topic_partitions=[{"topic": f"t{number}", "partitions": [0]} for number in NUMBERS],
    ),
    "AlterPartitionReassignments": lambda: made(
        "AlterPartitionReassignmentsRequest",
        topics=[
            {"name": f"t{number}", "partitions": [{"partition_index": 0, "replicas": [1]}]}
            for number in NUMBERS
        ],
    ),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_decision_on_many_elements_yields_between_them(name: str) -> None:
    cluster = Cluster()
    operation = cluster.decide(create(*topics()), 7).operation
    assert operation is not None
    cluster.commit(operation)
    request = REQUESTS[name]()
    work = cluster.controller.decide(request, type(request).VERSIONS[-1], allowing(), 0)
    decision, calls = calls_per_step(work)
    assert calls <= CALLS_MAX
    if decision.operation is not None:
        cluster.commit(decision.operation)
    cluster.check()


#: Requests of one element each, however many partitions it has.
_OF_ONE_ELEMENT = {
    "AlterClientQuotas of one user",
    "IncrementalAlterConfigs of one broker",
    "UpdateFeatures",
    "CreateTopics of one topic",
    "CreateTopics by hand",
    "CreatePartitions of one topic",
}


@pytest.mark.parametrize("name", sorted(REQUESTS.keys() - _OF_ONE_ELEMENT))
def test_a_refusal_of_many_elements_is_made_one_by_one(name: str) -> None:
    request = REQUESTS[name]()
    version = type(request).VERSIONS[-1]
    response = refused(request, version, ErrorCode.NOT_CONTROLLER, "why")
    assert isinstance(response, Streamed)
    elements = list(response.elements)
    assert len(elements) == COUNT
    response = refused(request, version, ErrorCode.NOT_CONTROLLER, "why")
    assert isinstance(response, Streamed)
    _, calls = calls_per_step(response.elements)  # type: ignore[arg-type]
    assert calls <= 20
    response.elements = iter(elements)
    assert errors_of(whole(response))[ErrorCode.NOT_CONTROLLER] >= COUNT


def test_a_refusal_of_a_topic_with_many_partitions_is_made_one_by_one() -> None:
    partitions = [{"partition_index": index, "replicas": [1]} for index in NUMBERS]
    moved = made(
        "AlterPartitionReassignmentsRequest", topics=[{"name": "t", "partitions": partitions}]
    )
    elected = made(
        "ElectLeadersRequest", topic_partitions=[{"topic": "t", "partitions": list(NUMBERS)}]
    )
    for request in (moved, elected):
        response = refused(request, 1, ErrorCode.NOT_CONTROLLER, "why")
        assert isinstance(response, Streamed)
        (topic,) = response.elements
        assert isinstance(topic, Streamed) and len(list(topic.elements)) == COUNT


def test_a_request_that_makes_too_many_records_is_refused_before_they_are_all_made() -> None:
    cluster = Cluster()
    names = [f"t{number}" for number in range(OPERATION_RECORDS_MAX)]
    request = create(*({"name": name, "num_partitions": 1} for name in names))
    ids = 0
    new_id = cluster.controller._new_id

    def counted() -> Uuid:
        nonlocal ids
        ids += 1
        return new_id()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster.controller, "_new_id", counted)
        answer: Any = whole(cluster.decide(request, 7).answer)
    assert {topic.error_code for topic in answer.topics} == {ErrorCode.POLICY_VIOLATION}
    assert "more than 10000 records" in answer.topics[0].error_message
    assert ids <= OPERATION_RECORDS_MAX / 2 + 1  # a topic of one partition makes two records


def test_fencing_a_broker_with_many_partitions_yields_between_them() -> None:
    it = BrokerCluster([1, 2], broker_session_timeout_ms=100)
    it.create(*([1, 2] for _ in NUMBERS))
    it.now_ms += 50
    it.heartbeat(2)
    it.now_ms += 75
    (operation,), calls = calls_per_step(it.controller.periodic(it.now_ms))
    assert calls <= CALLS_MAX
    it.commit(operation)
    it.check()
    assert {
        partition.leader for partition in it.image.partitions[it.image.topic_ids["orders"]].values()
    } == {2}


def test_becoming_active_with_a_large_image_yields_while_it_is_copied() -> None:
    image = Image()
    for number in range(COUNT):
        topic_id, principal = Uuid(number.to_bytes(16, "big")), f"User:{number}"
        image.topics[topic_id], image.topic_ids[f"a.{number}"] = f"a.{number}", topic_id
        image.partitions[topic_id] = {}
        image.acls[topic_id] = AccessControlEntryRecord(id=topic_id, principal=principal)
        image.tokens[principal] = DelegationTokenRecord(token_id=principal)
    one = Controller(ControllerSettings(1, (1,)), random=random.Random(1).randbytes)
    _, calls = calls_per_step(one.become_active(image, 0))
    assert calls <= CALLS_MAX
    assert one.is_active and one.image is not None
    assert one.image.acls == image.acls and one.image.tokens == image.tokens


_STEPS_OF_A_START = """
import sys
from gateway.controller.controller import Controller
from gateway.controller.settings import ControllerSettings
from kwire.cluster import Image

def apis():
    return {name for name in sys.modules if name.startswith("gateway.controller.apis.")}

one = Controller(ControllerSettings(1, (1,)), random=bytes)
steps = [apis()]
work = one.become_active(Image(), 0)
try:
    while True:
        next(work)
        steps.append(apis())
except StopIteration:
    pass
print(len(steps[0]), max(len(b - a) for a, b in zip(steps, steps[1:])), len(apis()))
"""


def test_becoming_active_imports_one_admin_api_in_each_step() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _STEPS_OF_A_START], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["0", "1", str(len(admin_keys()))]
