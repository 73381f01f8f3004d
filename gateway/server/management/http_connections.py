"""Serves the HTTP/1.1 connections of the management port: limits their number and their times.

h11 parses the requests. It knows no page. When there are too many connections, the one that has
been without a request for longest is closed, so that slow or silent peers keep no other peer out.
"""

from __future__ import annotations

import email.utils
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple

import h11
import trio

from gateway.base.sizes import KIB
from kwire.frame import foreign_protocol

if TYPE_CHECKING:
    from gateway.server.logging.logs import Reports

#: Connections at one time: a few scrapers, probes and people.
CONNECTIONS_MAX: Final = 32
#: Bytes of a request's line and headers together.
HEAD_MAX: Final = 8 * KIB
#: Time from the first byte of a request's head to its end; for its body; between two requests
#: (scrapes are a minute apart at most); and for sending a response, s.
HEAD_TIMEOUT_S: Final = 5.0
BODY_TIMEOUT_S: Final = 5.0
IDLE_TIMEOUT_S: Final = 75.0
SEND_TIMEOUT_S: Final = 10.0
#: Time, s, and bytes for which input is discarded after the last response: closing a socket with
#: unread input resets the connection, and the reset may overtake the response.
_LINGER_S: Final = 1.0
_LINGER_BYTES: Final = 256 * KIB
_RECEIVE_BYTES: Final = 4096


