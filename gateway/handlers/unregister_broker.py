"""UnregisterBroker (key 64): the active controller forgets a broker that is gone for good, or this server refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.controller_requests import ask_controller

if TYPE_CHECKING:
    from gateway.handlers.context import Context, Later
    from kwire.message import Message
    from kwire.messages.unregister_broker_request import UnregisterBrokerRequest

API_KEY: Final = 64
VERSIONS: Final = range(1)


def handle(request: UnregisterBrokerRequest, context: Context) -> Message | Later:
    """Done, or why not."""
    return ask_controller(request, context)
