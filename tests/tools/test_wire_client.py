"""The blocking client against a server of one answer."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from kwire.header import decode_request_header, encode_response_header
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from tools.wire_client import WireClient

_ANSWER = ApiVersionsResponse(api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)])


@pytest.fixture
def address() -> Iterator[str]:
    """Answers the first request in two pieces, and closes on the second."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            frame = _frame(connection)
            header, _ = decode_request_header(frame)
            body = encode_response_header(18, 3, header.correlation_id) + _ANSWER.encode(3)
            answer = struct.pack(">i", len(body)) + body
            connection.sendall(answer[:7])
            connection.sendall(answer[7:])
            _frame(connection)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"127.0.0.1:{listener.getsockname()[1]}"
    listener.close()
    thread.join(5)


def _frame(connection: socket.socket) -> bytes:
    [size] = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
    return connection.recv(size, socket.MSG_WAITALL)


def test_response_is_assembled_and_a_closed_connection_raises(address: str) -> None:
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    with WireClient(address, timeout_s=5) as client:
        assert client.call(request, 3) == _ANSWER
        with pytest.raises(EOFError, match="4 of 4 bytes missing"):
            client.call(request, 3)


def test_size_of_an_answer_is_that_of_its_frame(address: str) -> None:
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    with WireClient(address, timeout_s=5) as client:
        assert client.size_of_answer(request, 3) == 4 + len(_ANSWER.encode(3))
        with pytest.raises(EOFError):
            client.size_of_answer(request, 3)
