"""IncrementalAlterConfigs (key 44): set, unset, extend. The active controller does it, or this server refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.controller_requests import ask_controller

if TYPE_CHECKING:
    from gateway.handlers.context import Context, Later
    from kwire.message import Message
    from kwire.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest

API_KEY: Final = 44
VERSIONS: Final = range(2)


def handle(request: IncrementalAlterConfigsRequest, context: Context) -> Message | Later:
    """A result for each resource."""
    return ask_controller(request, context)
