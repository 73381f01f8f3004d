"""CreatePartitions (key 37): the active controller adds them, or this server refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.controller_requests import ask_controller

if TYPE_CHECKING:
    from gateway.handlers.context import Context, Later
    from kwire.message import Message
    from kwire.messages.create_partitions_request import CreatePartitionsRequest

API_KEY: Final = 37
VERSIONS: Final = range(4)


def handle(request: CreatePartitionsRequest, context: Context) -> Message | Later:
    """A result for each topic."""
    return ask_controller(request, context, request.timeout_ms)
