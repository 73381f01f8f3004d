"""RenewDelegationToken (key 39): the owner, or who was named to, has it live on; the active controller writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.delegation_tokens import change_token
from kwire.messages.renew_delegation_token_response import RenewDelegationTokenResponse

if TYPE_CHECKING:
    from gateway.handlers.context import Context, Later
    from kwire.message import Message
    from kwire.messages.renew_delegation_token_request import RenewDelegationTokenRequest

API_KEY: Final = 39
VERSIONS: Final = range(1, 3)


def handle(request: RenewDelegationTokenRequest, context: Context) -> Message | Later:
    """When the token expires now."""
    return change_token(request, context, RenewDelegationTokenResponse)
