"""DeleteAcls (key 31): the active controller removes what the filters find, where an authorizer goes by ACLs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.acls import change_acls

if TYPE_CHECKING:
    from gateway.handlers.context import Context, Later
    from kwire.message import Message
    from kwire.messages.delete_acls_request import DeleteAclsRequest

API_KEY: Final = 31
VERSIONS: Final = range(1, 4)


def handle(request: DeleteAclsRequest, context: Context) -> Message | Later:
    """A result for each filter, with the ACLs that it found."""
    return change_acls(request, context)
