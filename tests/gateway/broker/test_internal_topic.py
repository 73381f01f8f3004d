"""How topics of coordinators are created, and which partition has a key."""

from __future__ import annotations

import pytest

from gateway.broker.internal_topic import InternalTopicSettings, creation_request, partition_for


@pytest.mark.parametrize(
    ("key", "partitions", "expected"),
    [
        ("", 50, 0),
        ("hello", 50, 99162322 % 50),
        ("console-consumer-1", 1, 0),
        # Its hash is the smallest int32, which has no absolute value in Java.
        ("polygenelubricants", 50, 0),
        # Beyond the first plane, a character is two units of UTF-16.
        ("\U0001f600", 1000, 1772899 % 1000),
    ],
)
def test_partition_of_a_key_is_that_of_kafka(key: str, partitions: int, expected: int) -> None:
    assert partition_for(key, partitions) == expected


def test_creation_asks_for_the_partitions_and_configs_of_the_settings() -> None:
    settings = InternalTopicSettings("__x", 3, 2, {"cleanup.policy": "compact"})
    (topic,) = creation_request(settings).topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("__x", 3, 2)
    assert [(one.name, one.value) for one in topic.configs] == [("cleanup.policy", "compact")]
