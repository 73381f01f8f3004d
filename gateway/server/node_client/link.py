"""Sends requests to a Kafka node over a connected stream and receives their responses. Knows frames
and correlation ids, not the meaning of messages.

Memory grows with the bytes received, not with the size that a frame claims. An error in the middle
of an exchange, a cancellation included, closes the stream, because the next bytes on it could
belong to either request.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any, Final

import trio

from gateway.base.sizes import KIB
from gateway.server.node_client.errors import BadAnswer, ConnectionClosed, TlsFailed, short
from gateway.server.node_client.tls import tls_failure
from kwire.errors import DecodeError
from kwire.frame import FrameSplitter, frame
from kwire.header import decode_response_header, encode_request_header
from kwire.registry import response_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.message import Message

#: Size of one receive, bytes; a response that is known to be longer is read in larger pieces.
_RECEIVE_MIN: Final = 16 * KIB
_RECEIVE_MAX: Final = 256 * KIB
#: Maximum number of array elements and unknown tagged fields in a response: it bounds the time that
#: decoding takes.
RESPONSE_MAX_ELEMENTS: Final = 30_000
#: Maximum time of an orderly close, s.
_CLOSE_S: Final = 1.0
_CORRELATION_MAX: Final = 2**31 - 1
#: The first bytes of a TLS alert record (RFC 8446 5.1), which a TLS listener sends to a client that
#: does not speak TLS.
_TLS_ALERT: Final = b"\x15\x03"


class Link:
    """Owns ``stream``. The caller ensures that one exchange is in progress at a time.

    ``who`` names the node in errors. A response larger than ``response_max_bytes`` is refused
    before it is read.
    """

    def __init__(self, stream: trio.abc.Stream, who: str, *, response_max_bytes: int) -> None:
        self.who = who
        self._stream = stream
        self._splitter = FrameSplitter(response_max_bytes)
        self._budget = RESPONSE_MAX_ELEMENTS
        self._correlation_id = 0
        self._closed_because: str | None = None
        self._first = b""  # the first two bytes that the node sent

    @property
    def is_open(self) -> bool:
        """True while requests can be sent, as far as this side knows."""
        return self._closed_because is None

    def limit_responses(
        self, response_max_bytes: int, response_max_elements: int = RESPONSE_MAX_ELEMENTS
    ) -> None:
        """Change the limits, from the next response on."""
        self._splitter.limit, self._budget = response_max_bytes, response_max_elements

    async def ask(
        self,
        request: Message,
        version: int,
        client_id: str | None,
        *,
        answered_in: Callable[[bytes], int] | None = None,
    ) -> Any:
        """Send ``request`` and return its response.

        The response is decoded at ``version``, or at the version that ``answered_in`` returns for
        its frame. Raises ConnectionClosed, TlsFailed, BadAnswer; EncodeError and UnsupportedVersion
        before anything is sent.
        """
        if self._closed_because is not None:
            raise ConnectionClosed(self.who, self._closed_because, "connect again")
        assert request.API_KEY is not None, f"{request.NAME} is no request"
        self._correlation_id = (self._correlation_id + 1) & _CORRELATION_MAX
        header = encode_request_header(request.API_KEY, version, self._correlation_id, client_id)
        data = frame(header, request.encode(version))
        about = f"{request.NAME} v{version}"
        self._closed_because = f"the connection was given up in the middle of {about}"
        try:
            await self._send(data, about)
            answer = await self._receive(about)
            message = self._decode(
                request.API_KEY, answered_in(answer) if answered_in else version, answer, about
            )
        except BaseException:
            await trio.aclose_forcefully(self._stream)
            raise
        self._closed_because = None
        return message

    async def close(self, because: str = "the connection was closed here") -> None:
        """Close the stream, in an orderly way if that is quick. A second call does nothing."""
        if self._closed_because is None:
            self._closed_because = because
        with trio.move_on_after(_CLOSE_S):
            try:
                await self._stream.aclose()
            except (trio.BrokenResourceError, trio.BusyResourceError, OSError):
                await trio.aclose_forcefully(self._stream)

    async def _send(self, data: bytes, about: str) -> None:
        try:
            await self._stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise self._lost(error, about) from error

    async def _receive(self, about: str) -> bytes:
        splitter = self._splitter
        try:
            while (answer := splitter.next_frame()) is None:
                data = await self._receive_some(
                    min(max(splitter.missing(), _RECEIVE_MIN), _RECEIVE_MAX), about
                )
                splitter.feed(data)
                self._first = self._first or data[:2]
        except DecodeError as error:
            raise self._bad_size(error, about) from None
        if splitter.buffered:
            raise BadAnswer(
                self.who,
                f"{splitter.buffered} bytes behind the answer to {about}, which nobody asked for",
            )
        given = int.from_bytes(answer[:4], "big", signed=True)
        if len(answer) < 4 or given != self._correlation_id:
            shown = given if len(answer) >= 4 else answer.hex()
            raise BadAnswer(
                self.who,
                f"the answer to {about} has correlation id {shown}, not {self._correlation_id}",
            )
        return answer

    async def _receive_some(self, size: int, about: str) -> bytes:
        try:
            data = await self._stream.receive_some(size)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise self._lost(error, about) from error
        if not data:
            held = self._splitter.buffered
            when = (
                f"in the middle of the answer ({held} bytes came)" if held else "without an answer"
            )
            raise ConnectionClosed(self.who, f"it closed the connection {when} to {about}")
        return bytes(data)

    def _decode(self, api_key: int, version: int, answer: bytes, about: str) -> Message:
        kind = response_type(api_key)
        try:
            _, at = decode_response_header(api_key, version, answer, budget=self._budget)
            message, end = kind.decode_from(answer, version, at, budget=self._budget)
            if end != len(answer):
                raise DecodeError(
                    f"{len(answer) - end} bytes left over behind {kind.NAME}", offset=end
                )
        except DecodeError as error:
            raise BadAnswer(
                self.who, f"the answer to {about} cannot be read: {short(error)}"
            ) from None
        return message

    def _lost(self, error: Exception, about: str) -> ConnectionClosed | TlsFailed:
        cause = error.__cause__
        if isinstance(cause, ssl.SSLError):
            return tls_failure(self.who, cause, f"TLS failed in the middle of {about}")
        return ConnectionClosed(
            self.who, f"the connection broke in the middle of {about}: {short(cause or error)}"
        )

    def _bad_size(self, error: DecodeError, about: str) -> BadAnswer:
        if self._correlation_id == 1 and _TLS_ALERT.startswith(self._first):
            return BadAnswer(
                self.who,
                "the listener speaks TLS, this client does not",
                "set security.protocol to SSL or SASL_SSL",
            )
        return BadAnswer(self.who, f"the answer to {about} is no answer: {error.reason}")
