"""CreateAcls (key 30): the active controller writes them, where an authorizer goes by them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.acls import change_acls

if TYPE_CHECKING:
    from gateway.handlers.context import Context, Later
    from kwire.message import Message
    from kwire.messages.create_acls_request import CreateAclsRequest

API_KEY: Final = 30
VERSIONS: Final = range(1, 4)


def handle(request: CreateAclsRequest, context: Context) -> Message | Later:
    """A result for each ACL."""
    return change_acls(request, context)
