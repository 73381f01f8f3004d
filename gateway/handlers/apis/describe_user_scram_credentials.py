"""DescribeUserScramCredentials (key 50): returns the users that have SCRAM credentials, with their
iterations (KIP-554).

They are those of this node's own cluster, or of the observed one. Salts and keys are not returned.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from gateway.base.error_text import error_text
from gateway.handlers.access import Operation, may_on_cluster
from gateway.handlers.catalog import cluster_image
from gateway.ports.streamed import WHOLE_MAX, respond
from kwire.messages.describe_user_scram_credentials_response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kwire.protocol import SCRAM_MECHANISMS, ApiKey, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gateway.handlers.context import Context
    from gateway.ports.streamed import Streamed
    from kwire.message import Message
    from kwire.messages.describe_user_scram_credentials_request import (
        DescribeUserScramCredentialsRequest,
    )
    from kwire.messages.user_scram_credential_record import UserScramCredentialRecord

    _Credentials = Mapping[tuple[int, str], UserScramCredentialRecord]

API_KEY: Final = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
VERSIONS: Final = range(1)


def handle(request: DescribeUserScramCredentialsRequest, context: Context) -> Message | Streamed:
    """Return credentials by user; null or an empty list requests every user.

    A requested user gets RESOURCE_NOT_FOUND without credentials, DUPLICATE_RESOURCE if repeated.
    """
    if not may_on_cluster(context, Operation.DESCRIBE):
        fault = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeUserScramCredentialsResponse(
            error_code=fault, error_message="Cluster authorization failed."
        )
    image = cluster_image(context)
    known = {} if image is None else image.scram.copy()
    times = Counter(user.name for user in request.users or ())
    results = _named(times, known) if times else _all(known)
    size = len(times) or len(known)
    return respond(DescribeUserScramCredentialsResponse(), "results", results, size)


def _named(
    times: Counter[str], known: _Credentials
) -> Iterator[DescribeUserScramCredentialsResult]:
    for user, often in times.items():
        yield _result(user, often, _infos(user, known))


def _all(known: _Credentials) -> Iterator[DescribeUserScramCredentialsResult | None]:
    """Yield every user, in the order of the first mechanism that the user has."""
    users: dict[str, None] = {}
    for _, user in sorted(known) if len(known) <= WHOLE_MAX else known:
        users[user] = None
        yield None
    for user in users:
        yield _result(user, 1, _infos(user, known))


def _infos(user: str, known: _Credentials) -> list[CredentialInfo]:
    found = ((mechanism, known.get((mechanism, user))) for mechanism in SCRAM_MECHANISMS)
    return [
        CredentialInfo(mechanism=mechanism, iterations=one.iterations)
        for mechanism, one in found
        if one is not None
    ]


def _result(
    user: str, times: int, infos: list[CredentialInfo]
) -> DescribeUserScramCredentialsResult:
    if times > 1:
        fault = ErrorCode.DUPLICATE_RESOURCE
        why = (
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        )
    elif not infos:
        fault = ErrorCode.RESOURCE_NOT_FOUND
        why = f"Attempt to describe a user credential that does not exist: {user}"
    else:
        return DescribeUserScramCredentialsResult(user=user, credential_infos=infos)
    return DescribeUserScramCredentialsResult(
        user=user, error_code=fault, error_message=error_text(why)
    )
