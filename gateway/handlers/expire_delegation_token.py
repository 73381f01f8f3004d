"""ExpireDelegationToken (key 40): the owner, or who may renew it, ends its time; the active controller writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.delegation_tokens import change_token
from kwire.messages.expire_delegation_token_response import ExpireDelegationTokenResponse

if TYPE_CHECKING:
    from gateway.handlers.context import Context, Later
    from kwire.message import Message
    from kwire.messages.expire_delegation_token_request import ExpireDelegationTokenRequest

API_KEY: Final = 40
VERSIONS: Final = range(1, 3)


def handle(request: ExpireDelegationTokenRequest, context: Context) -> Message | Later:
    """When the token expires now."""
    return change_token(request, context, ExpireDelegationTokenResponse)
