"""ExpireDelegationToken: the owner or a renewer of a token ends it, or moves its expiry (KIP-48).

Follows ``DelegationTokenControlManager.expireDelegationToken``.
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
from kwire.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from kwire.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from kwire.messages.expire_delegation_token_request import ExpireDelegationTokenRequest


def _decide(
    request: ExpireDelegationTokenRequest, context: ControllerRequestContext
) -> SlicedDecision:
    """The token expires in the given milliseconds; a negative number removes it at once."""
    try:
        token = yield from find_token(request.hmac, context)
        check_may_renew(token, context)
        if request.expiry_time_period_ms < 0:
            removal = RemoveDelegationTokenRecord(token_id=token.token_id)
            return ControllerResult(
                [removal], ExpireDelegationTokenResponse(expiry_timestamp_ms=context.now_ms)
            )
        check_not_expired(token, context)
    except ApiError as refusal:
        return ControllerResult([], ExpireDelegationTokenResponse(error_code=refusal.error))
    expiry_ms = min(token.max_timestamp, later(context.now_ms, request.expiry_time_period_ms))
    return ControllerResult(
        [token.copy(expiration_timestamp=expiry_ms)],
        ExpireDelegationTokenResponse(expiry_timestamp_ms=expiry_ms),
    )


def _refuse(request: ExpireDelegationTokenRequest, refusal: Refusal) -> Message:
    if refusal.error == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED:
        return ExpireDelegationTokenResponse(
            error_code=refusal.error, expiry_timestamp_ms=NO_TIMESTAMP
        )
    return ExpireDelegationTokenResponse(error_code=refusal.error)


API: Final = AdminApi(
    key=ApiKey.EXPIRE_DELEGATION_TOKEN,
    operation="expireDelegationToken",
    decide=_decide,
    refuse=_refuse,
    requirement=Requirement.TOKEN_REQUESTER,
)
