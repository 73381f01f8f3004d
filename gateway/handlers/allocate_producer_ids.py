"""AllocateProducerIds (key 67): a broker of Kafka gets ids for its producers. On controller listeners only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.controller_requests import ask_controller

if TYPE_CHECKING:
    from gateway.handlers.context import Context, Later
    from kwire.message import Message
    from kwire.messages.allocate_producer_ids_request import AllocateProducerIdsRequest

API_KEY: Final = 67
VERSIONS: Final = range(1)


def handle(request: AllocateProducerIdsRequest, context: Context) -> Message | Later:
    """A block of ids."""
    return ask_controller(request, context)
