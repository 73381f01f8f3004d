"""ListTransactions and DescribeProducers without transactions: empty, as from a Kafka broker
without any.
"""

from __future__ import annotations

from typing import Any

import pytest

from gateway.handlers.table import handlers
from kwire.messages.describe_producers_request import DescribeProducersRequest
from kwire.messages.list_transactions_request import ListTransactionsRequest
from kwire.protocol import ErrorCode
from tests.gateway.handlers.world import World, over_the_wire

PRODUCERS, TRANSACTIONS = handlers()[61], handlers()[66]


def ask(handler: Any, version: int, request: Any) -> Any:
    return over_the_wire(
        handler.handle(over_the_wire(request, version), World().context(version)), version
    )


@pytest.mark.parametrize("version", TRANSACTIONS.versions)
def test_list_of_transactions_is_empty_and_without_error(version: int) -> None:
    answer = ask(TRANSACTIONS, version, ListTransactionsRequest(producer_id_filters=[7]))
    assert (answer.error_code, answer.transaction_states, answer.unknown_state_filters) == (
        0,
        [],
        [],
    )


def test_unknown_state_filters_are_returned() -> None:
    answer = ask(
        TRANSACTIONS,
        0,
        ListTransactionsRequest(state_filters=["Ongoing", "ongoing", "Lost", "Lost"]),
    )
    assert answer.unknown_state_filters == ["ongoing", "Lost"]


def test_every_version_of_kafka_is_served() -> None:
    assert TRANSACTIONS.versions == ListTransactionsRequest.VERSIONS
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
