"""One connection: frames in, answers out, in order. One task, which tries the socket first and waits only if it must.

As in Kafka a connection has one request in flight: what is pipelined behind one that waits is read ahead only so far and
carried out when its turn comes, so answers are in order and never older than the answers before them. Answers that are
there together go out together.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import trio

from gateway.handlers.context import Later
from gateway.server.dispatch import Malformed, Refusal, encode_answer
from gateway.server.logs import ERROR_MAX, escape
from gateway.server.output import FileTooShort, Output
from gateway.server.secure_socket import SecureOutput, SecureSocket
from kwire.errors import DecodeError
from kwire.frame import FrameSplitter

if TYPE_CHECKING:
    from gateway.handlers.context import Peer
    from gateway.security.sasl_session import SaslSession
    from gateway.server.counts import ApiCounts
    from gateway.server.dispatch import Exchange
    from gateway.server.guard import Guard
    from gateway.server.hub import Hub
    from kwire.message import Message

#: One call of recv; a frame that is known to be larger is read in larger pieces.
_RECEIVE_MIN: Final = 64 * 1024
_RECEIVE_MAX: Final = 1024 * 1024
#: A connection lets the others run after so many requests, or so long, s, or so many turns without having to wait.
_REQUESTS_MAX: Final = 64
_TURN_S: Final = 0.005
_TURNS_MAX: Final = 16
#: Nobody is cut for holding so little, bytes.
_HELD_FREE: Final = 64 * 1024
#: Why a connection is cut whose peer was gone when its answer came.
_GONE: Final = "peer gone"


class _NotSecured(Exception):
    """The peer and we have no TLS in common; the text is OpenSSL's."""


