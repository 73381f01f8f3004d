"""BrokerHeartbeat (key 63): a broker of Kafka is there, and wants to be something else. On controller listeners only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.controller_requests import ask_controller

if TYPE_CHECKING:
    from gateway.handlers.context import Context, Later
    from kwire.message import Message
    from kwire.messages.broker_heartbeat_request import BrokerHeartbeatRequest

API_KEY: Final = 63
VERSIONS: Final = range(3)
#: Half of what a broker lets pass between two of them (``broker.heartbeat.interval.ms``), ms: then it asks again.
_TIMEOUT_MS: Final = 1_000


def handle(request: BrokerHeartbeatRequest, context: Context) -> Message | Later:
    """What it is from now on."""
    return ask_controller(request, context, _TIMEOUT_MS)
