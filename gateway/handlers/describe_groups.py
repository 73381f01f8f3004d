"""DescribeGroups: state, protocol and members of groups. One that is not there is an error from version 6 on (KIP-1043)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.groups import Error
from gateway.groups import events as group_events
from gateway.handlers.access import NOT_ASKED, Operation
from gateway.handlers.errors import ErrorCode
from gateway.handlers.group_requests import ask, group_operations, may_on_group
from kwire.messages.describe_groups_request import DescribeGroupsRequest
from kwire.messages.describe_groups_response import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse

if TYPE_CHECKING:
    from gateway.handlers.context import Context, Later

API_KEY: Final = 15
VERSIONS: Final = range(7)

_FIRST_WITH_NOT_FOUND: Final = 6


def handle(request: DescribeGroupsRequest, context: Context) -> DescribeGroupsResponse | Later:
    """Put the groups that may be described to the coordinator."""
    wanted = tuple(dict.fromkeys(request.groups))  # a name a thousand times must not be a thousand descriptions
    refused = [
        DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for group_id in wanted
        if not may_on_group(context, Operation.DESCRIBE, group_id)
    ]
    names = {group.group_id for group in refused}
    allowed = tuple(group_id for group_id in wanted if group_id not in names)
    if not allowed:
        return DescribeGroupsResponse(groups=refused)
    with_operations = request.include_authorized_operations
    return ask(
        context,
        group_events.DescribeGroups(allowed),
        lambda result: DescribeGroupsResponse(
            groups=refused + [_group(group, with_operations, context) for group in result.groups]
        ),
    )


def _group(group: group_events.DescribedGroup, with_operations: bool, context: Context) -> DescribedGroup:
    error, message = group.error, None
    if error is Error.GROUP_ID_NOT_FOUND:
        if context.version < _FIRST_WITH_NOT_FOUND:
            error = Error.NONE  # its state, Dead, says it
        else:
            message = f"Group {group.group_id} not found."
    asked = with_operations and error is Error.NONE
    return DescribedGroup(
        error_code=error,
        error_message=message,
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        members=[_member(member) for member in group.members],
        authorized_operations=group_operations(context, group.group_id) if asked else NOT_ASKED,
    )


def _member(member: group_events.DescribedMember) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata,
        member_assignment=member.assignment,
    )
