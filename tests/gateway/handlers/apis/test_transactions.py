"""DescribeProducers without producers: empty, as from a Kafka broker without any."""

from __future__ import annotations

from typing import Any

from gateway.handlers.table import handlers
from kwire.messages.describe_producers_request import DescribeProducersRequest
from kwire.protocol import ErrorCode
from tests.gateway.handlers.world import World, over_the_wire

PRODUCERS = handlers()[61]


def ask(handler: Any, version: int, request: Any) -> Any:
    return over_the_wire(
        handler.handle(over_the_wire(request, version), World().context(version)), version
    )


def test_every_version_of_kafka_is_served() -> None:
    assert PRODUCERS.versions == DescribeProducersRequest.VERSIONS


def test_partitions_have_no_producers_and_unknown_ones_their_error() -> None:
    topics = [
        {"name": "__cluster_metadata", "partition_indexes": [0, 1]},
        {"name": "none", "partition_indexes": [0]},
    ]
    answer = ask(
        PRODUCERS,
        0,
        DescribeProducersRequest.from_json(
            {
                "topics": [
                    {"name": one["name"], "partitionIndexes": one["partition_indexes"]}
                    for one in topics
                ]
            },
            0,
        ),
    )
    found = [
        (t.name, p.partition_index, p.error_code, p.active_producers)
        for t in answer.topics
        for p in t.partitions
    ]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert found == [
        ("__cluster_metadata", 0, 0, []),
        ("__cluster_metadata", 1, unknown, []),
        ("none", 0, unknown, []),
    ]
