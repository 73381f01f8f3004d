"""AssignReplicasToDirs (key 73): a broker tells in which directories replicas are. On controller listeners only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.controller_requests import ask_controller

if TYPE_CHECKING:
    from gateway.handlers.context import Context, Later
    from kwire.message import Message
    from kwire.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest

API_KEY: Final = 73
VERSIONS: Final = range(1)


def handle(request: AssignReplicasToDirsRequest, context: Context) -> Message | Later:
    """Done, or why not, for each replica."""
    return ask_controller(request, context)
