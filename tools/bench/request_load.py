"""Sends one prebuilt request over many connections, as fast as the server answers, and counts the
responses. It knows frames and no message.

Each connection keeps a number of requests in flight: 1, or more for a pipelined client. The frames
are all the same, so a send costs this process a system call and no encoding.
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
    """``unread``: bytes that do not make a whole response yet. ``left``: requests in flight."""

    socket: socket.socket
    unread: bytes = b""
    left: int = 0


class Load:
    """``connections`` to ``address``, on which ``frame`` is sent."""

    def __init__(self, address: str, frame: bytes, connections: int, in_flight: int) -> None:
        """``frame`` with its length. ``in_flight``: requests on each connection at a time."""
        host, _, port = address.rpartition(":")
        self._batch = frame * in_flight
        self._in_flight = in_flight
        self._poll = select.epoll()
        self._by_fd: dict[int, _Connection] = {}
        for _ in range(connections):
            one = socket.create_connection((host, int(port)), timeout=30)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._by_fd[one.fileno()] = _Connection(one)
            self._poll.register(one.fileno(), select.EPOLLIN)

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
            self._send(connection)
        count, open_ones = 0, len(self._by_fd)
        while open_ones:
            for fd, _ in self._poll.poll(30):
                connection = self._by_fd[fd]
                count += self._receive(connection)
                if connection.left == 0:
                    if time.monotonic() < end:
                        self._send(connection)
                    else:
                        open_ones -= 1
        return count, time.monotonic() - began

    def _send(self, connection: _Connection) -> None:
        connection.left = self._in_flight
        connection.socket.sendall(self._batch)

    def _receive(self, connection: _Connection) -> int:
        """Return the number of responses that are complete now."""
        data = connection.socket.recv(_RECEIVE_BYTES)
        if not data:
            raise EOFError("the server closed a connection")
        data = connection.unread + data if connection.unread else data
        at = count = 0
        while len(data) - at >= _SIZE.size:
            following = at + _SIZE.size + _SIZE.unpack_from(data, at)[0]
            if following > len(data):
                break
            at, count = following, count + 1
        connection.unread = data[at:]
        connection.left -= count
        return count


@contextlib.contextmanager
def load(address: str, frame: bytes, connections: int, in_flight: int) -> Iterator[Load]:
    """Yield a :class:`Load`, which is closed at the end of the block."""
    made = Load(address, frame, connections, in_flight)
    try:
        yield made
    finally:
        made.close()
