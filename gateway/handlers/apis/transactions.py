"""DescribeProducers (key 61) and ListTransactions (key 66) of a server without transactions
(KIP-664).

The responses are those of a Kafka broker that coordinates no transaction and whose partitions have
no active producer, so that ``kafka-transactions list`` and ``find-hanging`` show nothing instead of
failing. DescribeTransactions is not served: clients send it to the coordinator of a transactional
id, and FindCoordinator returns none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from gateway.handlers.access import Operation, may
from gateway.handlers.context import Handler
from gateway.ports.streamed import Streamed, filled, respond
from kwire.messages.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    TopicResponse,
)
from kwire.messages.list_transactions_response import ListTransactionsResponse
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from kwire.message import Message
    from kwire.messages.describe_producers_request import DescribeProducersRequest
    from kwire.messages.list_transactions_request import ListTransactionsRequest

#: The names by which clients filter (``TransactionState``).
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
    """Return no transaction, and the state filters that name no state."""
    unknown = dict.fromkeys(name for name in request.state_filters if name not in _STATES)
    return ListTransactionsResponse(unknown_state_filters=list(unknown))


def describe_producers(request: DescribeProducersRequest, context: Context) -> Message | Streamed:
    """Return each partition with no active producer, or with the error of a partition that does not
    exist or may not be read.
    """
    topics = (
        filled(
            TopicResponse(name=topic.name),
            "partitions",
            _partitions(topic.name, topic.partition_indexes, context),
        )
        for topic in request.topics
    )
    size = sum(1 + len(topic.partition_indexes) for topic in request.topics)
    return respond(DescribeProducersResponse(), "topics", topics, size)


def _partitions(name: str, indexes: Iterable[int], context: Context) -> Iterator[PartitionResponse]:
    for index in indexes:
        yield _partition(name, index, context)


def _partition(name: str, index: int, context: Context) -> PartitionResponse:
    if not may(context, Operation.READ, name):
        return PartitionResponse(
            partition_index=index, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
        )
    found = context.gateway.partitions.find(name, index)
    return PartitionResponse(
        partition_index=index, error_code=found if isinstance(found, ErrorCode) else ErrorCode.NONE
    )


HANDLERS: Final = (
    Handler(ApiKey.DESCRIBE_PRODUCERS, "describe_producers", range(1), describe_producers),
    Handler(ApiKey.LIST_TRANSACTIONS, "list_transactions", range(3), list_transactions),
)
