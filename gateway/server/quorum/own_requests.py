"""Sends requests of this node itself to the active controller, at this node or another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

from gateway.ports.pending_response import PendingResponse

if TYPE_CHECKING:
    from gateway.ports.services import Controllers, Requester
    from kwire.message import Message


class OwnRequests:
    """Requests of ``requester``, which is this node; a response is waited for ``timeout_s``."""

    def __init__(self, controllers: Controllers, requester: Requester, timeout_s: float) -> None:
        self._controllers = controllers
        self._requester = requester
        self._timeout_s = timeout_s

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
        with trio.move_on_after(self._timeout_s):
            await completed.wait()
        pending.cancel()
        return responses[0] if responses else None
