"""RenewDelegationToken: the owner or a renewer of a token moves its expiry (KIP-48).

Follows ``DelegationTokenControlManager.renewDelegationToken``.
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
from kwire.messages.renew_delegation_token_response import RenewDelegationTokenResponse
from kwire.protocol import ApiKey

if TYPE_CHECKING:
    from kwire.messages.delegation_token_record import DelegationTokenRecord
    from kwire.messages.renew_delegation_token_request import RenewDelegationTokenRequest


def _expiry_of(
    token: DelegationTokenRecord,
    request: RenewDelegationTokenRequest,
    context: ControllerRequestContext,
) -> int:
    """Return the expiry: now and ``delegation.token.expiry.time.ms``, or less if requested."""
    # Before the permission, unlike ExpireDelegationToken, as in ``renewDelegationToken``.
    check_not_expired(token, context)
    check_may_renew(token, context)
    period_ms = context.settings.token_expiry_time_ms
    # -1 asks for the server's period. A longer one than that is cut down to it.
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)
    return later(context.now_ms, period_ms)


API: Final[AdminApi] = expiry_api(
    key=ApiKey.RENEW_DELEGATION_TOKEN,
    operation="renewDelegationToken",
    expiry_of=_expiry_of,
    response=RenewDelegationTokenResponse,
)
