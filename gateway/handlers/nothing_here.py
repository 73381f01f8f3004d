"""Questions about things this server has none of, answered with "none".

ListPartitionReassignments 46, DescribeClientQuotas 48, DescribeUserScramCredentials 50: no partition moves, no client
is throttled, no user is known here. What the cluster that wrote the log has of these stands in the log.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from gateway.handlers.access import Operation, may_on_cluster
from gateway.handlers.errors import ErrorCode
from gateway.handlers.table import Handler

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from kwire.message import Message


def _list_partition_reassignments(request: Any, context: Context) -> Message:
    from kwire.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse

    allowed = may_on_cluster(context, Operation.DESCRIBE)
    return ListPartitionReassignmentsResponse(
        error_code=ErrorCode.NONE if allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=None
    )


def _describe_client_quotas(request: Any, context: Context) -> Message:
    from kwire.messages.describe_client_quotas_response import DescribeClientQuotasResponse

    if not may_on_cluster(context, Operation.DESCRIBE_CONFIGS):
        return DescribeClientQuotasResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=None, entries=None)
    return DescribeClientQuotasResponse(error_message=None, entries=[])


def _describe_user_scram_credentials(request: Any, context: Context) -> Message:
    from kwire.messages.describe_user_scram_credentials_response import (
        DescribeUserScramCredentialsResponse,
        DescribeUserScramCredentialsResult,
    )

    if not may_on_cluster(context, Operation.DESCRIBE):
        fault = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeUserScramCredentialsResponse(error_code=fault, error_message=None)
    results = []
    for user, times in Counter(user.name for user in request.users or ()).items():
        if times > 1:
            fault, why = ErrorCode.DUPLICATE_RESOURCE, f"User {user} was asked for more than once."
        else:
            fault, why = ErrorCode.RESOURCE_NOT_FOUND, f"This server has no SCRAM credentials of user {user}."
        results.append(DescribeUserScramCredentialsResult(user=user, error_code=fault, error_message=why))
    return DescribeUserScramCredentialsResponse(error_message=None, results=results)


HANDLERS: Final = (
    Handler(46, "list_partition_reassignments", range(1), _list_partition_reassignments),
    Handler(48, "describe_client_quotas", range(2), _describe_client_quotas),
    Handler(50, "describe_user_scram_credentials", range(1), _describe_user_scram_credentials),
)
