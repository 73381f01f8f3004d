"""Serves one connection: reads frames, has them handled, and sends the responses in order.

One task serves a connection. It tries the socket first and waits only if it must; a response that
another task completes is sent by that task, if it is short. ``connection_state`` has the states and
their transitions, ``request_processor`` handles requests, ``client_identity`` knows the client.
Kafka's counterpart is ``KafkaChannel`` with a ``Processor``.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import trio

from gateway.base.sizes import KIB, MIB
from gateway.server.clients.client_identity import ClientIdentity
from gateway.server.clients.connection_state import ConnectionState, Event, State
from gateway.server.clients.dispatch import Malformed, Refusal
from gateway.server.clients.output import FileTooShort, Output
from gateway.server.clients.request_processor import RequestProcessor
from gateway.server.clients.secure_socket import (
    SecureOutput,
    SecureSocket,
    end_failed_handshake,
    handshake_step,
)
from gateway.server.logging.logs import ERROR_MAX, escape
from gateway.server.scheduling.loop_pass_budget import SMALL_MAX
from kwire.errors import DecodeError
from kwire.frame import FrameSplitter

if TYPE_CHECKING:
    from gateway.handlers.context import Peer
    from gateway.ports.pending_response import NoResponse
    from gateway.server.clients.listener_auth import ListenerAuth
    from gateway.server.clients.response_scheduler import EncodedResponse
    from gateway.server.clients.server_context import ServerContext
    from kwire.message import Message

#: Bytes of one call of recv: twice as many after one that was full, so that the requests of a busy
#: client are handled together. A frame that is known to be larger is read in larger pieces.
_RECEIVE_MIN: Final = 64 * KIB
_RECEIVE_MAX: Final = MIB
_BUSY_MAX: Final = 256 * KIB
#: A connection lets the others run after so many turns without having to wait.
_TURNS_MAX: Final = 16
#: No connection is cut for holding so little, bytes.
_HELD_FREE: Final = 64 * KIB
#: The reason of a cut where the peer had gone when its response was to be sent.
_GONE: Final = "peer gone"
#: The reason for which idle connections are cut. Clients open new ones by themselves.
_IDLE: Final = "connections.max.idle.ms"


class _HandshakeFailed(Exception):
    """The TLS handshake failed; the text is OpenSSL's."""


