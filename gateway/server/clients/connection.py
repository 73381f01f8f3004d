"""One connection: frames in, answers out, in order. One task, which tries the socket first and
waits only if it must.

As in Kafka a connection has one request in flight: what is pipelined behind one that waits is read
ahead only so far and carried out when its turn comes, so answers are in order and never older than
the answers before them. Answers that are there together go out together.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import trio

from gateway.handlers.context import PendingResponse
from gateway.handlers.streamed import Streamed, stream_long
from gateway.server.clients.dispatch import Malformed, Refusal, encode_answer
from gateway.server.clients.output import FileTooShort, Output
from gateway.server.clients.secure_socket import SecureOutput, SecureSocket
from gateway.server.logs import ERROR_MAX, escape
from gateway.server.loop_watchdog import NOTED_S
from gateway.server.response_scheduler import EncodedResponse, Waiter
from gateway.server.turns import SMALL_MAX
from kwire.errors import DecodeError
from kwire.frame import FrameSplitter
from kwire.header import API_VERSIONS
from kwire.protocol import ApiKey

if TYPE_CHECKING:
    from gateway.handlers.context import Peer
    from gateway.security.sasl_session import SaslSession
    from gateway.server.clients.dispatch import InFlightRequest
    from gateway.server.clients.listener_auth import ListenerAuth
    from gateway.server.counts import ApiCounts
    from gateway.server.server_context import ServerContext
    from kwire.message import Message

#: One call of recv; a frame that is known to be larger is read in larger pieces.
_RECEIVE_MIN: Final = 64 * 1024
_RECEIVE_MAX: Final = 1024 * 1024
#: A connection lets the others run after so many requests, or so long, s, or so many turns without
#: having to wait.
_REQUESTS_MAX: Final = 64
_TURN_S: Final = 0.005
_TURNS_MAX: Final = 16
#: Requests before a peer has authenticated, or sent a valid one: the longest exchange of SCRAM
#: takes four.
UNPROVEN_REQUESTS_MAX: Final = 20
#: Bytes of memory for one of a request, decoded: arrays of numbers and of small structs take so
#: many.
DECODED_FACTOR: Final = 8
#: Nobody is cut for holding so little, bytes.
_HELD_FREE: Final = 64 * 1024
#: Why a connection is cut whose peer was gone when its answer came.
_GONE: Final = "peer gone"
#: Why idle connections are cut. Clients open new ones by themselves, all day long.
_IDLE: Final = "connections.max.idle.ms"


#: Responses that hold ranges of files, which only Output may take apart.
_WITH_RECORDS: Final = frozenset({ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT})


class _NotSecured(Exception):
    """The peer and we have no TLS in common; the text is OpenSSL's."""


