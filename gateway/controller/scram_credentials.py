"""AlterUserScramCredentials: what users prove that they know their passwords by (KIP-554; ``ScramControlManager``).

The passwords themselves never come here: clients salt them, and what is kept tells nobody who could log in with it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from gateway.controller.case import Case, Verdict
from gateway.controller.errors import ApiError, Error
from gateway.security.scram import HASHES, ITERATIONS_MAX, ITERATIONS_MIN
from kwire.message import Message
from kwire.messages.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kwire.messages.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from kwire.messages.user_scram_credential_record import UserScramCredentialRecord

if TYPE_CHECKING:
    from kwire.messages.alter_user_scram_credentials_request import (
        AlterUserScramCredentialsRequest,
        ScramCredentialDeletion,
        ScramCredentialUpsertion,
    )

#: ``ScramMechanism``: the number in requests and records, and the hash.
_HASH_OF: Final = {1: HASHES["SCRAM-SHA-256"], 2: HASHES["SCRAM-SHA-512"]}
#: From this level of metadata.version on there are records of credentials (3.5-IV2).
SCRAM_LEVEL: Final = 11


def alter_user_scram_credentials(request: AlterUserScramCredentialsRequest, case: Case) -> Verdict:
    """One result a user: his one change, or why there is none. Raises ApiError."""
    if not case.may_on_cluster("ALTER"):
        raise ApiError(Error.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    outcomes: dict[str, Message | ApiError] = {}
    for deletion in request.deletions:
        _alter(deletion.name, partial(_removal, deletion, case), outcomes, case)
    for upsertion in request.upsertions:
        _alter(upsertion.name, partial(_credential, upsertion), outcomes, case)
    records = [one for one in outcomes.values() if isinstance(one, Message)]
    return Verdict(records, AlterUserScramCredentialsResponse(results=[_result(*item) for item in outcomes.items()]))


def _alter(user: str, change: Callable[[], Message], outcomes: dict[str, Message | ApiError], case: Case) -> None:
    """The outcome of another change of ``user``: the first that is refused stands, the second that would be made is refused."""
    if isinstance(outcomes.get(user), ApiError):
        return
    try:
        if user in outcomes:
            raise ApiError(Error.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
        if case.level < SCRAM_LEVEL:
            raise ApiError(Error.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM")
        outcomes[user] = change()
    except ApiError as refusal:
        outcomes[user] = refusal


def _removal(asked: ScramCredentialDeletion, case: Case) -> Message:
    _check(asked.name, asked.mechanism)
    if (asked.mechanism, asked.name) not in case.image.scram:
        raise ApiError(Error.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    return RemoveUserScramCredentialRecord(name=asked.name, mechanism=asked.mechanism)


def _credential(asked: ScramCredentialUpsertion) -> Message:
    _check(asked.name, asked.mechanism)
    if asked.iterations < ITERATIONS_MIN:
        raise ApiError(Error.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if asked.iterations > ITERATIONS_MAX:
        raise ApiError(Error.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not asked.salted_password:
        raise ApiError(Error.UNACCEPTABLE_CREDENTIAL, "The salted password must not be empty")
    algorithm = _HASH_OF[asked.mechanism]
    client_key = hmac.digest(asked.salted_password, b"Client Key", algorithm)
    return UserScramCredentialRecord(
        name=asked.name,
        mechanism=asked.mechanism,
        salt=asked.salt,
        stored_key=hashlib.new(algorithm, client_key).digest(),
        server_key=hmac.digest(asked.salted_password, b"Server Key", algorithm),
        iterations=asked.iterations,
    )


def _check(user: str, mechanism: int) -> None:
    if not user:
        raise ApiError(Error.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if mechanism not in _HASH_OF:
        raise ApiError(Error.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")


def _result(user: str, outcome: Message | ApiError) -> AlterUserScramCredentialsResult:
    if isinstance(outcome, ApiError):
        return AlterUserScramCredentialsResult(user=user, error_code=outcome.error, error_message=outcome.message)
    return AlterUserScramCredentialsResult(user=user, error_message=None)
