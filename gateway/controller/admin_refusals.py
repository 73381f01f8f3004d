"""One error for all that an administrator asked about ACLs, quotas, credentials and tokens, in the shape of each answer.

For what concerns the request as a whole, as ``refusals``, which knows the other APIs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gateway.controller.case import ANONYMOUS
from gateway.controller.delegation_tokens import creation_refused
from kwire.message import Message
from kwire.messages.alter_client_quotas_response import AlterClientQuotasResponse, EntityData, EntryData
from kwire.messages.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kwire.messages.create_acls_response import AclCreationResult, CreateAclsResponse
from kwire.messages.delete_acls_response import DeleteAclsFilterResult, DeleteAclsResponse
from kwire.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from kwire.messages.renew_delegation_token_response import RenewDelegationTokenResponse


def _create_acls(request: Any, version: int, error: int, message: str | None) -> Message:
    return CreateAclsResponse(results=[AclCreationResult(error_code=error, error_message=message) for _ in request.creations])


def _delete_acls(request: Any, version: int, error: int, message: str | None) -> Message:
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(error_code=error, error_message=message) for _ in request.filters]
    )


def _alter_client_quotas(request: Any, version: int, error: int, message: str | None) -> Message:
    return AlterClientQuotasResponse(
        entries=[
            EntryData(
                error_code=error,
                error_message=message,
                entity=[EntityData(entity_type=one.entity_type, entity_name=one.entity_name) for one in entry.entity],
            )
            for entry in request.entries
        ]
    )


def _alter_user_scram_credentials(request: Any, version: int, error: int, message: str | None) -> Message:
    users = dict.fromkeys(change.name for change in [*request.deletions, *request.upsertions])  # one answer a user
    return AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(user=user, error_code=error, error_message=message) for user in users]
    )


def _create_delegation_token(request: Any, version: int, error: int, message: str | None) -> Message:
    return creation_refused(request, version, ANONYMOUS, error)


def _renew_delegation_token(request: Any, version: int, error: int, message: str | None) -> Message:
    return RenewDelegationTokenResponse(error_code=error)


def _expire_delegation_token(request: Any, version: int, error: int, message: str | None) -> Message:
    return ExpireDelegationTokenResponse(error_code=error)


ADMIN_SHAPES: Final[Mapping[str, Callable[[Any, int, int, str | None], Message]]] = {
    "AlterClientQuotasRequest": _alter_client_quotas,
    "AlterUserScramCredentialsRequest": _alter_user_scram_credentials,
    "CreateAclsRequest": _create_acls,
    "CreateDelegationTokenRequest": _create_delegation_token,
    "DeleteAclsRequest": _delete_acls,
    "ExpireDelegationTokenRequest": _expire_delegation_token,
    "RenewDelegationTokenRequest": _renew_delegation_token,
}