class Answer(NamedTuple):
    """A response."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    more: tuple[tuple[str, str], ...] = ()  #: further headers
    cache: str = "no-store"  #: the value of Cache-Control


class RequestBody:
    """The body of a request, which is read if :meth:`read` is called. ``follows``: there is one."""

    def __init__(self, first: object, read: Callable[[object, int], Awaitable[bytes | None]]):
        self.follows: Final = not isinstance(first, h11.EndOfMessage)
        self._first = first
        self._read = read

    async def read(self, bytes_max: int) -> bytes | None:
        """Return the body; None if it has more bytes than that, comes too slowly or is invalid."""
        return await self._read(self._first, bytes_max) if self.follows else b""


#: Makes the response to a request.
Answering = Callable[[h11.Request, RequestBody], Awaitable[Answer]]


class HttpConnections:
    """The open connections, each served by a task in ``nursery``."""

    def __init__(self, nursery: trio.Nursery, answer: Answering, reports: Reports) -> None:
        self._nursery = nursery
        self._answer = answer
        self._reports = reports
        self._all: dict[HttpConnection, None] = {}  # the oldest first
        # Those between two requests; the one that has waited for longest comes first.
        self._waiting: dict[HttpConnection, None] = {}

    def __len__(self) -> int:
        return len(self._all)

    def admit(self, stream: trio.SocketStream) -> None:
        """Serve a new connection.

        At the limit it takes the place of the one that has waited for a request for longest or, if
        none waits, of the oldest, which does not take its response.
        """
        if len(self._all) >= CONNECTIONS_MAX:
            victim = next(iter(self._waiting or self._all))
            victim.scope.cancel()
            self._forget(victim)
        http_connection = HttpConnection(stream, self._waits, self._reports.report)
        self._all[http_connection] = None
        self._nursery.start_soon(self._serve, http_connection)

    async def _serve(self, http_connection: HttpConnection) -> None:
        try:
            with http_connection.scope:
                await http_connection.converse(self._answer)
        except trio.BrokenResourceError:
            pass  # the peer has disconnected
        except Exception as error:
            self._reports.bug("internal error", error, listener="management")
        finally:
            self._forget(http_connection)
            http_connection.stream.socket.close()

    def _waits(self, http_connection: HttpConnection, waits: bool) -> None:
        self._waiting.pop(http_connection, None)
        if waits:
            self._waiting[http_connection] = None

    def _forget(self, http_connection: HttpConnection) -> None:
        self._all.pop(http_connection, None)
        self._waiting.pop(http_connection, None)


class HttpConnection:
    """One connection, for as many requests as both sides want. Its maker closes ``stream``.

    ``waits`` is called when it begins (True) and ends (False) to wait for a request.
    ``report`` logs an event.
    """

    def __init__(
        self,
        stream: trio.SocketStream,
        waits: Callable[[HttpConnection, bool], None],
        report: Callable[..., None],
    ) -> None:
        self.stream = stream
        self.scope = trio.CancelScope()
        self._waits = waits
        self._report = report
        self._with_body = True  # whether the response to the last request has one
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_MAX)

    async def converse(self, answer: Answering) -> None:
        """Answer requests. Raises trio.BrokenResourceError if the peer disconnects before that."""
        goes_on = True
        while goes_on:
            self._waits(self, True)
            try:
                request = await self._next_request()
                self._waits(self, False)
                if request is None:
                    return
                body = RequestBody(self._next_part(), self._read_body)
                goes_on = await self._send(await answer(request, body))
            except h11.RemoteProtocolError as error:
                self._waits(self, False)
                start = self._http.trailing_data[0][:4]
                if (wrong := _other_protocol(start)) is not None:
                    self._report("bad request", listener="management", rule="http", error=wrong)
                goes_on = await self._send(_refusal(error, wrong))

    async def _next_request(self) -> h11.Request | None:
        """The head of the next request; None if the peer closes or takes too long.

        Raises h11.RemoteProtocolError.
        """
        began = bool(self._http.trailing_data[0])
        deadline = trio.current_time() + (HEAD_TIMEOUT_S if began else IDLE_TIMEOUT_S)
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Request):
                self._with_body = event.method != b"HEAD"
                _check(event)
                return event
            if event is not h11.NEED_DATA:
                return None
            with trio.move_on_at(deadline) as waiting:
                data = await self.stream.receive_some(_RECEIVE_BYTES)
            if waiting.cancelled_caught:
                return None
            self._http.receive_data(data)
            if not began:
                began, deadline = True, trio.current_time() + HEAD_TIMEOUT_S

    def _next_part(self) -> object:
        """The next event of the request's body; None where it is invalid."""
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError:
            return None

    async def _read_body(self, part: object, bytes_max: int) -> bytes | None:
        """The body that begins with ``part``; None as :meth:`RequestBody.read`."""
        data = b""
        with trio.move_on_after(BODY_TIMEOUT_S):
            if self._http.they_are_waiting_for_100_continue:
                more = h11.InformationalResponse(status_code=100, headers=[])
                await self.stream.send_all(self._http.send(more) or b"")
            while len(data) <= bytes_max:
                if isinstance(part, h11.EndOfMessage):
                    return data
                if isinstance(part, h11.Data):
                    data += part.data
                elif part is h11.NEED_DATA:
                    self._http.receive_data(await self.stream.receive_some(_RECEIVE_BYTES))
                else:
                    break
                part = self._next_part()
        return None

    async def _send(self, answer: Answer) -> bool:
        """Send a response; True if another request may follow it."""
        http = self._http
        headers = [
            ("Content-Type", answer.content_type),
            ("Content-Length", str(len(answer.body))),
            ("Date", email.utils.formatdate(usegmt=True)),
            ("Cache-Control", answer.cache),
            ("X-Content-Type-Options", "nosniff"),
            *answer.more,
        ]
        if http.their_state is not h11.DONE:
            # A body follows, or no HTTP at all: neither is read.
            headers.append(("Connection", "close"))
        phrase = HTTPStatus(answer.status).phrase
        events = [
            h11.Response(status_code=answer.status, reason=phrase, headers=headers),
            h11.EndOfMessage(),
        ]
        if self._with_body:
            events.insert(1, h11.Data(data=answer.body))
        with trio.move_on_after(SEND_TIMEOUT_S) as sending:
            await self.stream.send_all(b"".join([http.send(event) or b"" for event in events]))
        if sending.cancelled_caught:
            return False
        if http.our_state is h11.DONE and http.their_state is h11.DONE:
            http.start_next_cycle()
            return True
        await self._linger()
        return False

    async def _linger(self) -> None:
        """Close our side, and discard input for a while so that the response arrives."""
        await self.stream.send_eof()
        left = _LINGER_BYTES
        with trio.move_on_after(_LINGER_S):
            while left > 0 and (data := await self.stream.receive_some(_RECEIVE_BYTES)):
                left -= len(data)


def _check(request: h11.Request) -> None:
    """Raise h11.RemoteProtocolError for a request that h11 accepts and this server does not.

    A proxy may find another end of a request with both lengths than this server does, and take the
    rest for a request of its own (RFC 9112, 6.1): the connection does not go on.
    """
    if not request.http_version.startswith(b"1."):
        raise h11.RemoteProtocolError("only HTTP/1 is served", error_status_hint=505)
    names = {name for name, _ in request.headers}
    if {b"content-length", b"transfer-encoding"} <= names:
        raise h11.RemoteProtocolError("a request has one length")


def _other_protocol(start: bytes) -> str | None:
    """A sentence about the first bytes of a connection that are no HTTP; None of all others."""
    what = "a request of Kafka's protocol" if start[:1] == b"\0" else foreign_protocol(start)
    if what is None or what.startswith("an HTTP"):
        return None
    return f"{what} came to the management port, which serves http://"


def _refusal(error: h11.RemoteProtocolError, wrong: str | None) -> Answer:
    """The response to bytes that are not a request."""
    if wrong is not None:
        return Answer(400, f"{wrong}\n".encode())
    if error.error_status_hint == 431:
        return Answer(431, f"A request's line and headers may have {HEAD_MAX} bytes.\n".encode())
    return Answer(error.error_status_hint, b"This is no request of HTTP/1.1.\n")
