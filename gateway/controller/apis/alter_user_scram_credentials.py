"""AlterUserScramCredentials: sets and deletes the SCRAM credentials of users (KIP-554;
``ScramControlManager``).

A client sends the salted password. The record has keys that are derived from it, with which a
server verifies a login, and which are no use to log in (RFC 5802).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from gateway.controller.admin_api import AdminApi, Refusal, SlicedDecision
from gateway.controller.errors import ApiError
from gateway.controller.request_context import ControllerRequestContext, ControllerResult
from gateway.ports.streamed import Streamed, respond
from gateway.security.scram import ITERATIONS_MAX, ITERATIONS_MIN
from gateway.security.scram_credentials import credential_record
from kwire.message import Message
from kwire.messages.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kwire.messages.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from kwire.protocol import SCRAM_MECHANISMS, ApiKey, ErrorCode
from kwire.protocol.metadata_version import is_scram_supported

if TYPE_CHECKING:
    from kwire.messages.alter_user_scram_credentials_request import (
        AlterUserScramCredentialsRequest,
        ScramCredentialDeletion,
        ScramCredentialUpsertion,
    )


def alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, context: ControllerRequestContext
) -> SlicedDecision:
    """Return one result for each user, and the record of its one change."""
    # No ApiError is kept: its traceback has the frame that has this dictionary, a cycle.
    outcomes: dict[str, Message | AlterUserScramCredentialsResult] = {}
    # Deletions first, as in ``ScramControlManager.alterCredentials``: a user in both lists is
    # refused for the second mention.
    for deletion in request.deletions:
        _alter(deletion.name, partial(_removal, deletion, context), outcomes, context)
        yield
    for upsertion in request.upsertions:
        _alter(upsertion.name, partial(_credential, upsertion), outcomes, context)
        yield
    records: list[Message] = []
    results = []
    for user, outcome in outcomes.items():
        if isinstance(outcome, Message):
            records.append(outcome)
            outcome = AlterUserScramCredentialsResult(user=user, error_message=None)
        results.append(outcome)
        yield
    return ControllerResult(records, AlterUserScramCredentialsResponse(results=results))


def _alter(
    user: str,
    change: Callable[[], Message],
    outcomes: dict[str, Message | AlterUserScramCredentialsResult],
    context: ControllerRequestContext,
) -> None:
    """Add a change of ``user`` to ``outcomes``: its first error stands, and a second change is
    refused.
    """
    if isinstance(outcomes.get(user), AlterUserScramCredentialsResult):
        return  # as in ScramControlManager, which puts a user with an error aside
    try:
        if user in outcomes:
            raise ApiError(
                ErrorCode.DUPLICATE_RESOURCE,
                "A user credential cannot be altered twice in the same request",
            )
        # For each user, as in ``alterCredentials``: the response has no error of its own.
        if not is_scram_supported(context.level):
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM"
            )
        outcomes[user] = change()
    except ApiError as refusal:
        outcomes[user] = AlterUserScramCredentialsResult(
            user=user, error_code=refusal.error, error_message=refusal.message
        )


def _removal(asked: ScramCredentialDeletion, context: ControllerRequestContext) -> Message:
    _check(asked.name, asked.mechanism)
    # RESOURCE_NOT_FOUND and no silent success, so that a misspelt name is noticed.
    if (asked.mechanism, asked.name) not in context.image.scram:
        raise ApiError(
            ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
        )
    return RemoveUserScramCredentialRecord(name=asked.name, mechanism=asked.mechanism)


def _credential(asked: ScramCredentialUpsertion) -> Message:
    _check(asked.name, asked.mechanism)
    # ``ScramMechanism`` sets the least: few iterations make a stolen credential cheap to guess.
    if asked.iterations < ITERATIONS_MIN:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    # ``ScramControlManager.MAX_ITERATIONS``: clients compute them at each login.
    if asked.iterations > ITERATIONS_MAX:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not asked.salted_password:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salted password must not be empty")
    return credential_record(
        asked.name, asked.mechanism, asked.salt, asked.salted_password, asked.iterations
    )


def _check(user: str, mechanism: int) -> None:
    if not user:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if mechanism not in SCRAM_MECHANISMS:
        raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")


def _refuse(request: AlterUserScramCredentialsRequest, refusal: Refusal) -> Message | Streamed:
    users = dict.fromkeys(name for _, name in _resources(request))  # one result for each user
    results = (
        AlterUserScramCredentialsResult(
            user=user, error_code=refusal.error, error_message=refusal.message
        )
        for user in users
    )
    return respond(AlterUserScramCredentialsResponse(), "results", results, len(users))


def _resources(request: AlterUserScramCredentialsRequest) -> Iterator[tuple[str, str]]:
    for deletion in request.deletions:
        yield "USER", deletion.name
    for upsertion in request.upsertions:
        yield "USER", upsertion.name


API: Final = AdminApi(
    key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    operation="alterUserScramCredentials",
    decide=alter_user_scram_credentials,
    refuse=_refuse,
    cluster_operation="ALTER",
    resources=_resources,
)
