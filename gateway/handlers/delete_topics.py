"""DeleteTopics (key 20): the active controller deletes them, by name or by id, or this server refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.controller_requests import ask_controller

if TYPE_CHECKING:
    from gateway.handlers.context import Context, Later
    from kwire.message import Message
    from kwire.messages.delete_topics_request import DeleteTopicsRequest

API_KEY: Final = 20
VERSIONS: Final = range(1, 7)


def handle(request: DeleteTopicsRequest, context: Context) -> Message | Later:
    """A result for each topic."""
    return ask_controller(request, context, request.timeout_ms)
