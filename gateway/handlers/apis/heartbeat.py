"""Heartbeat (key 12): keeps the session of a group member, and tells it of a rebalance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.groups.events import Heartbeat, HeartbeatResult
from gateway.handlers.access import Operation
from gateway.handlers.group_requests import ask, may_on_group
from kwire.messages.heartbeat_request import HeartbeatRequest
from kwire.messages.heartbeat_response import HeartbeatResponse
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from gateway.ports.pending_response import PendingResponse

API_KEY: Final = ApiKey.HEARTBEAT
VERSIONS: Final = range(5)


def handle(request: HeartbeatRequest, context: Context) -> HeartbeatResponse | PendingResponse:
    """Send the heartbeat to the coordinator."""
    if not may_on_group(context, Operation.READ, request.group_id):
        return HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    event = Heartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
    )
    return ask(context, event, _respond)


def _respond(result: HeartbeatResult) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=result.error)
