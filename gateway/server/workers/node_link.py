"""Is, in a worker, the way to the node: forwards requests, and catches up with the node's log.

One question to the node is in flight at a time; those that come meanwhile share the next one. So a
worker asks at most once for each round trip, as a Raft leader does for linearizable reads
(ReadIndex).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from gateway.handlers.apis.controller_requests import HANDLERS
from gateway.ports.pending_response import PendingResponse
from gateway.server.clients.output import SharedBytes
from gateway.server.clients.response_scheduler import EncodedResponse
from gateway.server.workers.messages import Cancel, Request, Response, Synced, SyncRequest
from kwire.header import peek

if TYPE_CHECKING:
    from gateway.handlers.context import Peer

#: Takes a callback, and calls it at once or later.
When = Callable[[Callable[[], None]], None]
#: Requests after which the image has something new.
_CHANGES: Final = frozenset(handler.api_key for handler in HANDLERS)


class NodeGone(Exception):
    """The node could not carry out a request; the connection of its client is closed."""


class NodeLink:
    """``gateway.handlers.worker_table.Node``. ``send`` sends a message to the node.

    ``when_caught_up(callback)`` calls ``callback`` when this process serves the last state that the
    node sent, ``when_applied(callback)`` when the image has those records, too.
    """

    def __init__(
        self, send: Callable[[Any], None], when_caught_up: When, when_applied: When
    ) -> None:
        self._send = send
        self._when_caught_up = when_caught_up
        self._when_applied = when_applied
        self._numbers = itertools.count(1)
        self._pending: dict[int, PendingResponse] = {}
        self._changes: set[int] = set()  # numbers of the requests that change the cluster
        self._asked: list[Callable[[], None]] = []  # those whose question is in flight
        self._next: list[Callable[[], None]] = []  # those that wait for the next question

    def forward(self, frame: bytes, peer: Peer) -> PendingResponse:
        """As in ``gateway.handlers.worker_table.Node``."""
        number = next(self._numbers)
        pending = PendingResponse()

        def cancel() -> None:
            self._changes.discard(number)
            if self._pending.pop(number, None) is not None:
                self._send(Cancel(number))

        pending.on_cancel = cancel
        self._pending[number] = pending
        if peek(frame)[0] in _CHANGES:
            self._changes.add(number)
        self._send(Request(number, peer, frame))
        return pending

    def catch_up(self, callback: Callable[[], None]) -> None:
        """As in ``gateway.handlers.worker_table.Node``."""
        self._next.append(callback)
        if not self._asked:
            self._ask()

    def responded(self, response: Response) -> None:
        """Give the node's response to the client."""
        pending = self._pending.pop(response.number, None)
        if pending is None:
            return  # the client has disconnected
        if response.body is None:
            pending.complete(_Undecodable())  # type: ignore[arg-type]
            return
        body = SharedBytes([response.body], lambda: None)
        encoded = EncodedResponse(body, response.errors)
        complete: Any = pending.complete
        if response.number in self._changes:
            # The client may ask next for what it has changed.
            self._changes.discard(response.number)
            self._when_applied(lambda: complete(encoded))
        else:
            complete(encoded)

    def told(self, told: Synced) -> None:
        """The node has answered the question; its state is known."""
        asked, self._asked = self._asked, []

        def caught_up() -> None:
            for callback in asked:
                callback()

        self._when_caught_up(caught_up)
        if self._next:
            self._ask()

    def _ask(self) -> None:
        self._asked, self._next = self._next, []
        self._send(SyncRequest(next(self._numbers)))


class _Undecodable(EncodedResponse):
    """Closes the connection of its client, as the node could not answer."""

    __slots__ = ()

    def __init__(self) -> None:
        self.errors = Counter()

    def encode_parts(self, version: int) -> list[Any]:
        """Raise NodeGone."""
        raise NodeGone("the node failed to answer; its log says why")