class Connection:
    """Talks with one peer until either side has enough. ``run`` is its task; every other method is
    called on the loop.
    """

    __slots__ = (
        "_asked_at",
        "_cut",
        "_draining",
        "_frame_began",
        "_gate",
        "_held",
        "_in_flight",
        "_is_node",
        "_kept",
        "_listener_auth",
        "_on_proof",
        "_output",
        "_pending",
        "_requests_unproven",
        "_running",
        "_sasl",
        "_server_context",
        "_sock",
        "_splitter",
        "accepted_at",
        "is_proven",
        "moved_at",
        "peer",
        "software",
    )

    def __init__(
        self,
        sock: socket.socket,
        peer: Peer,
        server_context: ServerContext,
        on_proof: Callable[[Connection], None],
    ) -> None:
        """``sock`` is connected and does not block; the connection closes it.

        ``on_proof`` is called once, when the peer has authenticated, or sent a valid request where
        that is all there is.
        """
        self.peer = peer
        self.software: str | None = None
        self._server_context = server_context
        self._sock: socket.socket | SecureSocket = sock
        # Raft has to be heard whatever clients do, or there is an election.
        self._is_node = peer.listener in server_context.config.controller_listener_names
        self._listener_auth = server_context.listener_auths.get(peer.listener)
        self._sasl = None if self._listener_auth is None else self._listener_auth.session()
        # Until a first request was valid nobody knows that this is Kafka's protocol at all.
        self._splitter = FrameSplitter(server_context.config.first_request_max_bytes)
        self._output = Output(sock)
        self._in_flight: InFlightRequest | None = None  # whose answer is not there yet
        self._pending: PendingResponse | None = None
        self._asked_at = 0.0  # when the request came that it answers
        self._running = (
            False  # in the middle of carrying out requests: answers are sent when that is done
        )
        self._draining = False
        self._cut: str | None = None
        self._gate: trio.Event | None = None
        self._held = 0  # our share of Hub.memory
        self._kept = 0  # bytes of the request that waits for its answer
        self.accepted_at: Final = trio.current_time()
        self.moved_at = self.accepted_at  # when bytes last went in or out
        self.is_proven = False
        self._on_proof = on_proof
        self._requests_unproven = 0
        self._frame_began: float | None = None

    async def run(self) -> None:
        """Serve the peer to the end. Whatever goes wrong ends this connection only."""
        try:
            if self._listener_auth is not None and self._listener_auth.tls is not None:
                await self._secure(self._listener_auth, self._listener_auth.tls)
            await self._converse()
        except DecodeError as error:
            self._bad_request(error, {})
        except Malformed as bad:
            self._bad_request(bad.error, bad.fields)
        except Refusal as refusal:
            self._send_what_is_ready()
            who = (
                self.software,
                refusal.rule,
                refusal.fields.get("api"),
                refusal.fields.get("api_key"),
            )
            fields = {
                **self._who(),
                **refusal.fields,
                "software": self.software,
                "error": refusal.rule,
            }
            self._server_context.reports.report_once("unsupported request", who, **fields)
        except FileTooShort as error:
            self._report("response truncated", error=str(error))
        except _NotSecured as error:
            self._report("handshake failed", error=escape(str(error), limit=ERROR_MAX))
        except OSError as error:
            self._report("peer disconnected", error=str(error))
        except Exception as error:
            self._bug(error)
        finally:
            self._close()

    def cut(self, reason: str) -> None:
        """End it now, unsent answers and all."""
        self._cut = reason
        self._wake()

    def drain(self) -> None:
        """Take no more requests; end when the answers under way are sent."""
        self._draining = True
        self._wake()

    def overdue(self, now: float) -> str | None:
        """The limit of time, by its key, that has passed at ``now``; None if none has."""
        config, quiet_ms = self._server_context.config, (now - self.moved_at) * 1000
        if not self.is_proven and (now - self.accepted_at) * 1000 > config.first_request_timeout_ms:
            return "first.request.timeout.ms"
        if self._output and quiet_ms > config.response_send_timeout_ms:
            return "response.send.timeout.ms"
        if (
            self._frame_began is not None
            and (now - self._frame_began) * 1000 > config.request_receive_timeout_ms
        ):
            return "request.receive.timeout.ms"
        if quiet_ms > config.connections_max_idle_ms:
            return "connections.max.idle.ms"
        return None

    async def _secure(self, listener_auth: ListenerAuth, context: ssl.SSLContext) -> None:
        """The TLS handshake; a client certificate says who the peer is."""
        assert isinstance(self._sock, socket.socket)
        self._frame_began = trio.current_time()
        try:
            secured = self._sock = SecureSocket(self._sock, context)
            while (
                self._cut is None
                and not self._draining
                and (wait := await self._shake_hands(secured)) is not None
            ):
                await self._wait(wait)
            if self._cut is None and not self._draining:
                self.peer = replace(
                    self.peer, principal=listener_auth.principal(secured.certificate)
                )
        except (OSError, ValueError) as error:
            raise _NotSecured(getattr(error, "reason", None) or str(error)) from None
        self._output = SecureOutput(secured)  # type: ignore[arg-type]
        self._frame_began = None

    async def _shake_hands(self, secured: SecureSocket) -> Callable[[Any], Awaitable[None]] | None:
        """One step of the handshake, in turn: a signature takes up to some ms, and anybody may ask
        for one.
        """
        turns = self._server_context.turns
        if turns.is_full:
            await turns.wait()
        began = trio.current_time()
        try:
            return secured.shake_hands()
        finally:
            turns.spent(trio.current_time() - began)

    async def _converse(self) -> None:
        turns = 0
        while self._cut is None:
            if (
                self._server_context.turns.is_full
                and self._pending is None
                and self._splitter.buffered > SMALL_MAX
                and not self._is_node
            ):
                await self._server_context.turns.wait()
            more = self._carry_out()
            if self._output:
                await self._wait_for_turn_to_send()
                if not self._send():
                    await self._wait(trio.lowlevel.wait_writable)
                    continue
                more = more or (self._pending is None and self._splitter.buffered > 0)
            self._account()
            if (self._draining and self._pending is None) or self._cut is not None:
                return
            turns += 1
            if more or turns % _TURNS_MAX == 0:
                await trio.lowlevel.checkpoint()
                if more:
                    continue
            if (
                self._pending is not None
                and self._splitter.buffered >= self._server_context.config.read_ahead_max_bytes
            ):
                await self._wait_for_answer()
            elif not await self._receive():
                return

    async def _wait_for_turn_to_send(self) -> None:
        """Return at once if little is to be sent, else in a pass that has time for it.

        Sending 2 MiB takes 1 to 2 ms, and a response that 50 connections asked for is complete for
        all of them in the same pass.
        """
        if self._server_context.turns.is_full and self._has_much_to_send():
            await self._server_context.turns.wait()

    def _has_much_to_send(self) -> bool:
        return self._output.is_longer_than(SMALL_MAX) and not self._is_node

    def _carry_out(self) -> bool:
        """Carry out requests that are whole, until one waits, the output is full or the turn is
        over; true if more may be.
        """
        if self._pending is not None or self._output or self._draining or self._cut is not None:
            return False
        server_context, splitter = self._server_context, self._splitter
        now = trio.current_time()
        began_turn, ends_at = now, now + _TURN_S
        self._running = True
        try:
            for _ in range(_REQUESTS_MAX):
                frame = splitter.next_frame()
                if frame is None:
                    self._frame_began = (self._frame_began or now) if splitter.buffered else None
                    return False
                self._frame_began = None
                in_flight, answer = server_context.dispatcher.handle(
                    frame, self.peer, now, self._sasl
                )
                if not self.is_proven:
                    self._look_for_proof(in_flight, answer)
                if self.is_proven:
                    splitter.limit = server_context.config.socket_request_max_bytes
                if self._sasl is not None:
                    self._look_who_it_is(self._sasl, in_flight)
                if in_flight.software is not None:
                    self._name_software(in_flight.software)
                counts = server_context.counts.apis[in_flight.api_key]
                self._take(in_flight, answer, now, counts)
                if self._pending is not None and self._pending.keeps_request:
                    self._kept = DECODED_FACTOR * len(frame)
                began, now = now, trio.current_time()
                counts.carried_out(now - began)
                if now - began >= NOTED_S:
                    server_context.watchdog.took(now - began, {**self._who(), **in_flight.fields()})
                if self._pending is not None or self._draining or self._cut is not None:
                    return False
                if self._output.unsent >= server_context.config.output_buffer_max_bytes:
                    return False
                if now > ends_at:
                    break
            return True
        finally:
            self._running = False
            server_context.turns.spent(trio.current_time() - began_turn)

    def _look_for_proof(
        self, in_flight: InFlightRequest, answer: Message | PendingResponse | Streamed | None
    ) -> None:
        """Whether the request that was just carried out proves the peer; one that does not may not
        come for ever.
        """
        if self._sasl is None:
            self.is_proven = in_flight.api_key != API_VERSIONS or not getattr(
                answer, "error_code", 0
            )
        else:
            self.is_proven = self._sasl.is_open
        if self.is_proven:
            self._on_proof(self)
            return
        self._requests_unproven += 1
        if self._requests_unproven >= UNPROVEN_REQUESTS_MAX:
            self._cut = "requests without authentication"

    def _look_who_it_is(self, session: SaslSession, in_flight: InFlightRequest) -> None:
        """Take over what the latest authentication proved: the principal, and whether a delegation
        token proved it.

        A renewed authentication (KIP-368) keeps the principal, but may go from a password to a
        token of the same owner.
        """
        if session.is_open:
            proved = session.principal or self.peer.principal, session.token_authenticated
            if proved != (self.peer.principal, self.peer.token_authenticated):
                self.peer = replace(self.peer, principal=proved[0], token_authenticated=proved[1])
            return
        self._splitter.limit = self._server_context.config.sasl_server_max_receive_size
        if session.has_failed:
            self._draining = True  # the answer that says so is the last
            self._report("authentication failed", error=(in_flight.notes or {}).get("failed"))

    def _account(self) -> None:
        """Tell what this connection holds. Beyond the common limit whoever holds much goes, and
        with it what it holds.
        """
        output, memory = self._output, self._server_context.memory
        held = self._splitter.buffered + output.unsent + self._kept
        own = held - min(
            output.shared, output.unsent
        )  # what is shared is counted once for all who send it
        memory.held += own - self._held
        self._held = own
        if held > _HELD_FREE and memory.held > self._server_context.config.buffers_max_bytes:
            self._cut = "buffers.max.bytes"

    def _take(
        self,
        in_flight: InFlightRequest,
        answer: Message | PendingResponse | Streamed | None,
        now: float,
        counts: ApiCounts,
    ) -> None:
        if self._server_context.reports.tracing:
            waits = isinstance(answer, (PendingResponse, Streamed))
            self._server_context.reports.trace(
                "request",
                **self._who(),
                **in_flight.fields(),
                waits=waits,
                **(in_flight.notes or {}),
            )
        if (
            answer is None
        ):  # the request wanted no answer and failed: closing is all that tells the client
            self._draining = True
        elif isinstance(answer, PendingResponse):
            self._in_flight, self._pending, self._asked_at = in_flight, answer, now
            self._server_context.purgatory.watch(answer, self._failed)
            answer.attach(self._deliver)
        elif isinstance(answer, Streamed):
            self._asked_at = now
            self._stream(in_flight, answer)
        else:
            counts.answered(answer)
            self._output.add(encode_answer(in_flight, answer))

    def _stream(self, in_flight: InFlightRequest, streamed: Streamed) -> None:
        """Have a streamed response built; it comes later."""
        pending = PendingResponse()
        waiter = Waiter(pending.complete, self._failed, lambda: self.cut("buffers.max.bytes"))  # type: ignore[arg-type]
        pending.on_cancel = waiter.cancel
        self._in_flight, self._pending = in_flight, pending
        self._server_context.purgatory.watch(pending, self._failed)
        pending.attach(self._deliver)
        self._server_context.responses.submit(
            streamed, in_flight.api_key, in_flight.version, waiter
        )

    def _deliver(self, response: Message | Streamed | EncodedResponse) -> None:
        """The answer that was waited for: called by whoever has it, while this connection's task
        may sleep.
        """
        in_flight, pending = self._in_flight, self._pending
        assert in_flight is not None and pending is not None, "an answer that nobody waits for"
        self._in_flight = self._pending = None
        self._server_context.purgatory.forget(pending)
        if not isinstance(response, (Streamed, EncodedResponse)) and (
            in_flight.api_key not in _WITH_RECORDS
        ):
            response = stream_long(response)
        if isinstance(
            response, Streamed
        ):  # the group coordinator's result was waited for; it is long
            self._stream(in_flight, response)
            return
        self._kept = 0
        try:
            counts = self._server_context.counts.apis[in_flight.api_key]
            counts.waited(trio.current_time() - self._asked_at)
            if isinstance(response, EncodedResponse):
                counts.errors.update(response.errors)
            else:
                counts.answered(response)
            self._output.add(encode_answer(in_flight, response))
            if self._running:
                return
            # The connection's own task sends what is long: it takes turns with the others.
            done = not self._has_much_to_send() and self._send()
        except FileTooShort as error:
            self._report("response truncated", error=str(error))
            self.cut("answer cut short")
            return
        except OSError as error:
            self.cut(_GONE)
            self._report("peer disconnected", error=str(error))
            return
        except Exception as error:  # a bug here must not reach whoever completed the answer
            self._failed(error)
            return
        if (
            not done
            or self._splitter.buffered
            or self._draining
            or self._gate is not None
            or self._cut is not None
        ):
            self._wake()

    def _failed(self, error: Exception) -> None:
        self._bug(error)
        self.cut("internal error")

    def _send(self) -> bool:
        before, began = self._output.progress, trio.current_time()
        try:
            return self._output.send()
        finally:
            if self._output.progress != before:
                self._server_context.counts.sent += self._output.progress - before
                self.moved_at = trio.current_time()
                self._server_context.turns.spent(self.moved_at - began)
            self._account()

    def _bad_request(self, error: DecodeError, fields: dict[str, Any]) -> None:
        self._send_what_is_ready()
        self._report(
            "bad request", rule=error.rule, error=escape(str(error), limit=ERROR_MAX), **fields
        )

    def _send_what_is_ready(self) -> None:
        """The requests before a bad one were good: their answers go out before the end, as far as
        the socket takes them.
        """
        with contextlib.suppress(OSError):
            self._send()

    async def _receive(self) -> bool:
        """Receive once, waiting if there is nothing; false at the end of the stream."""
        try:
            return self._take_in()
        except BlockingIOError:
            await self._wait(trio.lowlevel.wait_readable)
        if self._cut is not None or self._draining or self._output:
            return True
        try:  # what was waited for is there, as a rule
            return self._take_in()
        except BlockingIOError:
            return True

    def _take_in(self) -> bool:
        """Receive what is there now; false at the end of the stream. Raises BlockingIOError if
        nothing is.
        """
        missing = self._splitter.missing() if self._pending is None else 0
        data = self._sock.recv(min(max(missing, _RECEIVE_MIN), _RECEIVE_MAX))
        self.moved_at = trio.current_time()
        self._server_context.counts.received += len(data)
        self._splitter.feed(data)
        return bool(data)

    async def _wait(self, wait: Callable[[Any], Awaitable[None]]) -> None:
        # Whoever wants the task's attention calls notify_closing: cheaper than a cancel scope for
        # every wait.
        if self._cut is None:
            with contextlib.suppress(trio.ClosedResourceError):
                await wait(self._sock)

    async def _wait_for_answer(self) -> None:
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
        pending, self._pending = self._pending, None
        if pending is not None:
            self._server_context.purgatory.forget(pending)
            pending.cancel()
        self._output.discard()
        self._server_context.memory.held -= self._held
        if self._sock.fileno() >= 0:
            trio.lowlevel.notify_closing(self._sock)
            self._sock.close()
        if self._cut is not None:
            self._server_context.counts.cuts[self._cut] += 1
            if self._cut != _GONE:  # that is reported where the send failed, with its error
                event = "idle connection closed" if self._cut == _IDLE else "connection cut"
                self._report(event, error=self._cut)
        self._name_software(None)

    def _name_software(self, software: str | None) -> None:
        counter = self._server_context.counts.software
        if self.software is not None:
            counter[self.software] -= 1
            if not counter[self.software]:
                del counter[self.software]  # names are for peers to choose: keep none that is gone
        self.software = software
        if software is not None:
            counter[software] += 1

    def _who(self) -> dict[str, Any]:
        peer = self.peer
        return {
            "connection": peer.connection,
            "listener": peer.listener,
            "peer": f"{peer.host}:{peer.port}",
            "principal": peer.principal,
        }

    def _report(self, event: str, **fields: Any) -> None:
        fields = {**self._who(), "software": self.software, **fields}
        self._server_context.reports.report(event, **fields)

    def _bug(self, error: BaseException) -> None:
        fields = self._in_flight.fields() if self._in_flight is not None else {}
        self._server_context.reports.bug("internal error", error, **self._who(), **fields)
