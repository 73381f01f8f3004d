"""UpdateFeatures (key 57): the active controller finalizes the levels of features, or this server refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.controller_requests import ask_controller

if TYPE_CHECKING:
    from gateway.handlers.context import Context, Later
    from kwire.message import Message
    from kwire.messages.update_features_request import UpdateFeaturesRequest

API_KEY: Final = 57
VERSIONS: Final = range(3)


def handle(request: UpdateFeaturesRequest, context: Context) -> Message | Later:
    """All of it done, or why not."""
    return ask_controller(request, context, request.timeout_ms)
