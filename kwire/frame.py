"""Cuts a stream of bytes into frames: four size bytes (int32, big-endian), then so many bytes. It
does not read their contents.

None means that more bytes are needed. An invalid size is refused before anything is allocated for
it.
"""

from __future__ import annotations

import struct
from typing import Final

from kwire.errors import DecodeError

SIZE_BYTES: Final = 4
_size = struct.Struct(">i")


#: How a TLS handshake begins (RFC 8446 5.1), and an alert, which a TLS listener sends to a client
#: that does not speak TLS.
_TLS_HANDSHAKE: Final = b"\x16\x03"
_TLS_ALERT: Final = b"\x15\x03"
_HTTP: Final = (b"GET ", b"POST", b"HEAD", b"PUT ", b"DELE", b"OPTI", b"CONN", b"PRI ", b"HTTP")


def foreign_protocol(start: bytes) -> str | None:
    """Return what begins with the bytes ``start`` where a frame should: "a TLS handshake" and
    others; None if no other protocol is recognized.
    """
    if start[:2] == _TLS_HANDSHAKE:
        return "a TLS handshake"
    if start[:2] == _TLS_ALERT:
        return "a TLS alert"
    return "an HTTP message" if start[:4] in _HTTP else None


class FrameSplitter:
    """Takes the received bytes, in pieces of any length, and returns whole frames without their
    size bytes.

    ``limit`` is the largest frame in bytes, and may be changed between frames. The splitter holds
    the bytes that were fed and not yet taken, and nothing more, whatever a size claims.
    """

    __slots__ = ("_buffer", "_position", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        # One bytes object while a single piece is worked on (the common case: no copy but the
        # frame's own), a bytearray once frames come in pieces, so that a trickle costs no more than
        # its bytes.
        self._buffer: bytes | bytearray = b""
        self._position = 0

    @property
    def buffered(self) -> int:
        """Bytes fed and not yet taken."""
        return len(self._buffer) - self._position

    def feed(self, data: bytes) -> None:
        """Add bytes in the order in which they were received."""
        if self._position == len(self._buffer):
            self._buffer, self._position = data, 0
            return
        if type(self._buffer) is not bytearray:
            self._buffer, self._position = bytearray(memoryview(self._buffer)[self._position :]), 0
        elif self._position:
            del self._buffer[: self._position]
            self._position = 0
        self._buffer += data

    def missing(self) -> int:
        """The number of bytes that the next frame still lacks, 0 if it is whole; until its size
        bytes have arrived, the number of those that are missing.

        Raises DecodeError if the next size is not positive or above ``limit``.
        """
        held = self.buffered
        if held < SIZE_BYTES:
            return SIZE_BYTES - held
        return max(0, SIZE_BYTES + self._next_size() - held)

    def next_frame(self) -> bytes | None:
        """The next whole frame, or None: more bytes are needed. Raises DecodeError as
        :meth:`missing` does.
        """
        start = self._position + SIZE_BYTES
        if len(self._buffer) < start:
            return None
        end = start + self._next_size()
        if len(self._buffer) < end:
            return None
        self._position = end
        if type(self._buffer) is bytes:
            return self._buffer[start:end]
        frame = bytes(memoryview(self._buffer)[start:end])
        if end == len(self._buffer):
            self._buffer, self._position = (
                b"",
                0,
            )  # a large buffer goes with the frame that needed it
        return frame

    def _next_size(self) -> int:
        (size,) = _size.unpack_from(self._buffer, self._position)
        if size <= 0:
            # Kafka takes an empty frame and fails on its header; nothing can be in one, so it is
            # refused here.
            raise DecodeError(f"a frame of {size} bytes", offset=0, rule="frame-size")
        if size > self.limit:
            # No frame of a few hundred megabytes: the first bytes of another protocol as a size.
            foreign = foreign_protocol(bytes(self._buffer[self._position : self._position + 4]))
            text = (
                f"a frame of {size} bytes, above the limit of {self.limit}"
                if foreign is None
                else f"{foreign} in place of a frame of Kafka's protocol"
            )
            raise DecodeError(text, offset=0, rule="frame-limit")
        return int(size)


def frame(*parts: bytes) -> bytes:
    """The parts, joined, behind the size of the whole."""
    return b"".join((_size.pack(sum(map(len, parts))), *parts))
