"""AddOffsetsToTxn (key 25): adds the offsets of a group to the transaction of a producer.

The partition of ``__consumer_offsets`` that has the group becomes part of the transaction; the
offsets come with TxnOffsetCommit. Source: ``KafkaApis.handleAddOffsetsToTxnRequest``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.broker.transactions.events import AddPartitions
from gateway.broker.transactions.transaction import Producer, TopicPartition
from gateway.handlers.access import Operation
from gateway.handlers.group_requests import may_on_group
from gateway.handlers.transaction_requests import ask, error_for, may_on_transaction
from kwire.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from kwire.protocol import ApiKey, ErrorCode
from kwire.protocol.topic import GROUP_METADATA_TOPIC

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from gateway.ports.pending_response import Answer
    from kwire.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest

API_KEY: Final = ApiKey.ADD_OFFSETS_TO_TXN
VERSIONS: Final = range(5)

_FIRST_WITH_FENCED: Final = 2


def handle(request: AddOffsetsToTxnRequest, context: Context) -> Answer:
    """Have the coordinator add the partition of the group."""
    coordinator = context.gateway.transactions
    if coordinator is None:
        return _respond(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not may_on_transaction(context, Operation.WRITE, request.transactional_id):
        return _respond(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not may_on_group(context, Operation.READ, request.group_id):
        return _respond(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    index = coordinator.partition_of_group(request.group_id)
    if index is None:
        return _respond(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    event = AddPartitions(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        frozenset({TopicPartition(GROUP_METADATA_TOPIC, index)}),
    )
    return ask(
        context, event, lambda error: _respond(error_for(error, context, _FIRST_WITH_FENCED))
    )


def _respond(error: ErrorCode) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=error)
