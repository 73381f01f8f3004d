"""AlterPartition (key 56): a leader tells who is in sync. On controller listeners only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.controller_requests import ask_controller

if TYPE_CHECKING:
    from gateway.handlers.context import Context, Later
    from kwire.message import Message
    from kwire.messages.alter_partition_request import AlterPartitionRequest

API_KEY: Final = 56
VERSIONS: Final = range(2, 4)


def handle(request: AlterPartitionRequest, context: Context) -> Message | Later:
    """Each partition as it is then, or why it is not."""
    return ask_controller(request, context)
