"""CreateDelegationToken (key 38): the active controller makes one for who asks (KIP-48), or for another (KIP-373)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.controller.delegation_tokens import creation_refused
from gateway.handlers.controller_requests import ask_controller
from gateway.handlers.delegation_tokens import may_ask_for_tokens
from gateway.handlers.errors import ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context, Later
    from kwire.message import Message
    from kwire.messages.create_delegation_token_request import CreateDelegationTokenRequest

API_KEY: Final = 38
VERSIONS: Final = range(1, 4)


def handle(request: CreateDelegationTokenRequest, context: Context) -> Message | Later:
    """The token. DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for who does not say who he is, or says so by a token."""
    if context.gateway.controller is not None and not may_ask_for_tokens(context):
        return creation_refused(request, context.version, context.peer.principal, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    return ask_controller(request, context)
