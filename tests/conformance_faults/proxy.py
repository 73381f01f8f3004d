"""Forwards Kafka connections to a server, and puts one fault into them.

It forwards whole frames, in threads. A fault overrides the methods of :class:`Fault` that it needs.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Any, Final, Self

from kwire.errors import DecodeError, WireError
from kwire.frame import FrameSplitter, frame
from kwire.header import decode_request_header, peek, response_header_version
from kwire.message import Message
from kwire.protocol import ApiKey
from kwire.registry import request_type, response_type
from tests.waiting import PATIENCE_S

_CHUNK: Final = 1 << 16
_FRAME_MAX: Final = 1 << 24


class Fault:
    """No fault. ``closed`` is True from when the server has closed the connection."""

    #: The proxy keeps the client's connection open when the server closes its own.
    hides_close = False
    #: A response is missing, so that the rule ends by its time.
    loses_responses = False
    #: The time that the rule has, s.
    time_s = PATIENCE_S

    def received(self, data: bytes) -> bytes | None:
        """Return the bytes of one ``recv`` from the client; None closes the connection."""
        return data

    def request(self, data: bytes) -> bytes:
        """Return a request as the server gets it, both without size bytes."""
        return data

    def response(self, request: bytes, response: bytes) -> list[bytes]:
        """Return the bytes that the client gets for a response, size bytes included."""
        return [frame(response)]


class Changed(Fault):
    """Changes the decoded responses of one API. ``change`` changes a message in place, or returns
    another one.
    """

    def __init__(self, api: int, change: Any, versions: range = range(100)) -> None:
        self._api, self._change, self._versions = api, change, versions

    def response(self, request: bytes, response: bytes) -> list[bytes]:
        api, version, _ = peek(request)
        form = response_type(api)
        if api == ApiKey.API_VERSIONS and response[4:6] == b"\0\x23":  # in version 0 (KIP-511)
            version = 0
        if api != self._api or version not in self._versions:
            return [frame(response)]
        start = 4 + response_header_version(api, version)
        message = form.decode(response[start:], version)
        changed = self._change(message, decoded(request))
        return [frame(response[:start], (changed or message).encode(version))]


def decoded(request: bytes) -> Message:
    """Return the message of a request, its defaults if it does not decode."""
    api, version, _ = peek(request)
    form = request_type(api)
    try:
        _, start = decode_request_header(request)
        return form.decode(request[start:], version)
    except WireError:
        return form()


class Bytes(Fault):
    """Changes the bytes of the responses of one API. ``change`` takes and returns a frame without
    its size.
    """

    def __init__(self, api: int, change: Any) -> None:
        self._api, self._change = api, change

    def response(self, request: bytes, response: bytes) -> list[bytes]:
        api, _, _ = peek(request)
        return [frame(self._change(response) if api == self._api else response)]


class Proxy:
    """``with Proxy(address, fault) as proxy`` listens at ``127.0.0.1:proxy.port``."""

    def __init__(self, target: str, fault: Fault) -> None:
        host, _, port = target.rpartition(":")
        self._target, self._fault = (host, int(port)), fault
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: object, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for one in self._sockets:
                _close(one)

    @property
    def address(self) -> str:
        """``host:port`` of the proxy."""
        return f"127.0.0.1:{self.port}"

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self._target)
        except OSError:
            client.close()
            return
        with self._lock:
            self._sockets |= {client, server}
        for one in (client, server):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        requests: list[bytes] = []
        back = threading.Thread(target=self._back, args=(server, client, requests), daemon=True)
        back.start()
        self._forth(client, server, requests)
        back.join()
        if not self._fault.hides_close:
            _close(client)
        _close(server)

    def _forth(self, client: socket.socket, server: socket.socket, requests: list[bytes]) -> None:
        splitter = FrameSplitter(_FRAME_MAX)
        with contextlib.suppress(OSError):
            while data := client.recv(_CHUNK):
                passed = self._fault.received(data)
                if passed is None:
                    _close(server)
                    return
                splitter.feed(passed)
                try:
                    while (one := splitter.next_frame()) is not None:
                        requests.append(one)
                        server.sendall(frame(self._fault.request(one)))
                except DecodeError:  # no frame of Kafka: the server gets it as it is
                    server.sendall(passed[-splitter.buffered :])
                    splitter = FrameSplitter(_FRAME_MAX)
            server.shutdown(socket.SHUT_WR)

    def _back(self, server: socket.socket, client: socket.socket, requests: list[bytes]) -> None:
        splitter = FrameSplitter(_FRAME_MAX)
        with contextlib.suppress(OSError):
            while data := server.recv(_CHUNK):
                splitter.feed(data)
                while (one := splitter.next_frame()) is not None:
                    for piece in self._fault.response(requests.pop(0), one):
                        client.sendall(piece)
        if not self._fault.hides_close:
            _close(client)


def _close(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    with contextlib.suppress(OSError):
        one.close()
