"""Asks the transaction coordinator, and authorizes operations on transactional ids, for the APIs of
transactional producers.

It knows no API. A server that is no broker refuses every transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from gateway.broker.transactions.transaction import BUMPS_EPOCH
from gateway.ports.pending_response import PendingResponse
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from gateway.broker.transactions.events import Event
    from gateway.handlers.access import Operation
    from gateway.handlers.context import Context
    from gateway.ports.pending_response import Answer

#: The level of ``transaction.version`` at which clients of older versions of a request speak.
WITHOUT_BUMPS: Final = 0
#: The same of versions that came with KIP-890.
WITH_BUMPS: Final = BUMPS_EPOCH


def may_on_transaction(context: Context, operation: Operation, transactional_id: str) -> bool:
    """Whether the client may do ``operation`` on the transactional id."""
    peer = context.peer
    return context.gateway.authorizer.allows(
        peer.principal, peer.host, operation.name, "TRANSACTIONAL_ID", transactional_id
    )


def ask(context: Context, event: Event, respond: Callable[[Any], Answer]) -> Answer:
    """Have the coordinator carry out ``event``; ``respond`` makes the response of its result, now
    or later.
    """
    coordinator = context.gateway.transactions
    if coordinator is None:
        return respond(event.failed(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    pending = PendingResponse()
    coordinator.submit(event, lambda result: pending.complete(respond(result)))
    return pending


def error_for(error: ErrorCode, context: Context, first_with_fenced: int) -> ErrorCode:
    """Return the error that a client of this version knows: before ``first_with_fenced``,
    INVALID_PRODUCER_EPOCH was said of a fenced producer (KIP-588).
    """
    is_old = context.version < first_with_fenced
    return (
        ErrorCode.INVALID_PRODUCER_EPOCH
        if is_old and error == ErrorCode.PRODUCER_FENCED
        else (error)
    )
