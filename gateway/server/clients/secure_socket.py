"""Wraps an accepted socket in TLS: it never waits, and has the few methods that a connection uses.

A call that would wait raises BlockingIOError, as with a plain socket. Ranges of files are read and
encrypted, because sendfile cannot encrypt.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import trio

from gateway.ports import FileRange
from gateway.server.clients.output import FileTooShort, Output
from gateway.sizes import KIB
from kwire.frame import foreign_protocol

if TYPE_CHECKING:
    from gateway.server.turns import Turns

#: Bytes that one call of :meth:`SecureSocket.send` encrypts at most, so that others have a turn.
_SEND_MAX: Final = 512 * KIB
#: Bytes of a file that are read and encrypted at once.
_READ_MAX: Final = 256 * KIB
#: How long a connection whose handshake failed waits for its peer to close, s.
_LINGER_S: Final = 1.0


class SecureSocket:
    """Takes over ``sock``, which is connected and does not block. :meth:`shake_hands` comes first.

    Raises OSError (ssl.SSLError is one) if the peer has disconnected or does not use TLS.
    """

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self._tls = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        self._first = b""

    @property
    def foreign(self) -> str | None:
        """A sentence about what came in place of a TLS handshake; None where that is not known."""
        # A request begins with its size, which is below 16 MiB.
        what = "a request" if self._first[:1] == b"\0" else foreign_protocol(self._first)
        is_tls = what is None or what.startswith("a TLS")
        return None if is_tls else f"{what} without TLS in place of a TLS handshake"

    def shake_hands(self) -> Callable[[Any], Awaitable[None]] | None:
        """Continue the handshake.

        Returns the function that waits for the next step, or None when the handshake is done.
        """
        try:
            if not self._first:
                # SSLSocket.recv takes no flags.
                self._first = socket.socket.recv(self._tls, 4, socket.MSG_PEEK)
            self._tls.do_handshake()
        except BlockingIOError:
            return trio.lowlevel.wait_readable
        except ssl.SSLWantReadError:
            return trio.lowlevel.wait_readable
        except ssl.SSLWantWriteError:
            return trio.lowlevel.wait_writable
        return None

    @property
    def certificate(self) -> bytes | None:
        """The peer's certificate (DER), which is verified; None if it showed none."""
        return self._tls.getpeercert(binary_form=True)

    def fileno(self) -> int:
        """-1 once it is closed."""
        return self._tls.fileno()

    def recv(self, size: int) -> bytes:
        """Receive up to ``size`` bytes; b"" at the end of the stream. Raises BlockingIOError."""
        try:
            return self._tls.recv(size)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def send(self, data: Any, flags: int = 0) -> int:
        """Send and return the number of bytes sent.

        Raises BlockingIOError; the next call must then begin with the same ``data``, because
        OpenSSL has encrypted some of it.
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

    def finish(self) -> bool:
        """Send nothing more, and drop what has come; False once the peer has closed."""
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._tls, socket.SHUT_WR)
        try:
            return bool(socket.socket.recv(self._tls, _READ_MAX))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def close(self) -> None:
        """Close, with close_notify if it can be sent at once.

        Some clients take an end without it for an attack.
        """
        with contextlib.suppress(OSError, ValueError):
            self._tls.unwrap()
        self._tls.close()


async def end_failed_handshake(secured: socket.socket | SecureSocket) -> None:
    """Let the peer read the end of the stream, and the alert before it, if there is one.

    A socket that is closed with bytes unread is reset, and the peer loses what it did not read: it
    reports a broken connection in place of another protocol.
    """
    assert isinstance(secured, SecureSocket)
    with trio.move_on_after(_LINGER_S), contextlib.suppress(trio.ClosedResourceError):
        while secured.finish():
            await trio.lowlevel.wait_readable(secured)


async def handshake_step(
    secured: SecureSocket, turns: Turns
) -> Callable[[Any], Awaitable[None]] | None:
    """Continue the handshake as :meth:`SecureSocket.shake_hands` does, when it is this connection's
    turn.

    A signature takes up to some ms of the event loop, and every peer may ask for one.
    """
    if turns.is_full:
        await turns.wait()
    began = trio.current_time()
    try:
        return secured.shake_hands()
    finally:
        turns.spent(trio.current_time() - began)


class SecureOutput(Output):
    """An Output that reads and encrypts ranges of files."""

    __slots__ = ()

    def _send_range(self, item: FileRange) -> bool:
        data = os.pread(item.fd, min(item.length, _READ_MAX), item.position)
        if not data:
            raise FileTooShort(item)
        sent = self._sock.send(data)
        self._moved(sent)
        self._items.popleft()
        if sent < item.length:
            self._items.appendleft(FileRange(item.fd, item.position + sent, item.length - sent))
        return sent == len(data)
