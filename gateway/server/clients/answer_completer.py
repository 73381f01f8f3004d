"""Completes the answer of a handler, whatever its form: at once, when a condition holds, or in
slices.

A pending response waits in the purgatory, a long one is encoded by the response scheduler, and work
is continued by the work scheduler; what comes of it is an answer again. It knows neither
connections nor workers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from gateway.ports.pending_response import NoResponse, PendingResponse, WorkType
from gateway.ports.streamed import Streamed, stream_long
from gateway.server.clients.response_scheduler import EncodedResponse, Waiter
from gateway.server.scheduling.work_scheduler import Job
from kwire.protocol import ApiKey

if TYPE_CHECKING:
    from gateway.ports.pending_response import Answer
    from gateway.server.clients.dispatch import InFlightRequest
    from gateway.server.clients.server_context import ServerContext
    from kwire.message import Message

#: Forms of an answer that take more than one step.
LATER: Final = (PendingResponse, Streamed, WorkType)
#: Responses that hold ranges of files, which only Output may take apart.
_WITH_RECORDS: Final = frozenset({ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT})


class Receiver(Protocol):
    """Gets the response of a request: one call of one method, unless the answer is cancelled."""

    def deliver(self, response: Message | EncodedResponse | NoResponse) -> None:
        """The response is complete, or the request has none."""

    def failed(self, error: Exception) -> None:
        """The handler, or what completed its answer, raised ``error``."""

    def cut(self, reason: str) -> None:
        """The connection has to be closed; ``reason`` is the key of a limit."""


class AnswerCompleter:
    """Completes the answer of one request for ``receiver``."""

    __slots__ = ("_context", "_in_flight", "_pending", "_receiver")

    def __init__(
        self, context: ServerContext, in_flight: InFlightRequest, receiver: Receiver
    ) -> None:
        self._context = context
        self._in_flight = in_flight
        self._receiver = receiver
        self._pending: PendingResponse | None = None

    @property
    def keeps_request(self) -> bool:
        """Whether the decoded request stays in memory until the response."""
        return self._pending is None or self._pending.keeps_request

    def complete(self, answer: Answer | EncodedResponse) -> None:
        """Deliver ``answer`` now or later. May raise what ``receiver`` raises."""
        if isinstance(answer, EncodedResponse):
            self._receiver.deliver(answer)
            return
        answer = streamed_if_long(self._in_flight, answer)
        if isinstance(answer, PendingResponse):
            self._wait_for(answer)
        elif isinstance(answer, WorkType):
            self._work_on(answer)
        elif isinstance(answer, Streamed):
            self._encode(answer)
        elif answer is None:
            self._receiver.cut("a request without a response failed")
        else:
            self._receiver.deliver(answer)

    def cancel(self) -> None:
        """Give the answer up: no client waits for it any more."""
        pending = self._forget()
        if pending is not None:
            pending.cancel()

    def _wait_for(self, pending: PendingResponse) -> None:
        self._pending = pending
        self._context.purgatory.watch(pending)
        pending.attach(self._continue, self._failed)

    def _work_on(self, work: Any) -> None:
        """Have the work of a handler completed by the work scheduler, in slices."""
        pending = PendingResponse()
        in_flight = self._in_flight
        job = Job(work, in_flight.api_key, in_flight.version, pending.complete, self._failed)
        pending.on_cancel = job.cancel
        if in_flight.quota is not None:
            job.spent = in_flight.quota.spent
        self._wait_for(pending)
        self._context.work.submit(job)

    def _encode(self, streamed: Streamed) -> None:
        """Have a long response encoded by the response scheduler, in slices."""
        pending = PendingResponse()
        complete: Any = pending.complete
        waiter = Waiter(complete, self._failed, self._too_large)
        pending.on_cancel = waiter.cancel
        self._wait_for(pending)
        in_flight = self._in_flight
        self._context.responses.submit(streamed, in_flight.api_key, in_flight.version, waiter)

    def _continue(self, answer: Answer | EncodedResponse) -> None:
        self._forget()
        try:
            self.complete(answer)
        except Exception as error:  # must not reach the task that completes the response
            self._receiver.failed(error)

    def _failed(self, error: Exception) -> None:
        self._forget()
        self._receiver.failed(error)

    def _too_large(self) -> None:
        self._forget()
        self._receiver.cut("buffers.max.bytes")

    def _forget(self) -> PendingResponse | None:
        pending, self._pending = self._pending, None
        if pending is not None:
            self._context.purgatory.forget(pending)
        return pending


def streamed_if_long(in_flight: InFlightRequest, answer: Answer) -> Answer:
    """Return ``answer``, streamed if it is a long response whose handler did not know how long it
    is: a later event completed it.
    """
    if (
        isinstance(answer, (*LATER, NoResponse))
        or answer is None
        or in_flight.api_key in _WITH_RECORDS
    ):
        return answer
    return stream_long(answer)