class Connection:
    """One connection. ``run`` is its task; every other method is called on the event loop."""

    __slots__ = (
        "_cut_reason",
        "_gate",
        "_held",
        "_identity",
        "_is_node",
        "_listener_auth",
        "_on_proof",
        "_output",
        "_processor",
        "_receive_size",
        "_server_context",
        "_sock",
        "_splitter",
        "_state",
        "accepted_at",
        "moved_at",
    )

    def __init__(
        self,
        sock: socket.socket,
        peer: Peer,
        server_context: ServerContext,
        on_proof: Callable[[Connection], None],
    ) -> None:
        """``sock`` is connected and does not block; the connection closes it.

        ``on_proof`` is called once, when the client is proven (see ``client_identity``).
        """
        self._server_context = server_context
        self._sock: socket.socket | SecureSocket = sock
        self._state = ConnectionState()
        # Nodes of the quorum do not wait for their turn: an election would follow.
        self._is_node = peer.listener in server_context.config.controller_listener_names
        self._listener_auth = server_context.listener_auths.get(peer.listener)
        sasl = None if self._listener_auth is None else self._listener_auth.session()
        self._identity = ClientIdentity(peer, server_context, sasl)
        # Before a first valid request the peer may not speak Kafka's protocol at all.
        self._splitter = FrameSplitter(server_context.config.first_request_max_bytes)
        self._receive_size = _RECEIVE_MIN
        self._use_output(Output(sock))
        self._cut_reason: str | None = None
        self._gate: trio.Event | None = None
        self._held = 0  # this connection's share of Memory.held
        self._on_proof = on_proof
        self.accepted_at: Final = trio.current_time()
        self.moved_at = self.accepted_at  # when bytes last went in or out

    @property
    def peer(self) -> Peer:
        """The client's address and principal."""
        return self._identity.peer

    async def run(self) -> None:
        """Serve the peer to the end. Every failure ends this connection only."""
        try:
            if self._listener_auth is not None and self._listener_auth.tls is not None:
                await self._secure(self._listener_auth, self._listener_auth.tls)
            if self._state.now is State.HANDSHAKE:
                self._state.on(Event.SECURED)
            await self._serve()
        except DecodeError as error:
            self._bad_request(error, {})
        except Malformed as malformed:
            self._bad_request(malformed.error, malformed.fields)
        except Refusal as refusal:
            self._send_responses_before_failure()
            self._identity.report_refusal(refusal)
        except FileTooShort as error:
            self._identity.report("response truncated", error=str(error))
        except _HandshakeFailed as error:
            self._identity.report("handshake failed", error=escape(str(error), limit=ERROR_MAX))
            await end_failed_handshake(self._sock)
        except OSError as error:
            self._identity.report("peer disconnected", error=str(error))
        except Exception as error:
            self._identity.report_bug(error, self._processor.in_flight_fields())
        finally:
            self._close()

    def cut(self, reason: str) -> None:
        """Close the connection now; unsent responses are lost."""
        self._cut_reason = reason
        self._state.on(Event.CUT)
        self._wake()

    def drain(self) -> None:
        """Handle no further request; close when the responses under way are sent."""
        self._state.on(Event.DRAIN)
        self._wake()

    def overdue(self, now: float) -> str | None:
        """The key of the time limit that has passed at ``now``; None if none has."""
        config, quiet_ms = self._server_context.config, (now - self.moved_at) * 1000
        age_ms = (now - self.accepted_at) * 1000
        if not self._identity.is_proven and age_ms > config.first_request_timeout_ms:
            return "first.request.timeout.ms"
        if self._output and quiet_ms > config.response_send_timeout_ms:
            return "response.send.timeout.ms"
        is_handshake = self._state.now is State.HANDSHAKE
        began = self.accepted_at if is_handshake else self._processor.frame_began
        if began is not None and (now - began) * 1000 > config.request_receive_timeout_ms:
            return "request.receive.timeout.ms"
        if quiet_ms > config.connections_max_idle_ms:
            return _IDLE
        return None

    def proved(self) -> None:
        """The client is proven from now on (``ConnectionCallbacks``)."""
        self._on_proof(self)

    def deliver(self, response: Message | EncodedResponse | NoResponse) -> None:
        """Queue and send the pending response (``ConnectionCallbacks``). Never raises: the task
        that completes it calls this, while this connection's task may sleep.
        """
        try:
            if self._processor.complete(response):
                self._send_completed()
        except FileTooShort as error:
            self._identity.report("response truncated", error=str(error))
            self.cut("answer cut short")
        except OSError as error:
            self.cut(_GONE)
            self._identity.report("peer disconnected", error=str(error))
        except Exception as error:
            self.failed(error)

    def failed(self, error: Exception) -> None:
        """Report a bad request or a bug that another task met, and close
        (``ConnectionCallbacks``).
        """
        if isinstance(error, Malformed):
            self._report_bad_request(error.error, error.fields)
            self.cut("bad request")
            return
        self._identity.report_bug(error, self._processor.in_flight_fields())
        self.cut("internal error")

    # Handshake.

    async def _secure(self, listener_auth: ListenerAuth, context: ssl.SSLContext) -> None:
        """Do the TLS handshake; a client certificate gives the peer its principal."""
        assert isinstance(self._sock, socket.socket)
        secured = self._sock = SecureSocket(self._sock, context)
        try:
            while (
                self._state.now is State.HANDSHAKE
                and (wait := await handshake_step(secured, self._server_context.turns)) is not None
            ):
                await self._wait(wait)
            if self._state.now is State.HANDSHAKE:
                principal = listener_auth.principal(secured.certificate)
                self._identity.peer = replace(self.peer, principal=principal)
        except (OSError, ValueError) as error:
            reason = secured.foreign or getattr(error, "reason", None) or str(error)
            raise _HandshakeFailed(reason) from None
        self._use_output(SecureOutput(secured))  # type: ignore[arg-type]

    def _use_output(self, output: Output) -> None:
        self._output = output
        self._processor = RequestProcessor(
            self._server_context, self._identity, self._state, self._splitter, output
        )

    # The task.

    async def _serve(self) -> None:
        turns = 0
        while self._state.now is not State.CUT:
            if self._processor.muted_until and self._state.now is State.READY:
                await self._wait_while_muted()
            await self._wait_for_turn_to_handle()
            more = self._processor.handle_requests(self)
            if self._output or self._state.now is State.SENDING:
                await self._wait_for_turn_to_send()
                if not self._send():
                    await self._wait(trio.lowlevel.wait_writable)
                    continue
                more = more or (self._state.now is State.READY and self._splitter.buffered > 0)
            self._count_memory()
            if self._state.now in (State.DRAINING, State.CUT):
                return
            turns += 1
            if more or turns % _TURNS_MAX == 0:
                await trio.lowlevel.checkpoint()
                continue  # another task may have completed the pending response meanwhile
            read_ahead_max = self._server_context.config.read_ahead_max_bytes
            if self._state.is_awaiting_response and self._splitter.buffered >= read_ahead_max:
                await self._wait_for_response()
            elif not await self._receive():
                return

    async def _wait_for_turn_to_handle(self) -> None:
        """Return at once if few bytes are to be handled, else in a pass of the event loop that has
        time for them.
        """
        if (
            self._server_context.turns.is_full
            and self._state.now is State.READY
            and self._splitter.buffered > SMALL_MAX
            and not self._is_node
        ):
            await self._server_context.turns.wait()

    async def _wait_for_turn_to_send(self) -> None:
        """Return at once if few bytes are to be sent, else in a pass of the event loop that has
        time for them.

        Sending 2 MiB takes 1 to 2 ms, and a response that 50 connections asked for is complete for
        all of them in the same pass.
        """
        if self._server_context.turns.is_full and self._has_much_to_send():
            await self._server_context.turns.wait()

    def _has_much_to_send(self) -> bool:
        return self._output.is_longer_than(SMALL_MAX) and not self._is_node

    # Reading.

    async def _receive(self) -> bool:
        """Receive once, waiting if there is nothing; False at the end of the stream."""
        try:
            return self._receive_now()
        except BlockingIOError:
            await self._wait(trio.lowlevel.wait_readable)
        # Something else than the socket may have ended the wait: the loop looks at that first.
        if self._output or self._state.now not in (State.READY, State.PENDING):
            return True
        try:
            return self._receive_now()
        except BlockingIOError:
            return True

    def _receive_now(self) -> bool:
        """Receive without waiting; False at the end of the stream. Raises BlockingIOError."""
        if self._state.is_awaiting_response:
            data = self._sock.recv(_RECEIVE_MIN)
        else:
            size = min(max(self._splitter.missing(), self._receive_size), _RECEIVE_MAX)
            data = self._sock.recv(size)
            self._receive_size = min(2 * size, _BUSY_MAX) if len(data) == size else _RECEIVE_MIN
        self.moved_at = trio.current_time()
        self._server_context.counts.received += len(data)
        self._splitter.feed(data)
        return bool(data)

    # Sending.

    def _send(self) -> bool:
        """Send what the socket takes now; True if nothing is left."""
        before, began = self._output.progress, trio.current_time()
        try:
            is_done = self._output.send()
        finally:
            if self._output.progress != before:
                self._server_context.counts.sent += self._output.progress - before
                self.moved_at = trio.current_time()
                self._server_context.turns.spent(self.moved_at - began)
            self._count_memory()
        if is_done:
            self._state.on(Event.SENT)
        return is_done

    def _send_completed(self) -> None:
        """Send the response that another task completed, or leave that to this connection's task.

        A long one is left: the connection's task takes turns with the others.
        """
        is_done = not self._has_much_to_send() and self._send()
        if (
            not is_done
            or self._splitter.buffered
            or self._gate is not None
            or self._state.now is not State.READY
        ):
            self._wake()

    def _send_responses_before_failure(self) -> None:
        """Send the responses to the requests before a bad one, as far as the socket takes them."""
        self._state.on(Event.DRAIN)
        with contextlib.suppress(OSError):
            self._send()

    def _bad_request(self, error: DecodeError, fields: dict[str, Any]) -> None:
        self._send_responses_before_failure()
        self._report_bad_request(error, fields)

    def _report_bad_request(self, error: DecodeError, fields: dict[str, Any]) -> None:
        text = escape(str(error), limit=ERROR_MAX)
        self._identity.report("bad request", rule=error.rule, error=text, **fields)

    def _count_memory(self) -> None:
        """Count what this connection holds; beyond the common limit one that holds much is cut."""
        output, memory = self._output, self._server_context.memory
        held = self._splitter.buffered + output.unsent + self._processor.kept
        # Bytes that connections share are counted once for all of them, where they are made.
        own = held - min(output.shared, output.unsent)
        memory.held += own - self._held
        self._held = own
        if held > _HELD_FREE and memory.held > self._server_context.config.buffers_max_bytes:
            self._cut_reason = "buffers.max.bytes"
            self._state.on(Event.CUT)

    # Waiting, and the end.

    async def _wait(self, wait: Callable[[Any], Awaitable[None]]) -> None:
        """Wait for the socket; :meth:`_wake` ends it, too.

        notify_closing is cheaper than a cancel scope for every wait.
        """
        if self._state.now is not State.CUT:
            with contextlib.suppress(trio.ClosedResourceError):
                await wait(self._sock)

    async def _wait_while_muted(self) -> None:
        """Wait for the throttle time that the last response has named (KIP-219), or for the end of
        the connection.
        """
        while self._state.now is State.READY:
            if trio.current_time() >= self._processor.muted_until:
                self._processor.muted_until = 0.0
                return
            with trio.move_on_at(self._processor.muted_until):
                await self._wait_for_response()

    async def _wait_for_response(self) -> None:
        self._gate = trio.Event()
        try:
            await self._gate.wait()
        finally:
            self._gate = None

    def _wake(self) -> None:
        if self._gate is not None:
            self._gate.set()
        elif self._sock.fileno() >= 0:
            trio.lowlevel.notify_closing(self._sock)

    def _close(self) -> None:
        self._state.on(Event.CLOSE)
        self._processor.cancel()
        self._output.discard()
        self._server_context.memory.held -= self._held
        if self._sock.fileno() >= 0:
            trio.lowlevel.notify_closing(self._sock)
            self._sock.close()
        if self._cut_reason is not None:
            self._server_context.counts.cuts[self._cut_reason] += 1
            if self._cut_reason != _GONE:  # deliver() has reported that, with the error
                event = "idle connection closed" if self._cut_reason == _IDLE else "connection cut"
                self._identity.report(event, error=self._cut_reason)
        self._identity.name_software(None)
