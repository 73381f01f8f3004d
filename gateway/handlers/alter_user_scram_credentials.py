"""AlterUserScramCredentials (key 51): the active controller writes them, or this server refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.controller_requests import ask_controller

if TYPE_CHECKING:
    from gateway.handlers.context import Context, Later
    from kwire.message import Message
    from kwire.messages.alter_user_scram_credentials_request import AlterUserScramCredentialsRequest

API_KEY: Final = 51
VERSIONS: Final = range(1)


def handle(request: AlterUserScramCredentialsRequest, context: Context) -> Message | Later:
    """A result for each user."""
    return ask_controller(request, context)