class Connection:
    """Talks with one peer until either side has enough. ``run`` is its task; every other method is called on the loop."""

    __slots__ = (
        "_asked_at",
        "_cut",
        "_draining",
        "_exchange",
        "_frame_began",
        "_gate",
        "_guard",
        "_held",
        "_hub",
        "_later",
        "_moved_at",
        "_output",
        "_running",
        "_sasl",
        "_sock",
        "_splitter",
        "peer",
        "software",
    )

    def __init__(self, sock: socket.socket, peer: Peer, hub: Hub) -> None:
        """``sock`` is connected and does not block; the connection closes it."""
        self.peer = peer
        self.software: str | None = None
        self._hub = hub
        self._sock: socket.socket | SecureSocket = sock
        self._guard = hub.guards.get(peer.listener)
        self._sasl = None if self._guard is None else self._guard.session()
        # Until a first request was valid nobody knows that this is Kafka's protocol at all.
        self._splitter = FrameSplitter(hub.config.first_request_max_bytes)
        self._output = Output(sock)
        self._exchange: Exchange | None = None  # whose answer is not there yet
        self._later: Later | None = None
        self._asked_at = 0.0  # when the request came that it answers
        self._running = False  # in the middle of carrying out requests: answers are sent when that is done
        self._draining = False
        self._cut: str | None = None
        self._gate: trio.Event | None = None
        self._held = 0  # our share of Hub.memory
        self._moved_at = trio.current_time()
        self._frame_began: float | None = None

    async def run(self) -> None:
        """Serve the peer to the end. Whatever goes wrong ends this connection only."""
        try:
            if self._guard is not None and self._guard.tls is not None:
                await self._secure(self._guard, self._guard.tls)
            await self._converse()
        except DecodeError as error:
            self._bad_request(error, {})
        except Malformed as bad:
            self._bad_request(bad.error, bad.fields)
        except Refusal as refusal:
            self._send_what_is_ready()
            who = (self.software, refusal.rule, refusal.fields.get("api"), refusal.fields.get("api_key"))
            fields = {**self._who(), **refusal.fields, "software": self.software, "error": refusal.rule}
            self._hub.reports.report_once("request refused", who, "warning", **fields)
        except FileTooShort as error:
            self._report("answer cut short", "warning", error=str(error))
        except _NotSecured as error:
            self._report("handshake failed", "warning", error=escape(str(error), limit=ERROR_MAX))
        except OSError as error:
            self._report("peer gone", "debug", error=str(error))
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
        config, quiet_ms = self._hub.config, (now - self._moved_at) * 1000
        if self._output and quiet_ms > config.response_send_timeout_ms:
            return "response.send.timeout.ms"
        if self._frame_began is not None and (now - self._frame_began) * 1000 > config.request_receive_timeout_ms:
            return "request.receive.timeout.ms"
        if quiet_ms > config.connections_max_idle_ms:
            return "connections.max.idle.ms"
        return None

    async def _secure(self, guard: Guard, context: ssl.SSLContext) -> None:
        """The TLS handshake; a client certificate says who the peer is."""
        assert isinstance(self._sock, socket.socket)
        self._frame_began = trio.current_time()
        try:
            secured = self._sock = SecureSocket(self._sock, context)
            while self._cut is None and not self._draining and (wait := secured.shake_hands()) is not None:
                await self._wait(wait)
            if self._cut is None and not self._draining:
                self.peer = replace(self.peer, principal=guard.principal(secured.certificate))
        except (OSError, ValueError) as error:
            raise _NotSecured(getattr(error, "reason", None) or str(error)) from None
        self._output = SecureOutput(secured)  # type: ignore[arg-type]
        self._frame_began = None

    async def _converse(self) -> None:
        turns = 0
        while self._cut is None:
            more = self._carry_out()
            if self._output:
                if not self._send():
                    await self._wait(trio.lowlevel.wait_writable)
                    continue
                more = more or (self._later is None and self._splitter.buffered > 0)
            self._account()
            if (self._draining and self._later is None) or self._cut is not None:
                return
            turns += 1
            if more or turns % _TURNS_MAX == 0:
                await trio.lowlevel.checkpoint()
                if more:
                    continue
            if self._later is not None and self._splitter.buffered >= self._hub.config.read_ahead_max_bytes:
                await self._wait_for_answer()
            elif not await self._receive():
                return

    def _carry_out(self) -> bool:
        """Carry out requests that are whole, until one waits, the output is full or the turn is over; true if more may be."""
        if self._later is not None or self._output or self._draining:
            return False
        hub, splitter = self._hub, self._splitter
        now = trio.current_time()
        ends_at = now + _TURN_S
        self._running = True
        try:
            for _ in range(_REQUESTS_MAX):
                frame = splitter.next_frame()
                if frame is None:
                    self._frame_began = (self._frame_began or now) if splitter.buffered else None
                    return False
                self._frame_began = None
                exchange, answer = hub.dispatcher.handle(frame, self.peer, now, self._sasl)
                splitter.limit = hub.config.socket_request_max_bytes
                if self._sasl is not None:
                    self._look_who_it_is(self._sasl, exchange)
                if exchange.software is not None:
                    self._name_software(exchange.software)
                counts = hub.counts.apis[exchange.api_key]
                self._take(exchange, answer, now, counts)
                began, now = now, trio.current_time()
                counts.carried_out(now - began)
                if self._later is not None or self._draining or self._output.unsent >= hub.config.output_buffer_max_bytes:
                    return False
                if now > ends_at:
                    break
            return True
        finally:
            self._running = False

    def _look_who_it_is(self, session: SaslSession, exchange: Exchange) -> None:
        if session.is_open:
            if session.principal is not None and session.principal != self.peer.principal:
                by_token = session.token_authenticated
                self.peer = replace(self.peer, principal=session.principal, token_authenticated=by_token)
            return
        self._splitter.limit = self._hub.config.sasl_server_max_receive_size
        if session.has_failed:
            self._draining = True  # the answer that says so is the last
            self._report("authentication failed", "warning", error=(exchange.notes or {}).get("failed"))

    def _account(self) -> None:
        """Tell what this connection holds. Beyond the common limit whoever holds much goes, and with it what it holds."""
        held, memory = self._splitter.buffered + self._output.unsent, self._hub.memory
        memory.held += held - self._held
        self._held = held
        if held > _HELD_FREE and memory.held > self._hub.config.buffers_max_bytes:
            self._cut = "buffers.max.bytes"

    def _take(self, exchange: Exchange, answer: Message | Later | None, now: float, counts: ApiCounts) -> None:
        if self._hub.reports.tracing:
            waits = isinstance(answer, Later)
            self._hub.reports.trace("request", **self._who(), **exchange.fields(), waits=waits, **(exchange.notes or {}))
        if answer is None:  # the request wanted no answer and failed: closing is all that tells the client
            self._draining = True
        elif isinstance(answer, Later):
            self._exchange, self._later, self._asked_at = exchange, answer, now
            self._hub.purgatory.watch(answer, self._failed)
            answer.attach(self._deliver)
        else:
            counts.answered(answer)
            self._output.add(encode_answer(exchange, answer))

    def _deliver(self, response: Message) -> None:
        """The answer that was waited for: called by whoever has it, while this connection's task may sleep."""
        exchange, later = self._exchange, self._later
        assert exchange is not None and later is not None, "an answer that nobody waits for"
        self._exchange = self._later = None
        self._hub.purgatory.forget(later)
        try:
            counts = self._hub.counts.apis[exchange.api_key]
            counts.waited(trio.current_time() - self._asked_at)
            counts.answered(response)
            self._output.add(encode_answer(exchange, response))
            if self._running:
                return
            done = self._send()
        except FileTooShort as error:
            self._report("answer cut short", "warning", error=str(error))
            self.cut("answer cut short")
            return
        except OSError as error:
            self.cut(_GONE)
            self._report("peer gone", "debug", error=str(error))
            return
        except Exception as error:  # a bug here must not reach whoever completed the answer
            self._failed(error)
            return
        if not done or self._splitter.buffered or self._draining or self._gate is not None or self._cut is not None:
            self._wake()

    def _failed(self, error: Exception) -> None:
        self._bug(error)
        self.cut("internal error")

    def _send(self) -> bool:
        before = self._output.progress
        try:
            return self._output.send()
        finally:
            if self._output.progress != before:
                self._hub.counts.sent += self._output.progress - before
                self._moved_at = trio.current_time()
            self._account()

    def _bad_request(self, error: DecodeError, fields: dict[str, Any]) -> None:
        self._send_what_is_ready()
        self._report("bad request", rule=error.rule, error=escape(str(error), limit=ERROR_MAX), **fields)

    def _send_what_is_ready(self) -> None:
        """The requests before a bad one were good: their answers go out before the end, as far as the socket takes them."""
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
        """Receive what is there now; false at the end of the stream. Raises BlockingIOError if nothing is."""
        missing = self._splitter.missing() if self._later is None else 0
        data = self._sock.recv(min(max(missing, _RECEIVE_MIN), _RECEIVE_MAX))
        self._moved_at = trio.current_time()
        self._hub.counts.received += len(data)
        self._splitter.feed(data)
        return bool(data)

    async def _wait(self, wait: Callable[[Any], Awaitable[None]]) -> None:
        # Whoever wants the task's attention calls notify_closing: cheaper than a cancel scope for every wait.
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
        later, self._later = self._later, None
        if later is not None:
            self._hub.purgatory.forget(later)
            later.cancel()
        self._output.discard()
        self._hub.memory.held -= self._held
        if self._sock.fileno() >= 0:
            trio.lowlevel.notify_closing(self._sock)
            self._sock.close()
        if self._cut is not None:
            self._hub.counts.cuts[self._cut] += 1
            # Clients come back by themselves after being idle, all day long.
            level = "debug" if self._cut in (_GONE, "connections.max.idle.ms") else "info"
            self._report("connection cut", level, error=self._cut)
        self._name_software(None)

    def _name_software(self, software: str | None) -> None:
        counter = self._hub.counts.software
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

    def _report(self, event: str, level: str = "warning", **fields: Any) -> None:
        self._hub.reports.report(event, level, **self._who(), software=self.software, **fields)

    def _bug(self, error: BaseException) -> None:
        fields = self._exchange.fields() if self._exchange is not None else {}
        self._hub.reports.bug("internal error", error, **self._who(), **fields)
