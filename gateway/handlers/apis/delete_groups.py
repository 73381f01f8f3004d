"""DeleteGroups (key 42): deletes groups without members, with all their offsets (KIP-229)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.groups.events import DeleteGroups, DeleteGroupsResult
from gateway.handlers.access import Operation
from gateway.handlers.group_requests import ask, may_on_group
from gateway.ports.pending_response import Work
from gateway.ports.streamed import Streamed, respond
from gateway.ports.work import in_slices
from kwire.messages.delete_groups_request import DeleteGroupsRequest
from kwire.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from kwire.message import Message

API_KEY: Final = ApiKey.DELETE_GROUPS
VERSIONS: Final = range(4)

_MESSAGES: Final[dict[int, str]] = {
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
    ErrorCode.GROUP_ID_NOT_FOUND: "The group id does not exist.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Not authorized to delete the group.",
}


def handle(request: DeleteGroupsRequest, context: Context) -> Any:
    """Send the groups that the client may delete to the coordinator, each once."""
    return in_slices(_ask(request, context), len(request.groups_names))


def _ask(request: DeleteGroupsRequest, context: Context) -> Work:
    errors: dict[str, int] = {}
    for group_id in request.groups_names:
        errors[group_id] = (
            ErrorCode.NONE
            if may_on_group(context, Operation.DELETE, group_id)
            else ErrorCode.GROUP_AUTHORIZATION_FAILED
        )
        yield None
    allowed = tuple(group_id for group_id, error in errors.items() if error == ErrorCode.NONE)
    if not allowed:
        return _respond(errors)
    return ask(
        context, DeleteGroups(allowed), lambda result: _respond(errors | _by_group(allowed, result))
    )


def _by_group(group_ids: tuple[str, ...], result: DeleteGroupsResult) -> dict[str, Any]:
    return dict(zip(group_ids, result.errors, strict=True))


def _respond(errors: dict[str, int]) -> Message | Streamed:
    results = (
        DeletableGroupResult(
            group_id=group_id, error_code=error, error_message=_MESSAGES.get(error)
        )
        for group_id, error in errors.items()
    )
    return respond(DeleteGroupsResponse(), "results", results, len(errors))
