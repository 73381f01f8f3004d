"""Answers every Kafka frame with the same bytes, until SIGTERM; prints its address first.

    python -m tools.other_servers.empty_server LOOP RESPONSE

It decodes no request and knows no API: what it costs is what sockets and the event loop cost any
server in Python, before the first line of its own. LOOP is ``trio``, with a task for each
connection as kwire has, or ``epoll``, a loop over ``select.epoll`` without any framework. RESPONSE
is a whole frame in hexadecimal digits.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import sys
from collections.abc import Callable, Mapping
from typing import Final

import trio

_SIZE: Final = struct.Struct(">i")
_RECEIVE_BYTES: Final = 1 << 16


class _Connection:
    """``unread``: bytes that are not a whole frame yet."""

    __slots__ = ("_response", "_unread", "sock")

    def __init__(self, sock: socket.socket, response: bytes) -> None:
        self.sock = sock
        self._response = response
        self._unread = b""

    def answer(self) -> bool:
        """Receive once and answer all whole frames; False at the end of the stream. Raises
        BlockingIOError if there is nothing to receive.
        """
        data = self.sock.recv(_RECEIVE_BYTES)
        if not data:
            return False
        data = self._unread + data if self._unread else data
        at = count = 0
        while len(data) - at >= _SIZE.size:
            following = at + _SIZE.size + _SIZE.unpack_from(data, at)[0]
            if following > len(data):
                break
            at, count = following, count + 1
        self._unread = data[at:]
        if count:
            # The clients of the bench read all responses before they send again, so the socket
            # takes all bytes at once.
            self.sock.send(self._response * count)
        return True


def _listener() -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    listener.setblocking(False)
    print("{}:{}".format(*listener.getsockname()), flush=True)
    return listener


def _accept(listener: socket.socket, response: bytes) -> _Connection:
    sock, _ = listener.accept()
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return _Connection(sock, response)


def _with_trio(response: bytes) -> None:
    async def serve(connection: _Connection) -> None:
        with connection.sock, contextlib.suppress(OSError):
            while True:
                await trio.lowlevel.wait_readable(connection.sock)
                if not connection.answer():
                    return

    async def main() -> None:
        with _listener() as listener:
            async with trio.open_nursery() as nursery:
                while True:
                    await trio.lowlevel.wait_readable(listener)
                    nursery.start_soon(serve, _accept(listener, response))

    trio.run(main)


def _with_epoll(response: bytes) -> None:
    poll, by_fd = select.epoll(), dict[int, _Connection]()
    with _listener() as listener:
        poll.register(listener.fileno(), select.EPOLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd == listener.fileno():
                    accepted = _accept(listener, response)
                    by_fd[accepted.sock.fileno()] = accepted
                    poll.register(accepted.sock.fileno(), select.EPOLLIN)
                    continue
                is_open = False
                with contextlib.suppress(OSError):
                    is_open = by_fd[fd].answer()
                if not is_open:
                    poll.unregister(fd)
                    by_fd.pop(fd).sock.close()


_LOOPS: Final[Mapping[str, Callable[[bytes], None]]] = {"trio": _with_trio, "epoll": _with_epoll}


if __name__ == "__main__":
    _LOOPS[sys.argv[1]](bytes.fromhex(sys.argv[2]))
