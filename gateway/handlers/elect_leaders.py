"""ElectLeaders (key 43): the active controller elects, or this server refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.controller_requests import ask_controller
from gateway.handlers.refusals import REASON, REFUSED

if TYPE_CHECKING:
    from gateway.handlers.context import Context, Later
    from kwire.message import Message
    from kwire.messages.elect_leaders_request import ElectLeadersRequest

API_KEY: Final = 43
VERSIONS: Final = range(3)
#: In this version errors stand at the partitions, and only there is room for a reason.
_WITH_REASONS: Final = 0


def handle(request: ElectLeadersRequest, context: Context) -> Message | Later:
    """A result for each partition."""
    if context.gateway.controller is None:
        from gateway.controller.refusals import refused  # answers of APIs that most servers are never asked

        return refused(request, _WITH_REASONS, REFUSED, REASON)
    return ask_controller(request, context, request.timeout_ms)
