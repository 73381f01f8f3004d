"""ExpireDelegationToken: the owner or a renewer of a token ends it, or moves its expiry (KIP-48).

Follows ``DelegationTokenControlManager.expireDelegationToken``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.controller.admin_api import AdminApi
from gateway.controller.delegation_tokens import (
    check_may_renew,
    check_not_expired,
    expiry_api,
    later,
)
from gateway.controller.request_context import ControllerRequestContext
from kwire.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from kwire.protocol import ApiKey

if TYPE_CHECKING:
    from kwire.messages.delegation_token_record import DelegationTokenRecord
    from kwire.messages.expire_delegation_token_request import ExpireDelegationTokenRequest


def _expiry_of(
    token: DelegationTokenRecord,
    request: ExpireDelegationTokenRequest,
    context: ControllerRequestContext,
) -> int | None:
    """Return the expiry after the requested milliseconds; None for a negative number."""
    # First, and in RenewDelegationToken second: the order of ``DelegationTokenControlManager``,
    # which decides on the error of an expired token of another owner.
    check_may_renew(token, context)
    if request.expiry_time_period_ms < 0:
        return None  # before the check of the expiry: an expired token can be removed
    check_not_expired(token, context)
    return later(context.now_ms, request.expiry_time_period_ms)


API: Final[AdminApi] = expiry_api(
    key=ApiKey.EXPIRE_DELEGATION_TOKEN,
    operation="expireDelegationToken",
    expiry_of=_expiry_of,
    response=ExpireDelegationTokenResponse,
)
