"""A client of TLS 1.3 that sends key updates (RFC 8446, 4.6.3), which Python's ``ssl`` cannot.

OpenSSL performs the handshake and decrypts what comes. The records that go out are made here, with
the secrets of the key log.
"""

from __future__ import annotations

import contextlib
import hmac
import socket
import ssl
import struct
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_DATA: Final = b"\x17"
_HANDSHAKE: Final = b"\x16"
_TAG_BYTES: Final = 16
#: Hash and bytes of the key, by cipher suite.
_SUITES: Final = {
    "TLS_AES_256_GCM_SHA384": ("sha384", 32),
    "TLS_AES_128_GCM_SHA256": ("sha256", 16),
}


class KeyUpdates:
    """``sock`` is connected and does not block; ``secrets`` becomes a file."""

    def __init__(self, sock: socket.socket, secrets: Path) -> None:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.keylog_filename = str(secrets)
        self._sock, self._secrets = sock, secrets
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing)
        self._secret = b""
        self._number = 0  # of the next record under this secret

    def shake_hands(self) -> bool:
        """Continue the handshake; True when it is done on this side."""
        with contextlib.suppress(BlockingIOError):
            self._incoming.write(self._sock.recv(1 << 16))
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        finally:
            self._sock.sendall(self._outgoing.read())
        cipher = self._tls.cipher()
        assert cipher is not None
        self._hash, self._key_bytes = _SUITES[cipher[0]]
        lines = map(str.split, self._secrets.read_text().splitlines())
        self._secret = next(
            bytes.fromhex(words[2]) for words in lines if words[0] == "CLIENT_TRAFFIC_SECRET_0"
        )
        return True

    def records(self, count: int, *, wants_answer: bool = False) -> bytes:
        """``count`` key updates."""
        made = []
        for _ in range(count):
            update = b"\x18\0\0\x01" + bytes([wants_answer])
            made.append(self._record(update + _HANDSHAKE))
            self._secret = self._expanded(b"traffic upd", len(self._secret))
            self._number = 0
        return b"".join(made)

    def data(self, data: bytes) -> bytes:
        """A record with data of the application."""
        return self._record(data + _DATA)

    def read(self, size: int) -> bytes:
        """Read ``size`` bytes of the socket, and return the data in them."""
        with contextlib.suppress(BlockingIOError):
            self._incoming.write(self._sock.recv(size))
        found = b""
        with contextlib.suppress(ssl.SSLWantReadError):
            while True:
                found += self._tls.read(1 << 16)
        return found

    def _record(self, inner: bytes) -> bytes:
        head = _DATA + b"\x03\x03" + struct.pack(">H", len(inner) + _TAG_BYTES)
        start = int.from_bytes(self._expanded(b"iv", 12), "big")
        nonce = (start ^ self._number).to_bytes(12, "big")
        self._number += 1
        return head + AESGCM(self._expanded(b"key", self._key_bytes)).encrypt(nonce, inner, head)

    def _expanded(self, label: bytes, size: int) -> bytes:
        """HKDF-Expand-Label (RFC 8446, 7.1) of no context; one block of the hash is enough."""
        label = b"tls13 " + label
        info = struct.pack(">HB", size, len(label)) + label + b"\0\x01"
        return hmac.digest(self._secret, info, self._hash)[:size]
