"""ExpireDelegationToken (key 40): the active controller does it for the owner, or for who may renew the token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.controller.delegation_tokens import NO_TIMESTAMP
from gateway.handlers.controller_requests import ask_controller
from gateway.handlers.delegation_tokens import may_ask_for_tokens
from gateway.handlers.errors import ErrorCode
from kwire.messages.expire_delegation_token_response import ExpireDelegationTokenResponse

if TYPE_CHECKING:
    from gateway.handlers.context import Context, Later
    from kwire.message import Message
    from kwire.messages.expire_delegation_token_request import ExpireDelegationTokenRequest

API_KEY: Final = 40
VERSIONS: Final = range(1, 3)


def handle(request: ExpireDelegationTokenRequest, context: Context) -> Message | Later:
    """When it expires now. DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for who does not say who he is, or says so by a token."""
    if context.gateway.controller is not None and not may_ask_for_tokens(context):
        fault = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return ExpireDelegationTokenResponse(error_code=fault, expiry_timestamp_ms=NO_TIMESTAMP)
    return ask_controller(request, context)
