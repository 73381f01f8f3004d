"""Opens a blocking Kafka connection: one request, one response. It is for measurements and
tests.
"""

from __future__ import annotations

import socket
import struct
from typing import Any, Self, cast

from kwire import Message, response_type
from kwire.header import decode_response_header, encode_request_header
from tools.process import PATIENCE_S

_SIZE = struct.Struct(">i")


class WireClient:
    """A connection to ``host:port``; every call waits for its answer. Raises OSError, and
    DecodeError for a bad answer.
    """

    def __init__(self, address: str, timeout_s: float = PATIENCE_S) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def set_timeout(self, timeout_s: float) -> None:
        """Set the timeout of each step of later calls."""
        self._socket.settimeout(timeout_s)

    def call(self, request: Message, version: int) -> Any:
        """Send ``request`` at ``version``, return its response. Raises EOFError when the server
        closes instead.
        """
        api_key = cast(int, request.API_KEY)
        self._send(request, version)
        answer = self._receive(self._receive_size())
        header, body = decode_response_header(api_key, version, answer)
        if header.correlation_id != self._correlation_id:
            raise OSError(f"answer {header.correlation_id} to request {self._correlation_id}")
        return response_type(api_key).decode(answer[body:], version)

    def size_of_answer(self, request: Message, version: int) -> int:
        """Send ``request`` at ``version``, and return how many bytes its answer has, which are
        read and not kept. Raises EOFError when the server closes instead.
        """
        self._send(request, version)
        left = size = self._receive_size()
        while left:
            left -= len(self._receive(min(left, 1 << 20)))
        return size

    def _send(self, request: Message, version: int) -> None:
        self._correlation_id += 1
        api_key = cast(int, request.API_KEY)
        frame = encode_request_header(
            api_key, version, self._correlation_id, "wire-client"
        ) + request.encode(version)
        self._socket.sendall(_SIZE.pack(len(frame)) + frame)

    def _receive_size(self) -> int:
        return int(_SIZE.unpack(self._receive(_SIZE.size))[0])

    def _receive(self, size: int) -> bytes:
        parts, left = [], size
        while left:
            part = self._socket.recv(min(left, 1 << 20))
            if not part:
                raise EOFError(
                    f"the server closed the connection with {left} of {size} bytes missing"
                )
            parts.append(part)
            left -= len(part)
        return b"".join(parts)
