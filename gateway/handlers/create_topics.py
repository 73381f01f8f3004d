"""CreateTopics (key 19): the active controller creates them, or this server refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.controller_requests import ask_controller

if TYPE_CHECKING:
    from gateway.handlers.context import Context, Later
    from kwire.message import Message
    from kwire.messages.create_topics_request import CreateTopicsRequest

API_KEY: Final = 19
VERSIONS: Final = range(2, 8)


def handle(request: CreateTopicsRequest, context: Context) -> Message | Later:
    """A result for each topic."""
    return ask_controller(request, context, request.timeout_ms)
