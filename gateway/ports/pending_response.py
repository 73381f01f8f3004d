"""Defines the answers of handlers: among them a response that is not ready yet, and how its
connection gets it, and the work that leads to an answer (``gateway.ports.work``).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

if TYPE_CHECKING:
    #: The class of all generators. For each request the server asks whether its answer is one, and
    #: the abstract ``Generator`` takes three times as long to tell.
    WorkType = Generator
    from gateway.ports.streamed import Streamed
    from kwire.message import Message
else:
    WorkType = GeneratorType


class NoResponse:
    """The answer to a request that wants no response, and has none: Produce with acks=0."""


NO_RESPONSE: Final = NoResponse()
#: The work of a handler; its result is what other handlers return.
Work = Generator["Callable[[], Any] | None", Any, "Answer"]
#: The answer of a handler: a response, one that is not ready, one that is long, or the work that
#: leads to an answer. None: the request wants no response, and failed.
Answer: TypeAlias = "Message | PendingResponse | Streamed | Work | NoResponse | None"


class Advancing(Protocol):
    """A partition that a response waits for, or several as one. It is compared by identity."""

    def on_advance(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback`` on the event loop whenever it advances; return the unsubscriber."""
        ...


class PendingResponse:
    """A response that is not ready (Kafka: ``DelayedOperation``). Its holder calls :meth:`complete`
    once; later calls are ignored.

    ``ready`` returns the response, or None while there is none. The server asks it again whenever
    one of ``partitions`` advances. If ``deadline`` (seconds on the clock of ``Context.now``, or
    None) passes first, the server completes the response with ``expire()``. ``cancelled`` becomes
    true when the connection closes: its holder may drop it then. ``keeps_request``: the decoded
    request stays in memory until the response, so the connection counts its bytes.
    """

    __slots__ = (
        "_deliver",
        "_failed",
        "_response",
        "cancelled",
        "deadline",
        "done",
        "expire",
        "keeps_request",
        "on_cancel",
        "partitions",
        "ready",
    )

    def __init__(
        self,
        *,
        deadline: float | None = None,
        expire: Callable[[], Answer] | None = None,
        ready: Callable[[], Answer] | None = None,
        partitions: tuple[Advancing, ...] = (),
        keeps_request: bool = True,
    ) -> None:
        self.keeps_request = keeps_request
        self.deadline = deadline
        self.expire = expire
        self.ready = ready
        self.partitions = partitions
        self.done = False
        self.cancelled = False
        self.on_cancel: Callable[[], None] | None = None
        self._response: Answer = None
        self._deliver: Callable[[Any], None] | None = None
        self._failed: Callable[[Exception], None] | None = None

    def complete(self, response: Answer) -> None:
        """Deliver the response: call the connection's callback before this returns."""
        if self.done or self.cancelled:
            return
        self.done = True
        deliver = self._deliver
        self._release()
        if deliver is None:
            self._response = response
        else:
            deliver(response)

    def try_complete(self) -> None:
        """Complete this with the response of ``ready``, if there is one now."""
        self._complete_with(self.ready)

    def try_expire(self) -> None:
        """Complete this with the response of ``expire``, if it has one: its time is over."""
        self._complete_with(self.expire)

    def _complete_with(self, answer: Callable[[], Answer] | None) -> None:
        if answer is None:
            return
        try:
            response = answer()
        except Exception as error:  # a bug of a handler costs its connection, not the server
            self.ready = self.expire = None
            if self._failed is None:
                raise
            self._failed(error)
            return
        if response is not None:
            self.complete(response)

    def take(self) -> Answer:
        """For the connection: the response, if it is complete before :meth:`attach`."""
        response, self._response = self._response, None
        return response

    def attach(
        self, deliver: Callable[[Any], None], failed: Callable[[Exception], None] | None = None
    ) -> None:
        """For the connection: call ``deliver`` with the response, at once if it is ready; or
        ``failed`` with an exception that ``ready`` or ``expire`` raises.
        """
        if self._response is not None:
            response, self._response = self._response, None
            deliver(response)
        elif not self.done:
            self._deliver, self._failed = deliver, failed

    def cancel(self) -> None:
        """For the connection: it has closed, and needs no response."""
        if not self.done and not self.cancelled:
            self.cancelled = True
            on_cancel = self.on_cancel
            self._release()
            if on_cancel is not None:
                on_cancel()

    def _release(self) -> None:
        """Drop the references to the request and the connection: the heap of deadlines keeps this
        object until its deadline.
        """
        self.ready = self.expire = self.on_cancel = self._deliver = self._failed = None
        self.partitions = ()
