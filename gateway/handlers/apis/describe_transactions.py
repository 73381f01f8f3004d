"""DescribeTransactions (key 65): describes transactional ids and their open transactions (KIP-664).

Source: ``KafkaApis.handleDescribeTransactionsRequest``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Final

from gateway.handlers.access import Operation, may
from gateway.handlers.transaction_requests import may_on_transaction
from gateway.ports.streamed import filled, respond
from kwire.messages.describe_transactions_response import (
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.broker.transactions.transaction import Transaction
    from gateway.handlers.context import Context
    from gateway.ports.streamed import Streamed
    from kwire.message import Message
    from kwire.messages.describe_transactions_request import DescribeTransactionsRequest

API_KEY: Final = ApiKey.DESCRIBE_TRANSACTIONS
VERSIONS: Final = range(1)


def handle(request: DescribeTransactionsRequest, context: Context) -> Message | Streamed:
    """Return each transactional id, or the reason why it is not described."""
    names = request.transactional_ids
    states = (_state(name, context) for name in names)
    return respond(DescribeTransactionsResponse(), "transaction_states", states, len(names))


def _state(name: str, context: Context) -> TransactionState | Streamed:
    found = _find(name, context)
    if isinstance(found, ErrorCode):
        return TransactionState(transactional_id=name, error_code=found)
    state = TransactionState(
        transactional_id=name,
        transaction_state=found.state.label,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.started_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
    )
    return filled(state, "topics", _topics(found, context))


def _find(name: str, context: Context) -> Transaction | ErrorCode:
    if not may_on_transaction(context, Operation.DESCRIBE, name):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if context.gateway.transactions is None:
        return ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    return context.gateway.transactions.describe(name)


def _topics(transaction: Transaction, context: Context) -> Iterator[TopicData]:
    for topic, some in groupby(sorted(transaction.partitions), lambda one: one.topic):
        if may(context, Operation.DESCRIBE, topic):
            yield TopicData(topic=topic, partitions=[one.partition for one in some])
