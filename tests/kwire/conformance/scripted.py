"""A server for tests of the runner: it answers ApiVersions itself, all else by a script."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping

from kwire.conformance.connection import open_plain
from kwire.conformance.session import Target
from kwire.frame import FrameSplitter, frame
from kwire.header import encode_response_header, peek
from kwire.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from kwire.protocol import ApiKey

#: Sends what it likes in place of an answer to a request (without its size). False closes.
Script = Callable[[socket.socket, bytes], bool]

OFFERED = {ApiKey.API_VERSIONS: (0, 3), ApiKey.METADATA: (0, 12)}


def api_versions(
    connection: socket.socket,
    request: bytes,
    offered: Mapping[ApiKey, tuple[int, int]] = OFFERED,
) -> None:
    """Answer an ApiVersions request."""
    _, version, number = peek(request)
    keys = [
        ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in offered.items()
    ]
    body = ApiVersionsResponse(api_keys=keys).encode(version)
    connection.sendall(frame(encode_response_header(18, version, number), body))


@contextlib.contextmanager
def server(script: Script, offered: Mapping[ApiKey, tuple[int, int]] = OFFERED) -> Iterator[Target]:
    """A listener whose connections run ``script`` for every request but ApiVersions."""

    def answer(connection: socket.socket, request: bytes) -> bool:
        if peek(request)[0] != ApiKey.API_VERSIONS:
            return script(connection, request)
        api_versions(connection, request, offered)
        return True

    with bare_server(answer) as target:
        yield target


@contextlib.contextmanager
def bare_server(script: Script) -> Iterator[Target]:
    """A listener whose connections run ``script`` for every request."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    port = int(listener.getsockname()[1])

    def serve(connection: socket.socket) -> None:
        splitter = FrameSplitter(1 << 20)
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(65536):
                splitter.feed(data)
                while (request := splitter.next_frame()) is not None:
                    if not script(connection, request):
                        return

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    plain = open_plain("127.0.0.1", port)
    try:
        yield Target(f"127.0.0.1:{port}", plain, plain)
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
