"""EndTxn (key 26): commits or aborts the open transaction of a producer.

The response comes when the decision is in the log; the markers are written after that. From version
5 on it has the epoch that the producer has from then on (KIP-890). Source:
``KafkaApis.handleEndTxnRequest``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.broker.transactions.events import EndTransaction, ProducerResult
from gateway.broker.transactions.transaction import Producer
from gateway.handlers.access import Operation
from gateway.handlers.transaction_requests import (
    WITH_BUMPS,
    WITHOUT_BUMPS,
    ask,
    error_for,
    may_on_transaction,
)
from kwire.messages.end_txn_response import EndTxnResponse
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from gateway.ports.pending_response import Answer
    from kwire.messages.end_txn_request import EndTxnRequest

API_KEY: Final = ApiKey.END_TXN
VERSIONS: Final = range(6)

_FIRST_WITH_FENCED: Final = 2
_FIRST_WITH_BUMPS: Final = 5


def handle(request: EndTxnRequest, context: Context) -> Answer:
    """Have the coordinator end the transaction."""
    name = request.transactional_id
    if not may_on_transaction(context, Operation.WRITE, name):
        return EndTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    event = EndTransaction(
        name,
        Producer(request.producer_id, request.producer_epoch),
        request.committed,
        WITH_BUMPS if context.version >= _FIRST_WITH_BUMPS else WITHOUT_BUMPS,
    )

    def respond(result: ProducerResult) -> EndTxnResponse:
        return EndTxnResponse(
            error_code=error_for(result.error, context, _FIRST_WITH_FENCED),
            producer_id=result.producer_id,
            producer_epoch=result.epoch,
        )

    return ask(context, event, respond)
