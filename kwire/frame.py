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

    __slots__ = ("_buffer", "_head", "_position", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        # ``_buffer`` is the newest piece, from which whole frames are cut, and ``_head`` has what
        # comes before it: the beginning of a frame, once more of it has come. A trickle costs no
        # more than its bytes, and a piece with the rest of a frame and others is not copied.
        self._buffer = b""
        self._position = 0
        self._head = bytearray()

    @property
    def buffered(self) -> int:
        """Bytes fed and not yet taken."""
        return len(self._head) + len(self._buffer) - self._position

    def feed(self, data: bytes) -> None:
        """Add bytes in the order in which they were received."""
        if self._position < len(self._buffer):
            self._head += memoryview(self._buffer)[self._position :]
        self._buffer, self._position = data, 0

    def missing(self) -> int:
        """The number of bytes that the next frame still lacks, 0 if it is whole; until its size
        bytes have arrived, the number of those that are missing.

        Raises DecodeError if the next size is not positive or above ``limit``.
        """
        held = self.buffered
        if held < SIZE_BYTES:
            return SIZE_BYTES - held
        if self._head:
            self._move_to_head(SIZE_BYTES)
            return max(0, SIZE_BYTES + self._size_at(self._head, 0) - held)
        return max(0, SIZE_BYTES + self._size_at(self._buffer, self._position) - held)

    def next_frame(self) -> bytes | None:
        """The next whole frame, or None: more bytes are needed. Raises DecodeError as
        :meth:`missing` does.
        """
        found = self.next_buffer()
        return None if found is None else bytes(found)

    def next_buffer(self) -> bytes | bytearray | None:
        """As :meth:`next_frame`, without a copy of a frame that came in pieces."""
        if self._head:
            return self._frame_of_head()
        data, start = self._buffer, self._position + SIZE_BYTES
        end = start + self._size_at(data, self._position) if len(data) >= start else start
        if len(data) < end:
            # Now, so that nothing keeps a large piece for the few bytes that are left of it.
            self._move_to_head(len(data))
            return None
        if end == len(data):
            self._buffer, self._position = b"", 0
        else:
            self._position = end
        return data[start:end]

    def _frame_of_head(self) -> bytes | bytearray | None:
        head = self._head
        self._move_to_head(SIZE_BYTES)
        if len(head) < SIZE_BYTES:
            return None
        end = SIZE_BYTES + self._size_at(head, 0)
        self._move_to_head(end)
        if len(head) < end:
            return None
        if len(head) == end:
            self._head = bytearray()
            del head[:SIZE_BYTES]
            return head
        found = bytes(memoryview(head)[SIZE_BYTES:end])
        del head[:end]
        return found

    def _move_to_head(self, size: int) -> None:
        """Make the head ``size`` bytes long, as far as these have come."""
        data, start, more = self._buffer, self._position, size - len(self._head)
        if more > 0:
            self._head += memoryview(data)[start : start + more]
            if start + more < len(data):
                self._position = start + more
            else:
                self._buffer, self._position = b"", 0

    def _size_at(self, data: bytes | bytearray, position: int) -> int:
        (size,) = _size.unpack_from(data, position)
        if size <= 0:
            # Kafka takes an empty frame and fails on its header; nothing can be in one, so it is
            # refused here.
            raise DecodeError(f"a frame of {size} bytes", offset=0, rule="frame-size")
        if size > self.limit:
            # No frame of a few hundred megabytes: the first bytes of another protocol as a size.
            foreign = foreign_protocol(bytes(data[position : position + 4]))
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
