"""AlterPartitionReassignments (key 45): the active controller moves partitions, or this server refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.controller_requests import ask_controller

if TYPE_CHECKING:
    from gateway.handlers.context import Context, Later
    from kwire.message import Message
    from kwire.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest

API_KEY: Final = 45
VERSIONS: Final = range(2)


def handle(request: AlterPartitionReassignmentsRequest, context: Context) -> Message | Later:
    """A result for each partition."""
    return ask_controller(request, context, request.timeout_ms)
