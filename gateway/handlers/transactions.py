"""Transactions, of which a server without writers has none: DescribeProducers 61, ListTransactions
66 (KIP-664).

The answers are those of a Kafka broker that coordinates no transaction and holds partitions without
an active producer, so that `kafka-transactions list` and `find-hanging` show nothing instead of
failing. DescribeTransactions is not offered: a client asks the coordinator of a transactional id
for it, and FindCoordinator says that there is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.access import Operation, may
from gateway.handlers.catalog import log_of, topic_named
from gateway.handlers.table import Handler
from kwire.messages.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    TopicResponse,
)
from kwire.messages.list_transactions_response import ListTransactionsResponse
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from kwire.messages.describe_producers_request import DescribeProducersRequest
    from kwire.messages.list_transactions_request import ListTransactionsRequest

#: ``org.apache.kafka.coordinator.transaction.TransactionState``, by the names that clients filter
#: with.
_STATES: Final = frozenset(
    {
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Empty",
        "Dead",
        "PrepareEpochFence",
    }
)


def list_transactions(
    request: ListTransactionsRequest, context: Context
) -> ListTransactionsResponse:
    """No transaction, and which of the state filters name no state."""
    unknown = dict.fromkeys(name for name in request.state_filters if name not in _STATES)
    return ListTransactionsResponse(unknown_state_filters=list(unknown))


def describe_producers(
    request: DescribeProducersRequest, context: Context
) -> DescribeProducersResponse:
    """No active producer for each partition that exists; its error for each other one."""
    topics = [
        TopicResponse(
            name=topic.name,
            partitions=[
                _partition(topic.name, index, context) for index in topic.partition_indexes
            ],
        )
        for topic in request.topics
    ]
    return DescribeProducersResponse(topics=topics)


def _partition(name: str, index: int, context: Context) -> PartitionResponse:
    if not may(context, Operation.READ, name):
        return PartitionResponse(
            partition_index=index, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
        )
    topic = topic_named(name, context)
    found = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else log_of(topic, index, context)
    return PartitionResponse(
        partition_index=index, error_code=found if isinstance(found, ErrorCode) else ErrorCode.NONE
    )


HANDLERS: Final = (
    Handler(61, "describe_producers", range(1), describe_producers),
    Handler(66, "list_transactions", range(3), list_transactions),
)
