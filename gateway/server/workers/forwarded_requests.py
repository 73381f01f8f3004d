"""Handles, on the node, the requests that workers forward, and sends the responses back.

A worker has decoded the request already and authenticated its client, so the request is handled as
that client's: with its principal, its address and its listener. Compare the Envelope of KIP-590,
which needs a principal of its own that may forward. Counts of requests are the worker's.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from gateway.handlers.answer_errors import count_errors
from gateway.handlers.pending_response import PendingResponse
from gateway.handlers.work import WorkType
from gateway.server.clients.dispatch import Malformed, Refusal
from gateway.server.clients.output import SharedBytes
from gateway.server.response_scheduler import EncodedResponse, Waiter
from gateway.server.work_scheduler import Job
from gateway.server.workers.messages import Request, Response
from gateway.streamed import Streamed, stream_long
from kwire.errors import DecodeError

if TYPE_CHECKING:
    from gateway.handlers.work import Work
    from gateway.server.clients.dispatch import InFlightRequest
    from gateway.server.server_context import ServerContext
    from kwire.message import Message


class ForwardedRequests:
    """The requests of one worker that are not answered; ``send`` sends a message to it."""

    def __init__(self, context: ServerContext, send: Callable[[Any], None]) -> None:
        self._context = context
        self._send = send
        self._cancel: dict[int, Callable[[], None]] = {}  # by number of the request

    def __len__(self) -> int:
        return len(self._cancel)

    def handle(self, request: Request) -> None:
        """Handle a request; its response is sent now or later."""
        began = time.perf_counter()
        try:
            in_flight, answer = self._context.dispatcher.handle(
                request.frame, request.peer, trio.current_time()
            )
            self._continue(request.number, in_flight, answer)
        except (DecodeError, Malformed, Refusal, Exception) as error:
            # The worker has decoded these bytes with the same code: whatever fails is a bug.
            self._failed(request.number, error)
        else:
            counts = self._context.counts.apis[in_flight.api_key]
            counts.seconds += time.perf_counter() - began

    def cancel(self, number: int) -> None:
        """The client has disconnected; the response of its request is not needed any more."""
        cancel = self._cancel.pop(number, None)
        if cancel is not None:
            cancel()

    def cancel_all(self) -> None:
        """The worker has ended."""
        for number in list(self._cancel):
            self.cancel(number)

    def _continue(self, number: int, in_flight: InFlightRequest, answer: Any) -> None:
        """Send the answer, or have it completed by the server's schedulers."""
        if isinstance(answer, PendingResponse):
            self._wait_for(number, in_flight, answer)
        elif isinstance(answer, WorkType):
            self._work_on(number, in_flight, answer)
        elif answer is None:
            self._failed(number, AssertionError("a forwarded request without a response"))
        elif isinstance(answer, EncodedResponse):
            self._respond(number, in_flight, answer, answer.errors)
        else:
            response = answer if isinstance(answer, Streamed) else stream_long(answer)
            if isinstance(response, Streamed):
                self._stream(number, in_flight, response)
            else:
                errors: Counter[int] = Counter()
                count_errors(response, errors)
                self._respond(number, in_flight, response, errors)

    def _wait_for(self, number: int, in_flight: InFlightRequest, pending: PendingResponse) -> None:
        purgatory = self._context.purgatory

        def failed(error: Exception) -> None:
            purgatory.forget(pending)
            self._failed(number, error)

        def completed(response: Any) -> None:
            purgatory.forget(pending)
            self._cancel.pop(number, None)
            try:
                self._continue(number, in_flight, response)
            except Exception as error:  # must not reach the task that completes the response
                self._failed(number, error)

        def cancel() -> None:
            purgatory.forget(pending)
            pending.cancel()

        self._cancel[number] = cancel
        purgatory.watch(pending)
        pending.attach(completed, failed)

    def _stream(self, number: int, in_flight: InFlightRequest, streamed: Streamed) -> None:
        waiter = Waiter(
            partial(self._streamed, number, in_flight),
            partial(self._failed, number),
            partial(self._give_up, number),
        )
        self._cancel[number] = waiter.cancel
        self._context.responses.submit(streamed, in_flight.api_key, in_flight.version, waiter)

    def _streamed(self, number: int, in_flight: InFlightRequest, response: EncodedResponse) -> None:
        self._respond(number, in_flight, response, response.errors)

    def _work_on(self, number: int, in_flight: InFlightRequest, work: Work) -> None:
        job = Job(
            work,
            in_flight.api_key,
            in_flight.version,
            partial(self._continue, number, in_flight),
            partial(self._failed, number),
        )
        self._cancel[number] = job.cancel
        self._context.work.submit(job)

    def _respond(
        self,
        number: int,
        in_flight: InFlightRequest,
        response: Message | EncodedResponse,
        errors: Counter[int],
    ) -> None:
        self._cancel.pop(number, None)
        body = b"".join(_flat(response.encode_parts(in_flight.version)))
        self._send(Response(number, body, errors))

    def _failed(self, number: int, error: Exception) -> None:
        self._context.reports.bug("internal error", error)
        self._give_up(number)

    def _give_up(self, number: int) -> None:
        """Have the client's connection closed."""
        self._cancel.pop(number, None)
        self._send(Response(number, None, Counter()))


def _flat(parts: list[Any]) -> list[Any]:
    """Return the parts as bytes-like objects."""
    return [
        chunk
        for part in parts
        for chunk in (part.chunks if isinstance(part, SharedBytes) else (part,))
    ]
