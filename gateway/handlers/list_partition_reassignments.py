"""ListPartitionReassignments (key 46): which partitions move, as the active controller knows; none where nobody moves any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.access import Operation, may_on_cluster
from gateway.handlers.controller_requests import ask_controller
from gateway.handlers.errors import ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context, Later
    from kwire.message import Message
    from kwire.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest

API_KEY: Final = 46
VERSIONS: Final = range(1)


def handle(request: ListPartitionReassignmentsRequest, context: Context) -> Message | Later:
    """Those of the partitions asked that move."""
    if context.gateway.controller is not None:
        return ask_controller(request, context, request.timeout_ms)
    from kwire.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse

    allowed = may_on_cluster(context, Operation.DESCRIBE)
    return ListPartitionReassignmentsResponse(
        error_code=ErrorCode.NONE if allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=None
    )
