"""Sends and receives raw frames on a blocking connection, within a deadline and a number of bytes.

It keeps the frames as round trips. It decodes nothing, so it can also send bytes that are no
request.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from typing import Final, Protocol, Self

from kwire.conformance.outcome import ProbeTimeout, RoundTrip, RuleFailed
from kwire.errors import DecodeError
from kwire.frame import FrameSplitter, frame

#: The largest response that is read. Responses of a conformance run are small; a server that sends
#: more than this fails the rule.
FRAME_BYTES_MAX: Final = 8 * 1024 * 1024
#: Responses above this are received and decoded one at a time, so that eight rules do not hold
#: eight large ones.
LARGE_BYTES: Final = 256 * 1024
_CHUNK: Final = 1 << 16
#: Bytes of a frame that a round trip keeps.
_KEPT_BYTES_MAX: Final = 64 * 1024


class Stream(Protocol):
    """The methods of sockets and TLS sockets that a connection uses."""

    def sendall(self, data: bytes, /) -> None: ...
    def recv(self, size: int, /) -> bytes: ...
    def settimeout(self, seconds: float | None, /) -> None: ...
    def shutdown(self, how: int, /) -> None: ...
    def close(self) -> None: ...


#: Opens a stream within so many seconds. Raises OSError.
Opener = Callable[[float], Stream]


class PeerClosed(Exception):
    """The server closed the connection. ``reset``: with RST."""

    def __init__(self, *, reset: bool = False) -> None:
        super().__init__("the connection was closed")
        self.reset = reset


class Connection:
    """A connection of one probe. Every call ends by ``deadline`` (``time.monotonic``).

    Calls raise PeerClosed, ProbeTimeout, and RuleFailed for an invalid frame.
    """

    def __init__(
        self,
        stream: Stream,
        deadline: float,
        limit: int = FRAME_BYTES_MAX,
        *,
        large: threading.Semaphore | None = None,
    ) -> None:
        self._stream = stream
        self._deadline = deadline
        self._splitter = FrameSplitter(limit)
        self._large = large
        self._holds_large = False
        self.round_trips: list[RoundTrip] = []
        self._unanswered: list[RoundTrip] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.release_large()
        with contextlib.suppress(OSError):
            self._stream.close()

    def send_request(
        self, data: bytes, api_key: int = -1, version: int = -1, note: str = ""
    ) -> None:
        """Send ``data`` behind its size, and expect an answer to it."""
        self.expect_answer(data, api_key, version, note)
        self.send_raw(frame(data))

    def send_unanswered(self, data: bytes, api_key: int, version: int) -> None:
        """Send ``data`` behind its size. No answer belongs to it."""
        self.round_trips.append(RoundTrip(api_key, version, data[:_KEPT_BYTES_MAX]))
        self.send_raw(frame(data))

    def expect_answer(
        self, data: bytes, api_key: int = -1, version: int = -1, note: str = ""
    ) -> None:
        """Note a request whose bytes are sent by :meth:`send_raw`."""
        round_trip = RoundTrip(api_key, version, data[:_KEPT_BYTES_MAX], note=note)
        self.round_trips.append(round_trip)
        self._unanswered.append(round_trip)

    def send_raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._stream.settimeout(self._left())
        try:
            self._stream.sendall(data)
        except TimeoutError:
            raise ProbeTimeout("the server does not read what was sent") from None
        except OSError:
            raise PeerClosed(reset=True) from None

    def end_sending(self) -> None:
        """Close the sending half of the connection (FIN)."""
        with contextlib.suppress(OSError):
            self._stream.shutdown(socket.SHUT_WR)

    def receive(self, wait_s: float | None = None) -> bytes:
        """Return the next frame, without its size. ``wait_s``: no longer than this many seconds.

        Other connections of the run receive no large frame until :meth:`release_large`, the next
        frame of this connection or its end.
        """
        deadline = self._deadline if wait_s is None else time.monotonic() + wait_s
        deadline = min(deadline, self._deadline)
        self.release_large()
        while (found := self._next()) is None:
            self._take_large(deadline)
            self._splitter.feed(self._receive_some(deadline))
        if self._unanswered:
            self._unanswered.pop(0).received = found[:_KEPT_BYTES_MAX]
        return found

    def _take_large(self, deadline: float) -> None:
        """Wait for the turn of this connection if the next frame is a large one."""
        if self._large is None or self._holds_large or self._splitter.missing() <= LARGE_BYTES:
            return
        if not self._large.acquire(timeout=max(deadline - time.monotonic(), 0)):
            raise ProbeTimeout("too many large responses came to read this one in time")
        self._holds_large = True

    def release_large(self) -> None:
        """Let other connections receive large frames: the last one is no longer used."""
        if self._large is not None and self._holds_large:
            self._holds_large = False
            self._large.release()

    def ends(self, wait_s: float) -> bool | bytes:
        """Return True if the server closes the connection within ``wait_s`` seconds, False if it
        stays open, or the frame that came instead.
        """
        try:
            return self.receive(wait_s)
        except PeerClosed:
            return True
        except ProbeTimeout:
            return False

    def _next(self) -> bytes | None:
        try:
            return self._splitter.next_frame()
        except DecodeError as error:
            raise RuleFailed(f"the server sent {error.reason}") from None

    def _receive_some(self, deadline: float) -> bytes:
        left = deadline - time.monotonic()
        if left <= 0:
            raise ProbeTimeout("the server did not answer in time")
        self._stream.settimeout(left)
        try:
            data = self._stream.recv(_CHUNK)
        except TimeoutError:
            raise ProbeTimeout("the server did not answer in time") from None
        except OSError:
            raise PeerClosed(reset=True) from None
        if not data:
            if self._splitter.buffered:
                raise RuleFailed("the server closed the connection in the middle of a frame")
            raise PeerClosed
        return data

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise ProbeTimeout("the time of this probe is used up")
        return left


def open_plain(host: str, port: int) -> Opener:
    """Return a function that opens PLAINTEXT connections to ``host:port``."""

    def opened(timeout_s: float) -> Stream:
        stream = socket.create_connection((host, port), timeout=timeout_s)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return stream

    return opened
