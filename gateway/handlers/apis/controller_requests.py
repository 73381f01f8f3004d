"""Submits admin requests to the active controller, with one handler for each of its APIs.

The descriptor of an API has everything that is particular to it (``gateway.controller.admin_api``).
The controller authorizes the request when it decides on it. If this server only reads a log that
other controllers write, it refuses every change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from gateway.controller.admin_api import AdminApi, Refusal, Requirement
from gateway.controller.apis import admin_api, admin_keys
from gateway.handlers.access import may_on_cluster, requester_of
from gateway.handlers.acls import NO_AUTHORIZER
from gateway.handlers.context import Handler
from gateway.handlers.delegation_tokens import may_ask_for_tokens
from gateway.handlers.refusals import REASON, REFUSED
from gateway.ports.pending_response import PendingResponse
from kwire.protocol import AclOperation, ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from gateway.ports.streamed import Streamed
    from kwire.message import Message

#: The longest timeout, ms: the 32 bits of a request hold 24 days.
TIMEOUT_MS_MAX: Final = 300_000


def ask_controller(
    key: ApiKey, request: Message, context: Context
) -> Message | Streamed | PendingResponse:
    """Submit ``request`` to the active controller, whose response completes the pending one.

    After the timeout of the request, or that of its API if it has none, the response is
    REQUEST_TIMED_OUT. The change may have been made, or may still be made.
    """
    api, controller = admin_api(key), context.gateway.controller
    if controller is None:
        return _without_controller(api, request, context)
    refusal = _refusal(api, context)
    if refusal is not None:
        return api.refuse(request, refusal)
    peer = context.peer
    if context.gateway.is_for_controllers(peer.listener) and not controller.is_active:
        # As on a controller of Kafka: the sender looks for the active controller then. Forwarding
        # it could send the request round in a circle while leadership moves.
        why = "This node is not the active controller."
        return api.refuse(request, Refusal(context.version, ErrorCode.NOT_CONTROLLER, why))
    timeout_ms = getattr(request, "timeout_ms", api.timeout_ms)
    return submit(request, context, timeout_ms, partial(api.refuse, request))


def submit(
    request: Message,
    context: Context,
    timeout_ms: int,
    refuse: Callable[[Refusal], Message | Streamed],
) -> PendingResponse:
    """Submit ``request`` to this node's controller, which may forward it. ``refuse`` makes the
    response after ``timeout_ms``.
    """
    controller = context.gateway.controller
    assert controller is not None, "the caller has looked"
    timeout_s = max(0, min(timeout_ms, TIMEOUT_MS_MAX)) / 1000
    why = (
        f"The controller did not answer within {timeout_s:.3f} s: the change may have been made, "
        "or be made yet."
    )
    late = Refusal(context.version, ErrorCode.REQUEST_TIMED_OUT, why)
    pending = PendingResponse(deadline=context.now + timeout_s, expire=lambda: refuse(late))
    controller.submit(request, context.version, requester_of(context), pending)
    return pending


def _without_controller(api: AdminApi, request: Message, context: Context) -> Message | Streamed:
    """Return the response of a server that has no controller of its own."""
    if not api.reads_only:
        return api.refuse(request, Refusal(context.version, REFUSED, REASON))
    needed = api.cluster_operation
    allowed = needed is None or may_on_cluster(context, AclOperation[needed])
    error = ErrorCode.NONE if allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return api.refuse(request, Refusal(context.version, error, None))


def _refusal(api: AdminApi, context: Context) -> Refusal | None:
    """Return why this node does not submit the request, by the requirement of its API; or None."""
    match api.requirement:
        case Requirement.AUTHORIZER if not context.gateway.authorizer.keeps_acls:
            return Refusal(context.version, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
        case Requirement.TOKEN_REQUESTER if not may_ask_for_tokens(context):
            error = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
            return Refusal(context.version, error, None, context.peer.principal)
        case _:
            return None


def _handler(key: ApiKey, old_requests: Mapping[int, type[Message]]) -> Handler:
    handle = partial(ask_controller, key)
    return Handler(key, key.name.lower(), key.versions, handle, old_requests)


def handlers_for_nodes() -> list[Handler]:
    """Return the handlers of APIs that only nodes of the cluster use, on controller listeners."""
    keys = [key for key in admin_keys() if "broker" not in key.listeners]
    return [_handler(key, admin_api(key).old_requests) for key in keys]


#: Handlers of the APIs that clients use. Descriptors are not imported before the first request.
HANDLERS: Final = tuple(_handler(key, {}) for key in admin_keys() if "broker" in key.listeners)
