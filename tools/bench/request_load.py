"""Sends prebuilt requests over many connections, as fast as the server answers, and counts the
responses. It knows frames and no message.

Each connection keeps a number of requests in flight: 1, or more for a pipelined client. The frames
are prebuilt, so a send costs this process a system call and no encoding.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass

_SIZE = struct.Struct(">i")
_RECEIVE_BYTES = 1 << 18


@dataclass(slots=True)
class _Connection:
    """``unread``: bytes that do not make a size yet. ``missing``: bytes that the response lacks
    whose size was read. ``left``: requests in flight.
    """

    socket: socket.socket
    unread: bytes = b""
    missing: int = 0
    left: int = 0


class Load:
    """``connections`` to ``address``, on which ``frame`` is sent."""

    def __init__(
        self,
        address: str,
        frame: bytes,
        connections: int,
        in_flight: int,
        *,
        first: bytes = b"",
        is_continuous: bool = False,
    ) -> None:
        """``frame`` with its length. ``in_flight``: requests on each connection at a time.
        ``first``: the first request of each connection, which is not counted.
        ``is_continuous``: a request follows each response, and not as many as are in flight follow
        the last of their responses.
        """
        host, _, port = address.rpartition(":")
        self._frame = frame
        self._in_flight = in_flight
        self._is_continuous = is_continuous
        self._buffer = memoryview(bytearray(_RECEIVE_BYTES))
        self._poll = select.epoll()
        self._by_fd: dict[int, _Connection] = {}
        for _ in range(connections):
            one = socket.create_connection((host, int(port)), timeout=30)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._by_fd[one.fileno()] = _Connection(one)
            self._poll.register(one.fileno(), select.EPOLLIN)
            one.sendall(first)
            if first:
                (size,) = _SIZE.unpack(one.recv(_SIZE.size, socket.MSG_WAITALL))
                one.recv(size, socket.MSG_WAITALL)

    def close(self) -> None:
        """Close all connections."""
        self._poll.close()
        for connection in self._by_fd.values():
            connection.socket.close()

    def run(self, seconds: float) -> tuple[int, float]:
        """Send for ``seconds``; return the number of responses and the time that they took, the
        last included. Raises EOFError when the server closes a connection.
        """
        began = time.monotonic()
        end = began + seconds
        for connection in self._by_fd.values():
            self._send(connection, self._in_flight)
        count, open_ones = 0, len(self._by_fd)
        while open_ones:
            for fd, _ in self._poll.poll(30):
                connection = self._by_fd[fd]
                more = self._receive(connection)
                count += more
                if time.monotonic() >= end:
                    open_ones -= connection.left == 0 and more > 0
                elif self._is_continuous:
                    self._send(connection, more)
                elif connection.left == 0:
                    self._send(connection, self._in_flight)
        return count, time.monotonic() - began

    def _send(self, connection: _Connection, count: int) -> None:
        connection.left += count
        connection.socket.sendall(self._frame * count)

    def _receive(self, connection: _Connection) -> int:
        """Return the number of responses that are complete now."""
        size = connection.socket.recv_into(self._buffer)
        if not size:
            raise EOFError("the server closed a connection")
        if size < connection.missing:
            connection.missing -= size
            return 0
        at, count = connection.missing, int(connection.missing > 0)
        data = connection.unread + bytes(self._buffer[at:size])
        connection.unread, connection.missing, at = b"", 0, 0
        while len(data) - at >= _SIZE.size:
            following = at + _SIZE.size + _SIZE.unpack_from(data, at)[0]
            if following > len(data):
                connection.missing = following - len(data)
                break
            at, count = following, count + 1
        else:
            connection.unread = data[at:]
        connection.left -= count
        return count


@contextlib.contextmanager
def load(
    address: str,
    frame: bytes,
    connections: int,
    in_flight: int,
    *,
    first: bytes = b"",
    is_continuous: bool = False,
) -> Iterator[Load]:
    """Yield a :class:`Load`, which is closed at the end of the block."""
    made = Load(address, frame, connections, in_flight, first=first, is_continuous=is_continuous)
    try:
        yield made
    finally:
        made.close()
