"""Finds, checks and removes delegation tokens, for the APIs that change them (KIP-48).

The APIs are in ``apis``; HMACs are computed in ``gateway.security.delegation_tokens``. Follows
``DelegationTokenControlManager``.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from gateway.base.slices import Slices, pieces
from gateway.controller.admin_api import AdminApi, Refusal, Requirement, SlicedDecision
from gateway.controller.errors import ApiError
from gateway.controller.records import OPERATION_RECORDS_MAX
from gateway.controller.request_context import ControllerRequestContext, ControllerResult
from kwire.message import Message
from kwire.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from kwire.protocol import ApiKey, ErrorCode
from kwire.protocol.metadata_version import is_delegation_token_supported

if TYPE_CHECKING:
    from gateway.security.secret import Secret
    from kwire.messages.delegation_token_record import DelegationTokenRecord

#: The time in a response that has none (``DelegationTokenManager.ErrorTimestamp``).
NO_TIMESTAMP: Final = -1
#: From this version on requests can name an owner, and responses name the requester (KIP-373).
REQUESTER_VERSION: Final = 3
_LONG_MAX: Final = 2**63 - 1
#: How many tokens are looked at between two slices: less than 1 ms.
_LOOKS_PER_SLICE: Final = 1_000


def expiry_api(
    *,
    key: ApiKey,
    operation: str,
    expiry_of: Callable[[DelegationTokenRecord, Any, ControllerRequestContext], int | None],
    response: Callable[..., Message],
) -> AdminApi:
    """Return the descriptor of an API that moves the expiry of a token, which its HMAC names.

    ``expiry_of(token, request, context)`` returns the new expiry, ms since the epoch, or None to
    remove the token. It raises ApiError for a token that the requester cannot change.
    """

    def decide(request: Any, context: ControllerRequestContext) -> SlicedDecision:
        try:
            # Known by its HMAC alone: the id is no secret, and would let anyone end the token.
            token = yield from find_token(request.hmac, context)
            expiry_ms = expiry_of(token, request, context)
        except ApiError as refusal:
            return ControllerResult([], response(error_code=refusal.error))
        if expiry_ms is None:
            # ``expireDelegationToken`` answers a removal with the time of it.
            removal = RemoveDelegationTokenRecord(token_id=token.token_id)
            return ControllerResult([removal], response(expiry_timestamp_ms=context.now_ms))
        # No renewal lets a token live longer than it was created for.
        expiry_ms = min(expiry_ms, token.max_timestamp)
        moved = token.copy(expiration_timestamp=expiry_ms)
        return ControllerResult([moved], response(expiry_timestamp_ms=expiry_ms))

    def refuse(request: Any, refusal: Refusal) -> Message:
        # Kafka's broker sends this one refusal, and its controller the others, with another time.
        if refusal.error == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED:
            return response(error_code=refusal.error, expiry_timestamp_ms=NO_TIMESTAMP)
        return response(error_code=refusal.error)

    return AdminApi(
        key=key,
        operation=operation,
        decide=decide,
        refuse=refuse,
        requirement=Requirement.TOKEN_REQUESTER,
    )


def token_secret(context: ControllerRequestContext) -> Secret:
    """Return the secret key of the tokens' HMACs. Raises ApiError if delegation tokens are
    disabled.
    """
    # Without the secret no node can compute an HMAC, so no token could be used.
    if context.settings.token_secret is None:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    if not is_delegation_token_supported(context.level):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    return context.settings.token_secret


def find_token(hmac: bytes, context: ControllerRequestContext) -> Slices[DelegationTokenRecord]:
    """Return the token with this HMAC, in slices. Raises ApiError DELEGATION_TOKEN_NOT_FOUND."""
    token_id = yield from context.state.token_index.find(token_secret(context), hmac)
    if token_id is None:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    return context.image.tokens[token_id]


def sweep_expired_tokens(context: ControllerRequestContext) -> Slices[list[Message]]:
    """Return the records that remove expired tokens (``sweepExpiredDelegationTokens``), in slices.

    They are as many as one operation holds: the task runs again at once if it found some.
    """
    # A node of an older release could not read the record.
    if not is_delegation_token_supported(context.level):
        return []
    records: list[Message] = []
    for some in pieces(context.image.tokens.values(), _LOOKS_PER_SLICE):
        expired = (token.token_id for token in some if _is_expired(token, context))
        room = OPERATION_RECORDS_MAX - len(records)
        records += [
            RemoveDelegationTokenRecord(token_id=token_id) for token_id in islice(expired, room)
        ]
        yield
    return records


def check_may_renew(token: DelegationTokenRecord, context: ControllerRequestContext) -> None:
    """Raise ApiError unless the requester is the owner or a renewer of the token."""
    # The requester that created it for another owner is neither (KIP-373, ``allowedToRenew``).
    if context.principal != token.owner and context.principal not in token.renewers:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def check_not_expired(token: DelegationTokenRecord, context: ControllerRequestContext) -> None:
    """Raise ApiError DELEGATION_TOKEN_EXPIRED for an expired token."""
    if _is_expired(token, context):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_EXPIRED)


def _is_expired(token: DelegationTokenRecord, context: ControllerRequestContext) -> bool:
    # A token is valid in the millisecond of its expiry, as in Kafka.
    return min(token.max_timestamp, token.expiration_timestamp) < context.now_ms


def later(now_ms: int, duration_ms: int) -> int:
    """Return the sum, or the last time that 64 bits hold: clients send ``Long.MAX_VALUE`` to ask
    for the longest lifetime (``DelegationTokenControlManager.sum``).
    """
    # Python's sum does not overflow, but the field of the record is an int64.
    return min(now_ms + duration_ms, _LONG_MAX)
