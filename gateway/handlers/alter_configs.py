"""AlterConfigs (key 33): what is not named is unset. The active controller does it, or this server refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.controller_requests import ask_controller

if TYPE_CHECKING:
    from gateway.handlers.context import Context, Later
    from kwire.message import Message
    from kwire.messages.alter_configs_request import AlterConfigsRequest

API_KEY: Final = 33
VERSIONS: Final = range(3)


def handle(request: AlterConfigsRequest, context: Context) -> Message | Later:
    """A result for each resource."""
    return ask_controller(request, context)
