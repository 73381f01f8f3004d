"""Questions about things this server has none of, answered with "none": ListPartitionReassignments 46, for no partition moves."""

from __future__ import annotations

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


HANDLERS: Final = (Handler(46, "list_partition_reassignments", range(1), _list_partition_reassignments),)
