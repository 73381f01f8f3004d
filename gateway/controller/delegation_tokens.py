"""Delegation tokens: made, renewed, expired, and removed when their time is over (KIP-48; ``DelegationTokenControlManager``)."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from gateway.controller.case import Case, Verdict
from gateway.controller.errors import ApiError, Error
from gateway.controller.records import OPERATION_RECORDS_MAX
from gateway.security.delegation_tokens import token_hmac
from kwire.message import Message
from kwire.messages.create_delegation_token_response import CreateDelegationTokenResponse
from kwire.messages.delegation_token_record import DelegationTokenRecord
from kwire.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from kwire.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from kwire.messages.renew_delegation_token_response import RenewDelegationTokenResponse

if TYPE_CHECKING:
    from gateway.security.secret import Secret
    from kwire.messages.create_delegation_token_request import CreateDelegationTokenRequest
    from kwire.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
    from kwire.messages.renew_delegation_token_request import RenewDelegationTokenRequest

#: From this level of metadata.version on there are records of tokens (3.6-IV2).
TOKEN_LEVEL: Final = 14
#: Where an answer has no time to tell (``DelegationTokenManager.ErrorTimestamp``).
NO_TIMESTAMP: Final = -1
#: From this version on requests can name an owner, and answers tell who asked (KIP-373).
REQUESTER_VERSION: Final = 3
_USER: Final = "User"
_LONG_MAX: Final = 2**63 - 1
#: Hashes of tokens that are gone: no more of them are kept than this and the number of tokens.
_SPARE_HASHES: Final = 1000


def create_delegation_token(request: CreateDelegationTokenRequest, case: Case) -> Verdict:
    """A token for who asks, or for another whose tokens he may make. The answer tells its password, once and for all."""
    try:
        owner = owner_of(request, case.principal)
        if owner != case.principal and not case.allows("CREATE_TOKENS", "USER", owner):
            raise ApiError(Error.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
        if any(renewer.principal_type != _USER for renewer in request.renewers):
            raise ApiError(Error.INVALID_PRINCIPAL_TYPE)
    except ApiError as refusal:
        return Verdict([], creation_refused(request, case.version, case.principal, refusal.error))
    try:
        secret = _secret(case)
    except ApiError as refusal:  # Kafka's brokers find out the others, and its controller this one
        return Verdict([], creation_refused(request, case.version, case.principal, refusal.error, timestamp_ms=0))
    lifetime_ms = case.settings.token_max_lifetime_ms
    if request.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
    latest_ms = _sum(case.now_ms, lifetime_ms)
    token = DelegationTokenRecord(
        owner=owner,
        requester=case.principal,
        renewers=[f"{_USER}:{renewer.principal_name}" for renewer in request.renewers],
        issue_timestamp=case.now_ms,
        max_timestamp=latest_ms,
        expiration_timestamp=min(latest_ms, _sum(case.now_ms, case.settings.token_expiry_time_ms)),
        token_id=_new_id(case),
    )
    return Verdict([token], _created(token, token_hmac(secret, token.token_id), case.version))


def renew_delegation_token(request: RenewDelegationTokenRequest, case: Case) -> Verdict:
    """Later than now, but no later than the token lives at all."""
    try:
        token = _token_of(request.hmac, case)
        _check_not_expired(token, case)
        _check_owner(token, case)
    except ApiError as refusal:
        return Verdict([], RenewDelegationTokenResponse(error_code=refusal.error))
    period_ms = case.settings.token_expiry_time_ms
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)
    renewed = token.copy(expiration_timestamp=min(token.max_timestamp, _sum(case.now_ms, period_ms)))
    return Verdict([renewed], RenewDelegationTokenResponse(expiry_timestamp_ms=renewed.expiration_timestamp))


def expire_delegation_token(request: ExpireDelegationTokenRequest, case: Case) -> Verdict:
    """In so many milliseconds; a negative number is now, even where its time is over already."""
    try:
        token = _token_of(request.hmac, case)
        _check_owner(token, case)
        if request.expiry_time_period_ms < 0:
            removal = RemoveDelegationTokenRecord(token_id=token.token_id)
            return Verdict([removal], ExpireDelegationTokenResponse(expiry_timestamp_ms=case.now_ms))
        _check_not_expired(token, case)
    except ApiError as refusal:
        return Verdict([], ExpireDelegationTokenResponse(error_code=refusal.error))
    expiry_ms = min(token.max_timestamp, _sum(case.now_ms, request.expiry_time_period_ms))
    return Verdict([token.copy(expiration_timestamp=expiry_ms)], ExpireDelegationTokenResponse(expiry_timestamp_ms=expiry_ms))


def sweep_expired_tokens(case: Case) -> list[Message]:
    """The removal of tokens whose time is over, of as many as one operation holds (``sweepExpiredDelegationTokens``)."""
    if case.level < TOKEN_LEVEL:
        return []
    expired = (token.token_id for token in case.image.tokens.values() if _is_expired(token, case))
    return [RemoveDelegationTokenRecord(token_id=token_id) for token_id in islice(expired, OPERATION_RECORDS_MAX)]


def owner_of(request: CreateDelegationTokenRequest, requester: str) -> str:
    """Whose token it is to be. Raises ApiError for a type that no principal has: written out he would be another."""
    if not request.owner_principal_name:
        return requester
    if request.owner_principal_type is None or ":" in request.owner_principal_type:
        raise ApiError(Error.INVALID_PRINCIPAL_TYPE)
    return f"{request.owner_principal_type}:{request.owner_principal_name}"


def creation_refused(
    request: CreateDelegationTokenRequest, version: int, requester: str, error: int, *, timestamp_ms: int = NO_TIMESTAMP
) -> Message:
    """The answer to a request for a token that is not made; ``timestamp_ms`` is what stands for its times."""
    try:
        owner = owner_of(request, requester)
    except ApiError:
        owner = requester
    return CreateDelegationTokenResponse(
        error_code=error,
        **_people(owner, requester, version),
        issue_timestamp_ms=timestamp_ms,
        expiry_timestamp_ms=timestamp_ms,
        max_timestamp_ms=timestamp_ms,
    )


def _created(token: DelegationTokenRecord, password: bytes, version: int) -> Message:
    return CreateDelegationTokenResponse(
        **_people(token.owner, token.requester, version),
        issue_timestamp_ms=token.issue_timestamp,
        expiry_timestamp_ms=token.expiration_timestamp,
        max_timestamp_ms=token.max_timestamp,
        token_id=token.token_id,
        hmac=password,
    )


def _people(owner: str, requester: str, version: int) -> dict[str, Any]:
    owner_type, _, owner_name = owner.partition(":")
    people = {"principal_type": owner_type, "principal_name": owner_name}
    if version >= REQUESTER_VERSION:
        requester_type, _, requester_name = requester.partition(":")
        people |= {"token_requester_principal_type": requester_type, "token_requester_principal_name": requester_name}
    return people


def _secret(case: Case) -> Secret:
    """What passwords are made with. Raises ApiError where there are no tokens."""
    if case.settings.token_secret is None:
        raise ApiError(Error.DELEGATION_TOKEN_AUTH_DISABLED)
    if case.level < TOKEN_LEVEL:
        raise ApiError(Error.UNSUPPORTED_VERSION)
    return case.settings.token_secret


def _new_id(case: Case) -> str:
    while (made := str(case.new_id())) in case.image.tokens:
        pass
    return made


def _token_of(password: bytes, case: Case) -> DelegationTokenRecord:
    """The token that ``password`` belongs to. Raises ApiError."""
    secret, tokens, ids = _secret(case), case.image.tokens, case.state.token_ids
    token = tokens.get(ids.get(password, ""))
    if token is None:
        if len(ids) > len(tokens) + _SPARE_HASHES:
            ids.clear()
        hashed = set(ids.values())
        ids.update({token_hmac(secret, token_id): token_id for token_id in tokens if token_id not in hashed})
        token = tokens.get(ids.get(password, ""))
    if token is None:
        raise ApiError(Error.DELEGATION_TOKEN_NOT_FOUND)
    return token


def _check_owner(token: DelegationTokenRecord, case: Case) -> None:
    if case.principal != token.owner and case.principal not in token.renewers:
        raise ApiError(Error.DELEGATION_TOKEN_OWNER_MISMATCH)


def _check_not_expired(token: DelegationTokenRecord, case: Case) -> None:
    if _is_expired(token, case):
        raise ApiError(Error.DELEGATION_TOKEN_EXPIRED)


def _is_expired(token: DelegationTokenRecord, case: Case) -> bool:
    return min(token.max_timestamp, token.expiration_timestamp) < case.now_ms


def _sum(now_ms: int, duration_ms: int) -> int:
    return min(now_ms + duration_ms, _LONG_MAX)
