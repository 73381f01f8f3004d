"""SyncGroup (key 14): takes the assignments from the leader, and returns each member its own.

The responses to the other members wait for the leader's request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.groups.events import SyncGroup, SyncResult
from gateway.handlers.access import Operation
from gateway.handlers.group_requests import ask, may_on_group
from kwire.messages.sync_group_request import SyncGroupRequest
from kwire.messages.sync_group_response import SyncGroupResponse
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from gateway.ports.pending_response import PendingResponse

API_KEY: Final = ApiKey.SYNC_GROUP
VERSIONS: Final = range(6)

#: The first version in which a member must send the protocol that it believes in (KIP-559).
_FIRST_WITH_PROTOCOL: Final = 5


def handle(request: SyncGroupRequest, context: Context) -> SyncGroupResponse | PendingResponse:
    """Send the request to the coordinator."""
    if not may_on_group(context, Operation.READ, request.group_id):
        return SyncGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if context.version >= _FIRST_WITH_PROTOCOL and None in (
        request.protocol_type,
        request.protocol_name,
    ):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    event = SyncGroup(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments=tuple((said.member_id, bytes(said.assignment)) for said in request.assignments),
    )
    return ask(context, event, _respond)


def _respond(result: SyncResult) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )
