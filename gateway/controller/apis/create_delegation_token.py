"""CreateDelegationToken: creates a token for the requester (KIP-48) or another owner (KIP-373).

Follows ``DelegationTokenControlManager.createDelegationToken``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from gateway.controller.admin_api import AdminApi, Refusal, Requirement, Resource
from gateway.controller.delegation_tokens import (
    NO_TIMESTAMP,
    REQUESTER_VERSION,
    later,
    token_secret,
)
from gateway.controller.errors import ApiError
from gateway.controller.request_context import ControllerRequestContext, ControllerResult
from gateway.security.delegation_tokens import token_hmac
from kwire.message import Message
from kwire.messages.create_delegation_token_response import CreateDelegationTokenResponse
from kwire.messages.delegation_token_record import DelegationTokenRecord
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from kwire.messages.create_delegation_token_request import CreateDelegationTokenRequest

_USER: Final = "User"


def _decide(
    request: CreateDelegationTokenRequest, context: ControllerRequestContext
) -> ControllerResult:
    """Create a token for the requester, or for an owner whose tokens the requester may create.

    The response is the only place where the HMAC, the token's password, is ever shown.
    """
    try:
        owner = _owner_of(request, context.principal)
        # A token of another user is a login as that user, so it takes a permission on that user
        # (KIP-373).
        if owner != context.principal and not context.allows("CREATE_TOKENS", "USER", owner):
            raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
        # ``createDelegationToken`` accepts users alone as renewers.
        if any(renewer.principal_type != _USER for renewer in request.renewers):
            raise ApiError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    except ApiError as refusal:
        # A response and no ApiError: it names owner and requester also beside an error.
        return ControllerResult(
            [], _refused(request, context.version, context.principal, refusal.error)
        )
    try:
        secret = token_secret(context)
    except ApiError as refusal:
        # Kafka's broker sends the refusals above and its controller this one, with other times.
        return ControllerResult(
            [],
            _refused(request, context.version, context.principal, refusal.error, timestamp_ms=0),
        )
    lifetime_ms = context.settings.token_max_lifetime_ms
    # A client can shorten the maximum lifetime of the cluster; -1 asks for all of it.
    if request.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
    # By the wall clock: a token outlives the process, and other nodes verify it.
    latest_ms = later(context.now_ms, lifetime_ms)
    token = DelegationTokenRecord(
        owner=owner,
        requester=context.principal,
        renewers=[f"{_USER}:{renewer.principal_name}" for renewer in request.renewers],
        issue_timestamp=context.now_ms,
        max_timestamp=latest_ms,
        # Two times: the first can be moved by a renewal, ``max_timestamp`` never (KIP-48).
        expiration_timestamp=min(
            latest_ms, later(context.now_ms, context.settings.token_expiry_time_ms)
        ),
        token_id=_new_id(context),
    )
    return ControllerResult(
        [token], _created(token, token_hmac(secret, token.token_id), context.version)
    )


def _owner_of(request: CreateDelegationTokenRequest, requester: str) -> str:
    """Return the owner of the token. Raises ApiError for a principal type that is null or has a
    colon.

    Such a principal, written as ``type:name``, would be read as another one.
    """
    # An empty name too, as in ``createDelegationToken``.
    if not request.owner_principal_name:
        return requester
    if request.owner_principal_type is None or ":" in request.owner_principal_type:
        raise ApiError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    return f"{request.owner_principal_type}:{request.owner_principal_name}"


def _refused(
    request: CreateDelegationTokenRequest,
    version: int,
    requester: str,
    error: int,
    *,
    timestamp_ms: int = NO_TIMESTAMP,
) -> Message:
    """Return the response without a token; each of its timestamps is ``timestamp_ms``."""
    try:
        owner = _owner_of(request, requester)
    except ApiError:
        # An owner that cannot be read is not repeated.
        owner = requester
    return CreateDelegationTokenResponse(
        error_code=error,
        **_people(owner, requester, version),
        issue_timestamp_ms=timestamp_ms,
        expiry_timestamp_ms=timestamp_ms,
        max_timestamp_ms=timestamp_ms,
    )


def _created(token: DelegationTokenRecord, hmac: bytes, version: int) -> Message:
    return CreateDelegationTokenResponse(
        **_people(token.owner, token.requester, version),
        issue_timestamp_ms=token.issue_timestamp,
        expiry_timestamp_ms=token.expiration_timestamp,
        max_timestamp_ms=token.max_timestamp,
        token_id=token.token_id,
        hmac=hmac,
    )


def _people(owner: str, requester: str, version: int) -> dict[str, Any]:
    # At the first colon: a name may have others, and a type has none (``_owner_of``).
    owner_type, _, owner_name = owner.partition(":")
    people = {"principal_type": owner_type, "principal_name": owner_name}
    # Older versions have no field for it.
    if version >= REQUESTER_VERSION:
        requester_type, _, requester_name = requester.partition(":")
        people |= {
            "token_requester_principal_type": requester_type,
            "token_requester_principal_name": requester_name,
        }
    return people


def _new_id(context: ControllerRequestContext) -> str:
    # ``new_id`` looks at the ids of topics only.
    while (made := str(context.new_id())) in context.image.tokens:
        pass
    return made


def _refuse(request: CreateDelegationTokenRequest, refusal: Refusal) -> Message:
    return _refused(request, refusal.version, refusal.principal, refusal.error)


def _resources(request: CreateDelegationTokenRequest) -> Iterator[Resource]:
    # The owner alone: an HMAC is a password, and the audit topic shows none.
    if request.owner_principal_name:
        yield "USER", request.owner_principal_name


API: Final = AdminApi(
    key=ApiKey.CREATE_DELEGATION_TOKEN,
    operation="createDelegationToken",
    decide=_decide,
    refuse=_refuse,
    resources=_resources,
    requirement=Requirement.TOKEN_REQUESTER,
)
