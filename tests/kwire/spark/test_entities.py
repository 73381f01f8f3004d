"""The entity of a record and its key: for every type, and the same for a record that sets and one
that removes.
"""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the spark extra is not installed")

from kwire.records import metadata_record_name
from kwire.registry import message_type
from kwire.spark.entities import ABOUT, ENTITIES, key_of, record_types_of
from tests.kwire.spark.frames import METADATA


def test_every_record_type_is_about_something() -> None:
    assert set(ABOUT) == {metadata_record_name(message_type(name)) for _, name in METADATA}
    for _, name in METADATA:
        cls = message_type(name)
        about = ABOUT[metadata_record_name(cls)]
        assert set(about.fields) <= {f.json for f in cls.fields()}
    assert sorted(name for entity in ENTITIES for name in record_types_of(entity)) == sorted(ABOUT)
    assert record_types_of("topics") == ()


@pytest.mark.parametrize(
    ("name", "data", "key"),
    [
        ("TOPIC_RECORD", {"name": "orders", "topicId": "AQ"}, "AQ"),
        ("REMOVE_TOPIC_RECORD", {"topicId": "AQ"}, "AQ"),
        ("PARTITION_RECORD", {"topicId": "AQ", "partitionId": 3}, "AQ:3"),
        ("PARTITION_CHANGE_RECORD", {"topicId": "AQ", "partitionId": 3}, "AQ:3"),
        ("CONFIG_RECORD", {"resourceType": 2, "resourceName": "orders"}, "topic:orders"),
        ("CONFIG_RECORD", {"resourceType": 4, "resourceName": "1"}, "broker:1"),
        ("CONFIG_RECORD", {"resourceType": 4, "resourceName": ""}, "broker:<default>"),
        ("CONFIG_RECORD", {"resourceType": 99, "resourceName": "x"}, "99:x"),
        ("REGISTER_BROKER_RECORD", {"brokerId": 7}, "7"),
        ("FENCE_BROKER_RECORD", {"id": 7}, "7"),
        ("USER_SCRAM_CREDENTIAL_RECORD", {"name": "eve"}, "eve"),
        ("FEATURE_LEVEL_RECORD", {"name": "metadata.version"}, "metadata.version"),
        ("NO_OP_RECORD", {}, None),
        ("PRODUCER_IDS_RECORD", {"brokerId": 1}, None),
    ],
)
def test_record_has_the_key_of_its_entity(name: str, data: dict[str, Any], key: str | None) -> None:
    assert key_of(name, data) == key


def test_the_key_of_a_quota_does_not_know_the_order_of_its_parts() -> None:
    user, client = (
        {"entityType": "user", "entityName": "eve"},
        {"entityType": "client-id", "entityName": None},
    )
    assert (
        key_of("CLIENT_QUOTA_RECORD", {"entity": [user, client]}) == "client-id=<default>,user=eve"
    )
    assert (
        key_of("CLIENT_QUOTA_RECORD", {"entity": [client, user]}) == "client-id=<default>,user=eve"
    )
