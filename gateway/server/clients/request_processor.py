"""Handles the requests of one connection: at most one is in flight, and responses keep their order.

As in Kafka's ``Processor``, a request behind one that waits for its response is handled after that
response, so no response is older than the ones before it. Requests that are there together are
handled together, up to a limit, and their responses are queued to be sent together. It neither
reads nor sends: ``connection`` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import trio

from gateway.ports.pending_response import NoResponse, PendingResponse
from gateway.server.clients.answer_completer import LATER, AnswerCompleter, streamed_if_long
from gateway.server.clients.connection_state import Event, State
from gateway.server.clients.dispatch import DECODED_FACTOR, encode_answer
from gateway.server.clients.response_scheduler import EncodedResponse
from gateway.server.clients.throttling import throttled
from gateway.server.scheduling.loop_watchdog import NOTED_S

if TYPE_CHECKING:
    from gateway.ports.pending_response import Answer
    from gateway.server.clients.client_identity import ClientIdentity
    from gateway.server.clients.connection_state import ConnectionState
    from gateway.server.clients.dispatch import InFlightRequest
    from gateway.server.clients.output import Output
    from gateway.server.clients.server_context import ServerContext
    from gateway.server.scheduling.counts import ApiCounts
    from kwire.frame import FrameSplitter
    from kwire.message import Message

#: After so many requests, or so many seconds, other connections run.
_REQUESTS_MAX: Final = 64
_TURN_S: Final = 0.005


class ConnectionCallbacks(Protocol):
    """The methods of a connection that its processor calls, or other tasks through it: those of
    ``Receiver``, and one more.
    """

    def deliver(self, response: Message | EncodedResponse | NoResponse) -> None:
        """The pending response is complete. Must call :meth:`RequestProcessor.complete`."""

    def failed(self, error: Exception) -> None:
        """The handler raised ``error`` while it completed the pending response, or, as Malformed,
        the request turned out to be invalid.
        """

    def cut(self, reason: str) -> None:
        """Close the connection; ``reason`` is the key of a limit, or a few words."""

    def proved(self) -> None:
        """The client is proven from now on."""


class RequestProcessor:
    """Takes frames from ``splitter``, adds responses to ``output`` and tells ``state``.

    It keeps no reference to the connection, which would be a cycle for the garbage collector.
    """

    __slots__ = (
        "_asked_at",
        "_in_flight",
        "_output",
        "_pending",
        "_server_context",
        "_splitter",
        "_state",
        "frame_began",
        "identity",
        "kept",
        "muted_until",
    )

    def __init__(
        self,
        server_context: ServerContext,
        identity: ClientIdentity,
        state: ConnectionState,
        splitter: FrameSplitter,
        output: Output,
    ) -> None:
        self.identity = identity
        #: When the first bytes of an unfinished request came, on the loop's clock; None: none did.
        self.frame_began: float | None = None
        #: Bytes of memory that the request in flight takes.
        self.kept = 0
        #: No request is handled before this moment, on the loop's clock; 0.0: any time.
        self.muted_until = 0.0
        self._server_context = server_context
        self._state = state
        self._splitter = splitter
        self._output = output
        # Both are set while a response is pending.
        self._in_flight: InFlightRequest | None = None
        self._pending: AnswerCompleter | None = None
        self._asked_at = 0.0

    def in_flight_fields(self) -> dict[str, Any]:
        """The fields of a log event that identify the pending request; empty without one."""
        return self._in_flight.fields() if self._in_flight is not None else {}

    def handle_requests(self, connection: ConnectionCallbacks) -> bool:
        """Handle whole requests until one is pending, much output is queued, or the turn is over.

        True if more whole requests may be there. Raises DecodeError, Malformed and Refusal for a
        request that closes the connection, and whatever a handler raises.
        """
        if not self._state.takes_requests:
            return False
        began = trio.current_time()
        try:
            return self._handle_until(began, began + _TURN_S, connection)
        finally:
            if self._state.now is State.HANDLING:
                self._state.on(Event.HANDLED)
            self._server_context.turns.spent(trio.current_time() - began)

    def complete(self, response: Message | EncodedResponse | NoResponse) -> bool:
        """Queue the response of the pending request. True if it is for the caller to send it.

        False while the handler still runs: the connection sends when it has returned. Raises
        EncodeError and FileTooShort.
        """
        in_flight, self._in_flight = self._in_flight, None
        assert in_flight is not None, "a response without a request"
        self._pending = None
        self.kept = 0
        is_handling = self._state.now is State.HANDLING
        if not is_handling:
            self._state.on(Event.COMPLETED)
        counts = self._server_context.counts.apis[in_flight.api_key]
        counts.waited(trio.current_time() - self._asked_at)
        if in_flight.quota is not None:
            response = self._throttled(in_flight, response)
        if isinstance(response, NoResponse):
            return not is_handling
        if isinstance(response, EncodedResponse):
            counts.errors.update(response.errors)
        else:
            counts.answered(response)
        self._output.add(encode_answer(in_flight, response))
        return not is_handling

    def cancel(self) -> None:
        """Give up the pending response, if there is one: the connection is closed."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.cancel()

    def _handle_until(self, now: float, ends_at: float, connection: ConnectionCallbacks) -> bool:
        splitter = self._splitter
        for _ in range(_REQUESTS_MAX):
            frame = splitter.next_buffer()
            if frame is None:
                self.frame_began = (self.frame_began or now) if splitter.buffered else None
                return False
            self.frame_began = None
            now = self._handle(frame, now, connection)
            if self._state.now is not State.HANDLING or self.muted_until:
                return False
            if self._output.unsent >= self._server_context.config.output_buffer_max_bytes:
                return False
            if now > ends_at:
                break
        return True

    def _handle(
        self, frame: bytes | bytearray, now: float, connection: ConnectionCallbacks
    ) -> float:
        """Handle one request at ``now``. Returns the time at its end."""
        server_context, identity = self._server_context, self.identity
        self._state.on(Event.REQUEST)
        in_flight, answer = server_context.dispatcher.handle(
            frame, identity.peer, now, identity.sasl
        )
        # A proven client without SASL tells nothing more of itself, except its software.
        is_known = identity.is_proven and identity.sasl is None and in_flight.software is None
        if not is_known:
            if identity.learn(in_flight, answer):
                connection.proved()
            self._splitter.limit = identity.frame_limit()
        counts = server_context.counts.apis[in_flight.api_key]
        self._respond(in_flight, answer, now, counts, connection)
        if self._pending is not None:
            if self._pending.keeps_request:
                self.kept = in_flight.memory or DECODED_FACTOR * len(frame)
            self._state.on(Event.DEFERRED)
        ended = trio.current_time()
        if in_flight.quota is not None:
            in_flight.quota.paused()
        counts.run_sliced(ended - now)
        if ended - now >= NOTED_S:
            server_context.watchdog.took(ended - now, {**identity.fields(), **in_flight.fields()})
        # A request that wants no response and fails has none: the client only learns of it if the
        # connection closes. The response to a failed authentication is the last one.
        if answer is None or (not is_known and identity.has_failed):
            self._state.on(Event.DRAIN)
        elif not is_known and identity.is_unproven_for_too_long:
            connection.cut("requests without authentication")
        return ended

    def _respond(
        self,
        in_flight: InFlightRequest,
        answer: Answer,
        now: float,
        counts: ApiCounts,
        connection: ConnectionCallbacks,
    ) -> None:
        """Queue a response, or have one completed that takes longer."""
        reports = self._server_context.reports
        if reports.tracing:
            reports.trace(
                "request",
                **self.identity.fields(),
                **in_flight.fields(),
                waits=isinstance(answer, LATER),
                **(in_flight.notes or {}),
            )
        if isinstance(answer, PendingResponse):
            # Most requests to the group coordinator are answered at once: they need no deadline.
            ready = answer.take()
            if ready is not None:
                answer = streamed_if_long(in_flight, ready)
        if isinstance(answer, LATER):
            self._asked_at = now
            self._in_flight = in_flight
            self._pending = AnswerCompleter(self._server_context, in_flight, connection)
            self._pending.complete(answer)
        elif answer is not None:
            response = answer if in_flight.quota is None else self._throttled(in_flight, answer)
            if not isinstance(response, NoResponse):
                counts.answered(response)
                self._output.add(encode_answer(in_flight, response))

    def _throttled(self, in_flight: InFlightRequest, response: Any) -> Any:
        """Count the request in its client's quotas, and mute the connection if one is exceeded."""
        assert in_flight.quota is not None, "the caller has looked"
        response = throttled(in_flight, response)
        if in_flight.quota.throttle_ms:
            self.muted_until = trio.current_time() + in_flight.quota.throttle_ms / 1000
        return response
