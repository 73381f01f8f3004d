"""ControllerRegistration (key 70): a node of the quorum tells its addresses. On controller listeners only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.controller_requests import ask_controller

if TYPE_CHECKING:
    from gateway.handlers.context import Context, Later
    from kwire.message import Message
    from kwire.messages.controller_registration_request import ControllerRegistrationRequest

API_KEY: Final = 70
VERSIONS: Final = range(1)


def handle(request: ControllerRegistrationRequest, context: Context) -> Message | Later:
    """Done, or why not."""
    return ask_controller(request, context)
