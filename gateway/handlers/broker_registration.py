"""BrokerRegistration (key 62): a broker of Kafka joins the cluster. On controller listeners only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.controller_requests import ask_controller

if TYPE_CHECKING:
    from gateway.handlers.context import Context, Later
    from kwire.message import Message
    from kwire.messages.broker_registration_request import BrokerRegistrationRequest

API_KEY: Final = 62
VERSIONS: Final = range(5)


def handle(request: BrokerRegistrationRequest, context: Context) -> Message | Later:
    """The epoch that it has from now on, or why it may not."""
    return ask_controller(request, context)
