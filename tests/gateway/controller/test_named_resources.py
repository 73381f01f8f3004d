"""The audit topic names the resources of each admin request, and never a secret."""

from __future__ import annotations

import pytest

import kwire
from gateway.controller.admin_api import Resource
from gateway.controller.apis import admin_api, admin_keys, named_resources
from kwire.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignableTopic,
)
from kwire.uuid import Uuid
from tests.gateway.handlers.world import build

SECRET = "hunter2"
#: Request, its fields, what it is about.
ABOUT: list[tuple[str, dict[str, object], list[Resource]]] = [
    (
        "CreateTopics",
        {"topics": [{"name": "a"}, {"name": "b"}, {"name": "a"}]},
        [("TOPIC", "a"), ("TOPIC", "b")],
    ),
    ("DeleteTopics", {"topic_names": ["a"], "topics": []}, [("TOPIC", "a")]),
    (
        "DeleteTopics",
        {"topics": [{"name": None, "topic_id": Uuid(b"i" * 16)}, {"name": "b"}]},
        [("TOPIC_ID", "aWlpaWlpaWlpaWlpaWlpaQ"), ("TOPIC", "b")],
    ),
    ("CreatePartitions", {"topics": [{"name": "a", "count": 3}]}, [("TOPIC", "a")]),
    (
        "IncrementalAlterConfigs",
        {
            "resources": [
                {
                    "resource_type": 2,
                    "resource_name": "a",
                    "configs": [{"name": "x.password", "value": SECRET}],
                },
                {"resource_type": 4, "resource_name": ""},
                {"resource_type": 99, "resource_name": "b"},
            ]
        },
        [("TOPIC", "a"), ("BROKER", None), ("UNKNOWN", "b")],
    ),
    (
        "AlterConfigs",
        {"resources": [{"resource_type": 32, "resource_name": "g"}]},
        [("GROUP", "g")],
    ),
    (
        "CreateAcls",
        {"creations": [{"resource_type": 4, "resource_name": "kafka-cluster"}]},
        [("CLUSTER", "kafka-cluster")],
    ),
    (
        "DeleteAcls",
        {"filters": [{"resource_type_filter": 1, "resource_name_filter": None}]},
        [("ANY", None)],
    ),
    (
        "AlterClientQuotas",
        {
            "entries": [
                {
                    "entity": [
                        {"entity_type": "client-id", "entity_name": None},
                        {"entity_type": "user", "entity_name": "u"},
                    ]
                }
            ]
        },
        [("CLIENT_ID", None), ("USER", "u")],
    ),
    (
        "AlterUserScramCredentials",
        {
            "deletions": [{"name": "gone"}],
            "upsertions": [{"name": "u", "salt": b"hunter2", "salted_password": b"hunter2"}],
        },
        [("USER", "gone"), ("USER", "u")],
    ),
    (
        "CreateDelegationToken",
        {"owner_principal_type": "User", "owner_principal_name": "u"},
        [("USER", "u")],
    ),
    ("CreateDelegationToken", {}, []),
    ("RenewDelegationToken", {"hmac": b"hunter2"}, []),
    ("ExpireDelegationToken", {"hmac": b"hunter2"}, []),
    ("ElectLeaders", {"topic_partitions": [{"topic": "a", "partitions": [0]}]}, [("TOPIC", "a")]),
    ("ElectLeaders", {"topic_partitions": None}, []),
    ("AlterPartitionReassignments", {"topics": [{"name": "a"}]}, [("TOPIC", "a")]),
    (
        "UpdateFeatures",
        {"feature_updates": [{"feature": "metadata.version"}]},
        [("FEATURE", "metadata.version")],
    ),
    ("UnregisterBroker", {"broker_id": 3}, [("BROKER", "3")]),
    ("UnregisterController", {"controller_id": 3}, [("CONTROLLER", "3")]),
]


@pytest.mark.parametrize(
    ("api", "fields", "about"), ABOUT, ids=[f"{api}-{at}" for at, (api, _, _) in enumerate(ABOUT)]
)
def test_request_names_its_resources_and_no_secret(
    api: str, fields: dict[str, object], about: list[Resource]
) -> None:
    found = named_resources(build(kwire.message_type(f"{api}Request"), fields))
    assert found == about
    assert SECRET not in repr(found)


def test_every_audited_api_names_its_resources() -> None:
    audited = {key.title for key in admin_keys() if admin_api(key).is_audited}
    assert audited == {api for api, _, _ in ABOUT} | {"ListPartitionReassignments"}


def test_cancelled_reassignment_names_its_topic() -> None:
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="a")])
    assert named_resources(request) == [("TOPIC", "a")]
