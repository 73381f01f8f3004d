"""TLS for a connection that was accepted: a socket that does not wait, with the few methods that a
connection uses of one.

It says "try again" as a plain socket does, by BlockingIOError, and encrypts what is read of files:
there is no sendfile.
"""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import trio

from gateway.ports import FileRange
from gateway.server.clients.output import FileTooShort, Output

if TYPE_CHECKING:
    import socket

#: One call of :meth:`SecureSocket.send` encrypts so much at most: the others get their turn.
_SEND_MAX: Final = 512 * 1024
#: Bytes of a file that are read and encrypted at once.
_READ_MAX: Final = 256 * 1024


class SecureSocket:
    """Takes over ``sock``, which is connected and does not block. :meth:`shake_hands` comes first.

    Raises OSError (ssl.SSLError is one) where the peer is gone or speaks no TLS.
    """

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self._tls = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)

    def shake_hands(self) -> Callable[[Any], Awaitable[None]] | None:
        """Go on with the handshake. What to wait for before the next call, or None when it is done."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return trio.lowlevel.wait_readable
        except ssl.SSLWantWriteError:
            return trio.lowlevel.wait_writable
        return None

    @property
    def certificate(self) -> bytes | None:
        """The peer's (DER), which was verified; None where it showed none."""
        return self._tls.getpeercert(binary_form=True)

    def fileno(self) -> int:
        """-1 once it is closed."""
        return self._tls.fileno()

    def recv(self, size: int) -> bytes:
        """What is there; b"" at the end of the stream. Raises BlockingIOError."""
        try:
            return self._tls.recv(size)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def send(self, data: Any, flags: int = 0) -> int:
        """Bytes that went out. Raises BlockingIOError; ``data`` must then be the beginning of what
        is sent next.
        """
        view, sent = memoryview(data)[:_SEND_MAX], 0
        while sent < len(view):
            try:
                sent += self._tls.send(view[sent:])  # a record at a time
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                if not sent:
                    raise BlockingIOError from None
                break
        return sent

    def close(self) -> None:
        """With close_notify, where it can be sent at once: some clients take any other end for an
        attack.
        """
        with contextlib.suppress(OSError, ValueError):
            self._tls.unwrap()
        self._tls.close()


class SecureOutput(Output):
    """Ranges of files are read, encrypted and sent, not handed to the system."""

    __slots__ = ()

    def _send_range(self, item: FileRange) -> bool:
        data = os.pread(item.fd, min(item.length, _READ_MAX), item.position)
        if not data:
            raise FileTooShort(
                f"{item.length} bytes promised from position {item.position} are not there any more"
            )
        sent = self._sock.send(data)
        self._moved(sent)
        self._items.popleft()
        if sent < item.length:
            self._items.appendleft(FileRange(item.fd, item.position + sent, item.length - sent))
        return sent == len(data)
