"""FindCoordinator (key 10): returns the coordinator of consumer groups and transactional ids.

There are no share groups, which get an error, and on a server that is no broker no transactions.
Versions 0 to 3 have one key, later ones many (KIP-699).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.access import Operation
from gateway.handlers.group_requests import may_on_group
from gateway.handlers.nodes import find_broker
from gateway.handlers.transaction_requests import may_on_transaction
from gateway.ports.streamed import respond
from kwire.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from gateway.ports.streamed import Streamed
    from gateway.ports.transactions import Transactions
    from kwire.message import Message

API_KEY: Final = ApiKey.FIND_COORDINATOR
VERSIONS: Final = range(7)

_FIRST_BATCHED: Final = 4
#: ``FindCoordinatorRequest.CoordinatorType``
_GROUP: Final = 0
_TRANSACTION: Final = 1
_REFUSALS: Final = {
    1: "There are no transactions here: the metadata log is not written by clients.",
    2: "There are no share groups here; use a consumer group.",
}


def handle(request: FindCoordinatorRequest, context: Context) -> Message | Streamed:
    """Return the coordinator of each key, or the reason why there is none."""
    if context.version >= _FIRST_BATCHED:
        keys = request.coordinator_keys
        found = (_find(request.key_type, key, context) for key in keys)
        return respond(FindCoordinatorResponse(), "coordinators", found, len(keys))
    one = _find(request.key_type, request.key, context)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _find(key_type: int, key: str, context: Context) -> Coordinator:
    if key_type == _TRANSACTION and context.gateway.transactions is not None:
        return _of_transaction(key, context.gateway.transactions, context)
    if key_type != _GROUP:
        # Not COORDINATOR_NOT_AVAILABLE: clients would retry until their timeout.
        reason = _REFUSALS.get(key_type, f"There is no coordinator of type {key_type}.")
        return _no_coordinator(key, ErrorCode.INVALID_REQUEST, reason)
    if not may_on_group(context, Operation.DESCRIBE, key):
        return _no_coordinator(
            key, ErrorCode.GROUP_AUTHORIZATION_FAILED, "Not authorized to describe the group."
        )
    return _coordinator(key, context.gateway.groups.coordinator_of(key), context)


def _of_transaction(key: str, transactions: Transactions, context: Context) -> Coordinator:
    if not may_on_transaction(context, Operation.DESCRIBE, key):
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return _no_coordinator(key, error, "Not authorized to describe the transactional id.")
    return _coordinator(key, transactions.find_coordinator(key), context)


def _coordinator(key: str, node: int | ErrorCode, context: Context) -> Coordinator:
    found = None if isinstance(node, ErrorCode) else find_broker(node, context)
    if isinstance(node, ErrorCode) or found is None:
        error = node if isinstance(node, ErrorCode) else ErrorCode.COORDINATOR_NOT_AVAILABLE
        return _no_coordinator(key, error, "The coordinator is not available.")
    return Coordinator(
        key=key, node_id=node, host=found.host, port=found.port, error_code=ErrorCode.NONE
    )


def _no_coordinator(key: str, error: ErrorCode, message: str) -> Coordinator:
    return Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message
    )
