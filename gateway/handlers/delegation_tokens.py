"""What the handlers of delegation tokens share: who may ask for them at all (``allowTokenRequests``; KIP-48)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.controller.delegation_tokens import NO_TIMESTAMP
from gateway.handlers.controller_requests import ask_controller
from gateway.handlers.errors import ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context, Later
    from kwire.message import Message

_ANONYMOUS: Final = "User:ANONYMOUS"


def may_ask_for_tokens(context: Context) -> bool:
    """Is it known who asks, and by no token? One that was made for a token would outlive it.

    What a broker forwards was let through there.
    """
    peer = context.peer
    if peer.token_authenticated:
        return False
    if peer.forwarder is not None:
        return True
    protocol = context.gateway.endpoint(peer.listener).security_protocol
    return protocol.startswith("SASL_") or (protocol == "SSL" and peer.principal != _ANONYMOUS)


def change_token(request: Message, context: Context, answer: type[Message]) -> Message | Later:
    """Have the active controller do it: the answer, of that type, tells when the token expires now.

    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for who does not say who he is, or says so by a token.
    """
    if context.gateway.controller is not None and not may_ask_for_tokens(context):
        return answer(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=NO_TIMESTAMP)  # type: ignore[call-arg]
    return ask_controller(request, context)
