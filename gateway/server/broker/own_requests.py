"""Sends requests of this node's broker to the active controller, at this node or another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import trio

from gateway.ports.pending_response import PendingResponse

if TYPE_CHECKING:
    from gateway.ports.services import Controllers, Requester
    from kwire.message import Message

#: How long a response is waited for, s (``request.timeout.ms`` of a broker is 30 s).
_RESPONSE_S: Final = 10.0


class OwnRequests:
    """Requests of ``requester``, which is this node."""

    def __init__(self, controllers: Controllers, requester: Requester) -> None:
        self._controllers = controllers
        self._requester = requester

    async def send(self, request: Message, version: int) -> Any:
        """Return the response, None if it did not come in time."""
        completed = trio.Event()
        responses: list[Any] = []

        def take(response: Any) -> None:
            responses.append(response)
            completed.set()

        pending = PendingResponse()
        self._controllers.submit(request, version, self._requester, pending)
        pending.attach(take)
        with trio.move_on_after(_RESPONSE_S):
            await completed.wait()
        pending.cancel()
        return responses[0] if responses else None
