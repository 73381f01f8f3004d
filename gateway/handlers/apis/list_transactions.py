"""ListTransactions (key 66): lists the transactional ids that this node coordinates (KIP-664), by
state, producer id, duration (KIP-994) and pattern (KIP-1152).

A server that is no broker has none, so that ``kafka-transactions list`` shows nothing instead of
failing. Source: ``KafkaApis.handleListTransactionsRequest``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from gateway.broker.transactions.queries import Filter
from gateway.broker.transactions.transaction import STATES_BY_LABEL
from gateway.groups.consumer.regex import matching, regex_fault
from gateway.handlers.access import Operation
from gateway.handlers.transaction_requests import may_on_transaction
from gateway.ports.streamed import respond
from kwire.messages.list_transactions_response import ListTransactionsResponse, TransactionState
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.broker.transactions.transaction import Transaction
    from gateway.handlers.context import Context
    from gateway.ports.pending_response import Answer, Work
    from kwire.messages.list_transactions_request import ListTransactionsRequest

API_KEY: Final = ApiKey.LIST_TRANSACTIONS
VERSIONS: Final = range(3)


def handle(request: ListTransactionsRequest, context: Context) -> Answer:
    """Return the transactional ids that the filters take and the client may describe, and the
    filters that name no state.
    """
    unknown = dict.fromkeys(name for name in request.state_filters if name not in STATES_BY_LABEL)
    response = ListTransactionsResponse(unknown_state_filters=list(unknown))
    if context.gateway.transactions is None:
        return response
    pattern = request.transactional_id_pattern
    if pattern and regex_fault(pattern) is not None:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    return _list(request, response, context)


def _list(
    request: ListTransactionsRequest, response: ListTransactionsResponse, context: Context
) -> Work:
    known = {STATES_BY_LABEL[one] for one in request.state_filters if one in STATES_BY_LABEL}
    wanted = Filter(
        # Unknown names alone leave every state out.
        states=known if request.state_filters else None,
        producer_ids=frozenset(request.producer_id_filters),
        longer_than_ms=request.duration_filter,
    )
    assert context.gateway.transactions is not None, "the node is a broker"
    found = yield from context.gateway.transactions.matching(wanted, context.wall_ms)
    if isinstance(found, ErrorCode):
        response.error_code = found
        return response
    pattern = request.transactional_id_pattern
    if pattern:
        matched = yield from matching([pattern], [one.transactional_id for one in found])
        found = [one for one in found if one.transactional_id in matched[pattern]]
    return respond(response, "transaction_states", _states(found, context), len(found))


def _states(found: list[Transaction], context: Context) -> Iterator[TransactionState | None]:
    for one in found:
        may_describe = may_on_transaction(context, Operation.DESCRIBE, one.transactional_id)
        yield (
            TransactionState(
                transactional_id=one.transactional_id,
                producer_id=one.producer_id,
                transaction_state=one.state.label,
            )
            if may_describe
            else None
        )
