"""Handles, on the node, the requests that workers forward, and sends the responses back.

A worker has decoded the request already and authenticated its client, so the request is handled as
that client's: with its principal, its address and its listener. Compare the Envelope of KIP-590,
which needs a principal of its own that may forward. Counts of requests are the worker's.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import trio

from gateway.ports.answer_errors import count_errors
from gateway.ports.pending_response import NoResponse
from gateway.server.clients.answer_completer import AnswerCompleter
from gateway.server.clients.output import SharedBytes
from gateway.server.clients.response_scheduler import EncodedResponse
from gateway.server.workers.messages import Request, Response

if TYPE_CHECKING:
    from gateway.server.clients.server_context import ServerContext
    from kwire.message import Message


class ForwardedRequests:
    """The requests of one worker that are not answered; ``send`` sends a message to it."""

    def __init__(self, context: ServerContext, send: Callable[[Any], None]) -> None:
        self._context = context
        self._send = send
        self._unanswered: dict[int, AnswerCompleter] = {}  # by number of the request

    def __len__(self) -> int:
        return len(self._unanswered)

    def handle(self, request: Request) -> None:
        """Handle a request; its response is sent now or later."""
        began = time.perf_counter()
        receiver = _Receiver(self, request.number)
        try:
            in_flight, answer = self._context.dispatcher.handle(
                request.frame, request.peer, trio.current_time()
            )
            receiver.version = in_flight.version
            completer = AnswerCompleter(self._context, in_flight, receiver)
            self._unanswered[request.number] = completer
            completer.complete(answer)
        except Exception as error:
            # The worker has decoded these bytes with the same code: whatever fails is a bug.
            receiver.failed(error)
        else:
            counts = self._context.counts.apis[in_flight.api_key]
            counts.seconds += time.perf_counter() - began

    def cancel(self, number: int) -> None:
        """The client has disconnected; the response of its request is not needed any more."""
        completer = self._unanswered.pop(number, None)
        if completer is not None:
            completer.cancel()

    def cancel_all(self) -> None:
        """The worker has ended."""
        for number in list(self._unanswered):
            self.cancel(number)

    def respond(self, response: Response) -> None:
        """Send a response; without a body the worker closes the client's connection."""
        self._unanswered.pop(response.number, None)
        self._send(response)

    def report(self, error: Exception) -> None:
        """Report a bug."""
        self._context.reports.bug("internal error", error)


class _Receiver:
    """Sends the response of one request to the worker."""

    __slots__ = ("_number", "_requests", "version")

    def __init__(self, requests: ForwardedRequests, number: int) -> None:
        self._requests = requests
        self._number = number
        self.version = 0

    def deliver(self, response: Message | EncodedResponse | NoResponse) -> None:
        """As in ``Receiver``."""
        assert not isinstance(response, NoResponse), "a worker forwards no Produce"
        if isinstance(response, EncodedResponse):
            errors = response.errors
        else:
            errors = Counter()
            count_errors(response, errors)
        body = b"".join(_flat(response.encode_parts(self.version)))
        self._requests.respond(Response(self._number, body, errors))

    def failed(self, error: Exception) -> None:
        """As in ``Receiver``."""
        self._requests.report(error)
        self._requests.respond(Response(self._number, None, Counter()))

    def cut(self, reason: str) -> None:
        """As in ``Receiver``."""
        self._requests.respond(Response(self._number, None, Counter()))


def _flat(parts: list[Any]) -> list[Any]:
    """Return the parts as bytes-like objects."""
    return [
        chunk
        for part in parts
        for chunk in (part.chunks if isinstance(part, SharedBytes) else (part,))
    ]
