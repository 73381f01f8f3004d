"""LeaveGroup (key 13): removes members from a group at once, without a session timeout.

Versions 0 to 2 have one member, later ones many (KIP-345).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.groups.events import LeaveGroup, Leaver, LeaveResult
from gateway.handlers.access import Operation
from gateway.handlers.group_requests import ask, may_on_group
from kwire.messages.leave_group_request import LeaveGroupRequest
from kwire.messages.leave_group_response import LeaveGroupResponse, MemberResponse
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from gateway.ports.pending_response import PendingResponse

API_KEY: Final = ApiKey.LEAVE_GROUP
VERSIONS: Final = range(6)

_FIRST_BATCHED: Final = 3


def handle(request: LeaveGroupRequest, context: Context) -> LeaveGroupResponse | PendingResponse:
    """Send the members to the coordinator."""
    if not may_on_group(context, Operation.READ, request.group_id):
        return LeaveGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    batched = context.version >= _FIRST_BATCHED
    if batched:
        leavers = tuple(
            Leaver(member.member_id, member.group_instance_id) for member in request.members
        )
    else:
        leavers = (Leaver(request.member_id, None),)
    event = LeaveGroup(group_id=request.group_id, leavers=leavers)
    return ask(context, event, lambda result: _respond(result, leavers, batched))


def _respond(result: LeaveResult, leavers: tuple[Leaver, ...], batched: bool) -> LeaveGroupResponse:
    if result.error or not batched:
        return LeaveGroupResponse(
            error_code=result.error or next(iter(result.errors), ErrorCode.NONE)
        )
    members = [
        MemberResponse(
            member_id=leaver.member_id, group_instance_id=leaver.instance_id, error_code=error
        )
        for leaver, error in zip(leavers, result.errors, strict=True)
    ]
    return LeaveGroupResponse(members=members)
