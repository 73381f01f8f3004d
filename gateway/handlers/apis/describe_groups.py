"""DescribeGroups (key 15): returns state, protocol and members of groups.

A group that does not exist is an error from version 6 on (KIP-1043), and in state Dead before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.base.error_text import error_text
from gateway.groups import events as group_events
from gateway.handlers.access import NOT_ASKED, Operation
from gateway.handlers.group_requests import ask, group_operations, may_on_group
from gateway.ports.pending_response import Work
from gateway.ports.streamed import Streamed, filled, respond, stream_long
from gateway.ports.work import in_slices
from kwire.messages.describe_groups_request import DescribeGroupsRequest
from kwire.messages.describe_groups_response import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gateway.handlers.context import Context
    from kwire.message import Message

API_KEY: Final = ApiKey.DESCRIBE_GROUPS
VERSIONS: Final = range(7)

_FIRST_WITH_NOT_FOUND: Final = 6


def handle(request: DescribeGroupsRequest, context: Context) -> Any:
    """Ask the coordinator for the groups that the client may describe."""
    # Each name once: a small request that repeats a name must not cause a large response.
    wanted = tuple(dict.fromkeys(request.groups))
    work = _ask(wanted, request.include_authorized_operations, context)
    return in_slices(work, len(wanted))


def _ask(wanted: tuple[str, ...], with_operations: bool, context: Context) -> Work:
    refused, allowed = [], []
    for group_id in wanted:
        if may_on_group(context, Operation.DESCRIBE, group_id):
            allowed.append(group_id)
        else:
            error = ErrorCode.GROUP_AUTHORIZATION_FAILED
            refused.append(DescribedGroup(group_id=group_id, error_code=error))
        yield None
    if not allowed:
        return stream_long(DescribeGroupsResponse(groups=refused))
    return ask(
        context,
        group_events.DescribeGroups(tuple(allowed)),
        lambda result: _respond(refused, result.groups, with_operations, context),
    )


def _respond(
    refused: list[DescribedGroup],
    found: Sequence[group_events.DescribedGroup],
    with_operations: bool,
    context: Context,
) -> Message | Streamed:
    def elements() -> Iterator[DescribedGroup | Streamed]:
        yield from refused
        for group in found:
            yield _group(group, with_operations, context)

    size = len(refused) + sum(1 + len(group.members) for group in found)
    return respond(DescribeGroupsResponse(), "groups", elements(), size)


def _group(
    group: group_events.DescribedGroup, with_operations: bool, context: Context
) -> DescribedGroup | Streamed:
    error, message = group.error, None
    if error is ErrorCode.GROUP_ID_NOT_FOUND:
        if context.version < _FIRST_WITH_NOT_FOUND:
            error = ErrorCode.NONE  # the state is Dead
        else:
            message = None if group.message is None else error_text(group.message)
    asked = with_operations and error is ErrorCode.NONE
    described = DescribedGroup(
        error_code=error,
        error_message=message,
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        authorized_operations=group_operations(context, group.group_id) if asked else NOT_ASKED,
    )
    return filled(described, "members", map(_member, group.members))


def _member(member: group_events.DescribedMember) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata,
        member_assignment=member.assignment,
    )
