"""JoinGroup (key 11): makes a client a member of a consumer group.

The response waits until the next generation of the group begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.groups.events import JoinGroup, JoinResult, Protocol
from gateway.handlers.access import Operation
from gateway.handlers.group_requests import ask, may_on_group, owner_of
from kwire.messages.join_group_request import JoinGroupRequest
from kwire.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from gateway.ports.pending_response import PendingResponse

API_KEY: Final = ApiKey.JOIN_GROUP
VERSIONS: Final = range(10)

#: The first version in which a new member gets its id, and joins again with it (KIP-394).
_FIRST_REQUIRING_MEMBER_ID: Final = 4
#: The first version with null instead of an empty string for no protocol (KIP-559).
_FIRST_WITH_NULL_PROTOCOL: Final = 7
#: The first version in which a static leader that returns is told not to assign (KIP-814).
_FIRST_SKIPPING_ASSIGNMENT: Final = 9


def handle(request: JoinGroupRequest, context: Context) -> JoinGroupResponse | PendingResponse:
    """Send the member to the coordinator."""
    if not may_on_group(context, Operation.READ, request.group_id):
        return JoinGroupResponse(
            error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED,
            member_id=request.member_id,
            protocol_name=_protocol_name(None, context.version),
        )
    return ask(context, _event(request, context), lambda result: _respond(result, context.version))


def _event(request: JoinGroupRequest, context: Context) -> JoinGroup:
    rebalance_ms = request.rebalance_timeout_ms
    if rebalance_ms < 0:  # version 0 has no such field, and -1 is its default
        rebalance_ms = request.session_timeout_ms
    # Each protocol once, as a member has one vote. The first metadata counts, as in Kafka.
    protocols = {protocol.name: protocol.metadata for protocol in reversed(request.protocols)}
    names = dict.fromkeys(protocol.name for protocol in request.protocols)
    return JoinGroup(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=context.client_id or "",
        client_host=f"/{context.peer.host}",  # as Java prints an address without a name
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=rebalance_ms,
        protocol_type=request.protocol_type,
        protocols=tuple(Protocol(name, bytes(protocols[name])) for name in names),
        member_id_required=context.version >= _FIRST_REQUIRING_MEMBER_ID,
        can_skip_assignment=context.version >= _FIRST_SKIPPING_ASSIGNMENT,
        owner=owner_of(context),
    )


def _respond(result: JoinResult, version: int) -> JoinGroupResponse:
    members = [
        JoinGroupResponseMember(
            member_id=m.member_id, group_instance_id=m.instance_id, metadata=m.metadata
        )
        for m in result.members
    ]
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name=_protocol_name(result.protocol_name, version),
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=members,
    )


def _protocol_name(name: str | None, version: int) -> str | None:
    return name if version >= _FIRST_WITH_NULL_PROTOCOL else name or ""
