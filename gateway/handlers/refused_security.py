"""ACLs, SCRAM credentials and producer ids: what a server without an ACL store and without writers answers.

InitProducerId 22, DescribeAcls 29, CreateAcls 30, DeleteAcls 31, AlterUserScramCredentials 51. The ACL APIs answer
SECURITY_DISABLED, as a Kafka broker without an authorizer does: tools know it and say so. The ACLs of the cluster are
records of the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.handlers.errors import ErrorCode
from gateway.handlers.refusals import REASON, REFUSED
from gateway.handlers.table import Handler

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from kwire.message import Message

_NO_ACLS: Final = "No authorizer is configured here; the ACLs of the cluster are records of the metadata log."


def _init_producer_id(request: Any, context: Context) -> Message:
    from kwire.messages.init_producer_id_response import InitProducerIdResponse

    # Java's producer is idempotent by default and asks this first. The two authorization errors are those that it
    # hands to the application as they are; others become "unexpected error".
    idempotent = request.transactional_id is None
    fault = ErrorCode.CLUSTER_AUTHORIZATION_FAILED if idempotent else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return InitProducerIdResponse(error_code=fault, producer_id=-1, producer_epoch=-1)


def _describe_acls(request: Any, context: Context) -> Message:
    from kwire.messages.describe_acls_response import DescribeAclsResponse

    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=_NO_ACLS)


def _create_acls(request: Any, context: Context) -> Message:
    from kwire.messages.create_acls_response import AclCreationResult, CreateAclsResponse

    fault = ErrorCode.SECURITY_DISABLED
    return CreateAclsResponse(results=[AclCreationResult(error_code=fault, error_message=_NO_ACLS) for _ in request.creations])


def _delete_acls(request: Any, context: Context) -> Message:
    from kwire.messages.delete_acls_response import DeleteAclsFilterResult, DeleteAclsResponse

    fault = ErrorCode.SECURITY_DISABLED
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(error_code=fault, error_message=_NO_ACLS) for _ in request.filters]
    )


def _alter_user_scram_credentials(request: Any, context: Context) -> Message:
    from kwire.messages.alter_user_scram_credentials_response import (
        AlterUserScramCredentialsResponse,
        AlterUserScramCredentialsResult,
    )

    users = dict.fromkeys(change.name for change in [*request.deletions, *request.upsertions])  # one answer a user
    return AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(user=user, error_code=REFUSED, error_message=REASON) for user in users]
    )


HANDLERS: Final = (
    Handler(22, "init_producer_id", range(6), _init_producer_id),
    Handler(29, "describe_acls", range(1, 4), _describe_acls),
    Handler(30, "create_acls", range(1, 4), _create_acls),
    Handler(31, "delete_acls", range(1, 4), _delete_acls),
    Handler(51, "alter_user_scram_credentials", range(1), _alter_user_scram_credentials),
)
