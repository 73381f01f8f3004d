"""ElectLeaders (key 43): the active controller elects, or this server refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.controller_requests import ask_controller

if TYPE_CHECKING:
    from gateway.handlers.context import Context, Later
    from kwire.message import Message
    from kwire.messages.elect_leaders_request import ElectLeadersRequest

API_KEY: Final = 43
VERSIONS: Final = range(3)


def handle(request: ElectLeadersRequest, context: Context) -> Message | Later:
    """A result for each partition."""
    return ask_controller(request, context, request.timeout_ms)
