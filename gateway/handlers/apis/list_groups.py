"""ListGroups (key 16): returns the groups, filtered by state (KIP-518) and type (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.base.java.text import trim
from gateway.groups.events import ListGroups, ListGroupsResult
from gateway.handlers.access import Operation, may_on_cluster
from gateway.handlers.group_requests import ask, may_on_group
from gateway.ports.streamed import respond
from kwire.messages.list_groups_request import ListGroupsRequest
from kwire.messages.list_groups_response import ListedGroup, ListGroupsResponse
from kwire.protocol import ApiKey

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from gateway.ports.pending_response import PendingResponse
    from gateway.ports.streamed import Streamed
    from kwire.message import Message

API_KEY: Final = ApiKey.LIST_GROUPS
VERSIONS: Final = range(6)


def handle(request: ListGroupsRequest, context: Context) -> ListGroupsResponse | PendingResponse:
    """Return every group; without DESCRIBE on the cluster those that the client may describe."""
    types = frozenset(trim(name).lower() for name in request.types_filter)
    states = frozenset(trim(name).lower() for name in request.states_filter)
    return ask(context, ListGroups(states, types), lambda result: _respond(result, context))


def _respond(result: ListGroupsResult, context: Context) -> Message | Streamed:
    sees_all = may_on_cluster(context, Operation.DESCRIBE)
    groups = (
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type,
            group_state=group.state,
            group_type=group.type,
        )
        if sees_all or may_on_group(context, Operation.DESCRIBE, group.group_id)
        else None
        for group in result.groups
    )
    return respond(
        ListGroupsResponse(error_code=result.error), "groups", groups, len(result.groups)
    )
