"""DescribeUserScramCredentials (key 50): which users can log in by SCRAM, and how many iterations that takes (KIP-554).

Of our own cluster, or the observed one. Salts and keys are not told.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from gateway.handlers.access import Operation, may_on_cluster
from gateway.handlers.catalog import cluster_image
from gateway.handlers.errors import ErrorCode
from kwire.messages.describe_user_scram_credentials_response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from kwire.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest

API_KEY: Final = 50
VERSIONS: Final = range(1)


def handle(request: DescribeUserScramCredentialsRequest, context: Context) -> DescribeUserScramCredentialsResponse:
    """Credentials by user; no users asked means every user. RESOURCE_NOT_FOUND, or DUPLICATE_RESOURCE, at a user."""
    if not may_on_cluster(context, Operation.DESCRIBE):
        fault = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeUserScramCredentialsResponse(error_code=fault, error_message="Cluster authorization failed.")
    known = _credentials(context)
    times = Counter(user.name for user in request.users or ()) or dict.fromkeys(known, 1)
    return DescribeUserScramCredentialsResponse(results=[_result(user, times[user], known.get(user, [])) for user in times])


def _credentials(context: Context) -> dict[str, list[CredentialInfo]]:
    image = cluster_image(context)
    found: dict[str, list[CredentialInfo]] = {}
    for (mechanism, user), credential in sorted(image.scram.items()) if image is not None else ():
        found.setdefault(user, []).append(CredentialInfo(mechanism=mechanism, iterations=credential.iterations))
    return found


def _result(user: str, times: int, infos: list[CredentialInfo]) -> DescribeUserScramCredentialsResult:
    if times > 1:
        fault = ErrorCode.DUPLICATE_RESOURCE
        why = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
    elif not infos:
        fault = ErrorCode.RESOURCE_NOT_FOUND
        why = f"Attempt to describe a user credential that does not exist: {user}"
    else:
        return DescribeUserScramCredentialsResult(user=user, credential_infos=infos)
    return DescribeUserScramCredentialsResult(user=user, error_code=fault, error_message=why)
