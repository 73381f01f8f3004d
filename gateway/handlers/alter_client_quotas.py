"""AlterClientQuotas (key 49): the active controller writes them, or this server refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.controller_requests import ask_controller

if TYPE_CHECKING:
    from gateway.handlers.context import Context, Later
    from kwire.message import Message
    from kwire.messages.alter_client_quotas_request import AlterClientQuotasRequest

API_KEY: Final = 49
VERSIONS: Final = range(2)


def handle(request: AlterClientQuotasRequest, context: Context) -> Message | Later:
    """A result for each entity."""
    return ask_controller(request, context)
