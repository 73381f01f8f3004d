"""What the handlers of ACLs share: whether there are any to speak of, and what is said where there are not.

ACLs that nobody goes by are not kept: who makes one believes that it holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.catalog import cluster_image
from gateway.handlers.controller_requests import ask_controller
from gateway.handlers.errors import ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context, Later
    from kwire.cluster.image import Image
    from kwire.message import Message

NO_AUTHORIZER: Final = "No authorizer is configured here (authorizer.class.name), so ACLs would have no effect."


def change_acls(request: Message, context: Context) -> Message | Later:
    """Have the active controller do it. SECURITY_DISABLED without an authorizer; refused where the log is written by others."""
    from gateway.controller.refusals import refused  # answers of APIs that most servers are never asked

    if context.gateway.controller is not None and not context.gateway.authorizer.keeps_acls:
        return refused(request, context.version, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    return ask_controller(request, context)


def acls_in_force(context: Context) -> Image | None:
    """The image whose ACLs are those of the cluster, as far as it is committed; None where nobody goes by any, or knows them."""
    gateway = context.gateway
    if gateway.controller is not None and not gateway.authorizer.keeps_acls:
        return None
    return cluster_image(context)
