"""Wraps an accepted socket in TLS: it never waits, and has the few methods that a connection uses.

A call that would wait raises BlockingIOError, as with a plain socket. OpenSSL gets the peer's bytes
in small pieces: one call of it reads on until it has data of the application, however many key
updates (RFC 8446, 4.6.3) come before them. Ranges of files are read and encrypted, because sendfile
cannot encrypt.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import trio

from gateway.base.sizes import KIB
from gateway.ports.services import FileRange
from gateway.server.clients.output import FileTooShort, Output
from kwire.frame import foreign_protocol

if TYPE_CHECKING:
    from gateway.server.scheduling.loop_pass_budget import LoopPassBudget

#: Bytes of the peer that one call decrypts at most. As key updates of 27 bytes each they take 4 to
#: 7 ms.
RECEIVED_MAX: Final = 4 * KIB
#: Bytes that one call of :meth:`SecureSocket.send` encrypts at most, so that others have a turn.
_SEND_MAX: Final = 512 * KIB
#: Bytes that are encrypted at once, and then sent.
_ENCRYPTED_MAX: Final = 64 * KIB
#: Bytes of answers to key updates that a peer may leave unread.
REPLIES_MAX: Final = 16 * KIB
#: Bytes of a file that are read and encrypted at once.
_READ_MAX: Final = 256 * KIB
#: How long a connection whose handshake failed waits for its peer to close, s.
_LINGER_S: Final = 1.0


class SecureSocket:
    """Takes over ``sock``, which is connected and does not block. :meth:`shake_hands` comes first.

    Raises OSError (ssl.SSLError is one) if the peer has disconnected or does not use TLS.
    """

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self._sock = sock
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._first = b""
        self._is_secure = False
        self._unsent = bytearray()  # encrypted bytes that the socket has not taken yet
        self._covered = 0  # bytes of the application that are in them

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
                self._first = self._sock.recv(4, socket.MSG_PEEK)
            if not self._is_secure:
                self._receive()
                self._tls.do_handshake()
                self._is_secure = True
        except (BlockingIOError, ssl.SSLWantReadError):
            pass
        except ssl.SSLError:
            if self.foreign is None:
                self._flush()  # the alert
            raise
        if not self._flush():
            return trio.lowlevel.wait_writable
        return None if self._is_secure else trio.lowlevel.wait_readable

    @property
    def certificate(self) -> bytes | None:
        """The peer's certificate (DER), which is verified; None if it showed none."""
        return self._tls.getpeercert(binary_form=True)

    def fileno(self) -> int:
        """-1 once it is closed."""
        return self._sock.fileno()

    def recv(self, size: int) -> bytes:
        """Receive up to ``size`` bytes; b"" at the end of the stream. Raises BlockingIOError."""
        data = self._decrypted(size)
        if data is None:
            self._receive()
            data = self._decrypted(size)
        if self._outgoing.pending:
            self._reply()
        if data is None:
            raise BlockingIOError
        return data

    def send(self, data: Any, flags: int = 0) -> int:
        """Send and return the number of bytes sent.

        Raises BlockingIOError; the next call must then begin with the same ``data``, because some
        of it is encrypted.
        """
        view, sent = memoryview(data)[:_SEND_MAX], 0
        while sent < len(view):
            if not self._covered:
                self._encrypt(view[sent : sent + _ENCRYPTED_MAX])
            if not self._flush():
                break
            sent, self._covered = sent + self._covered, 0
        if not sent and view:
            raise BlockingIOError
        return sent

    def finish(self) -> bool:
        """Send nothing more, and drop what has come; False once the peer has closed."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)
        try:
            return bool(self._sock.recv(_READ_MAX))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def close(self) -> None:
        """Close, with close_notify if it can be sent at once.

        Some clients take an end without it for an attack. Those that resume a session of TLS 1.2 by
        its id (RFC 5246), in place of a ticket, get none: OpenSSL would keep 20,480 of these
        sessions, each with the certificates that the client sent, and Python cannot switch that
        off.
        """
        if not self._has_session_id():
            with contextlib.suppress(OSError, ValueError):
                self._tls.unwrap()
        with contextlib.suppress(OSError):
            if self._is_secure:
                self._flush()
        self._sock.close()

    def _has_session_id(self) -> bool:
        session = self._tls.session
        return session is not None and bool(session.id) and self._tls.version() == "TLSv1.2"

    def _receive(self) -> None:
        """Give OpenSSL the next bytes of the peer. Raises BlockingIOError if there are none."""
        data = self._sock.recv(RECEIVED_MAX)
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    def _decrypted(self, size: int) -> bytes | None:
        """The data of the next record; None if it is not here yet, b"" at the end of the stream."""
        try:
            return self._tls.read(size)
        except ssl.SSLWantReadError:
            return None
        except ssl.SSLEOFError:
            return b""

    def _encrypt(self, view: memoryview) -> None:
        while self._covered < len(view):
            self._covered += self._tls.write(view[self._covered :])  # a record at a time

    def _reply(self) -> None:
        """Send what OpenSSL answers by itself. Raises ConnectionError if the peer leaves it
        unread.
        """
        if not self._flush() and not self._covered and len(self._unsent) > REPLIES_MAX:
            raise ConnectionError("key updates whose answers the peer does not read")

    def _flush(self) -> bool:
        """Send the encrypted bytes; False if the socket does not take all of them now."""
        self._unsent += self._outgoing.read()
        try:
            while self._unsent:
                del self._unsent[: self._sock.send(self._unsent)]
        except BlockingIOError:
            return False
        return True


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
    secured: SecureSocket, turns: LoopPassBudget
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
