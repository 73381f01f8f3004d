"""RenewDelegationToken: the owner or a renewer of a token moves its expiry (KIP-48).

Follows ``DelegationTokenControlManager.renewDelegationToken``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.controller.admin_api import AdminApi, Refusal, Requirement, SlicedDecision
from gateway.controller.delegation_tokens import (
    NO_TIMESTAMP,
    check_may_renew,
    check_not_expired,
    find_token,
    later,
)
from gateway.controller.errors import ApiError
from gateway.controller.request_context import ControllerRequestContext, ControllerResult
from kwire.message import Message
from kwire.messages.renew_delegation_token_response import RenewDelegationTokenResponse
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from kwire.messages.renew_delegation_token_request import RenewDelegationTokenRequest


def _decide(
    request: RenewDelegationTokenRequest, context: ControllerRequestContext
) -> SlicedDecision:
    """The token expires later than now, but not after its ``max_timestamp``."""
    try:
        token = yield from find_token(request.hmac, context)
        check_not_expired(token, context)
        check_may_renew(token, context)
    except ApiError as refusal:
        return ControllerResult([], RenewDelegationTokenResponse(error_code=refusal.error))
    period_ms = context.settings.token_expiry_time_ms
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)
    renewed = token.copy(
        expiration_timestamp=min(token.max_timestamp, later(context.now_ms, period_ms))
    )
    return ControllerResult(
        [renewed], RenewDelegationTokenResponse(expiry_timestamp_ms=renewed.expiration_timestamp)
    )


def _refuse(request: RenewDelegationTokenRequest, refusal: Refusal) -> Message:
    if refusal.error == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED:
        return RenewDelegationTokenResponse(
            error_code=refusal.error, expiry_timestamp_ms=NO_TIMESTAMP
        )
    return RenewDelegationTokenResponse(error_code=refusal.error)


API: Final = AdminApi(
    key=ApiKey.RENEW_DELEGATION_TOKEN,
    operation="renewDelegationToken",
    decide=_decide,
    refuse=_refuse,
    requirement=Requirement.TOKEN_REQUESTER,
)
