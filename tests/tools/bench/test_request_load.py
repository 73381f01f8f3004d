"""The load of the bench of requests: it counts whole responses, also those that come in parts."""

from __future__ import annotations

import socket
import threading

import pytest

from tools.bench.request_load import load

_FRAME = b"\0\0\0\2ab"


def _serve(listener: socket.socket, answers: bytes) -> None:
    """Answer each request with ``answers``, byte by byte, until the client closes."""
    connection, _ = listener.accept()
    with connection:
        while connection.recv(len(_FRAME), socket.MSG_WAITALL):
            for at in range(len(answers)):
                connection.sendall(answers[at : at + 1])


@pytest.mark.parametrize("in_flight", [1, 3])
def test_responses_in_parts_are_counted_once(in_flight: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_serve, args=(listener, b"\0\0\0\3xyz"))
        thread.start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with load(address, _FRAME, 1, in_flight) as made:
            count, took = made.run(0.05)
        thread.join(10)
    assert count % in_flight == 0 and count >= in_flight and took >= 0.05


def test_server_that_closes_ends_the_load() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=lambda: listener.accept()[0].close())
        thread.start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with load(address, _FRAME, 1, 1) as made, pytest.raises((EOFError, ConnectionError)):
            made.run(1.0)
        thread.join(10)


@pytest.mark.parametrize("is_continuous", [True, False])
def test_first_request_of_a_connection_is_not_counted(is_continuous: bool) -> None:
    received: list[bytes] = []

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            while data := connection.recv(len(_FRAME), socket.MSG_WAITALL):
                received.append(data)
                connection.sendall(b"\0\0\0\3xyz")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        first = b"\0\0\0\2cd"
        with load(address, _FRAME, 1, 3, first=first, is_continuous=is_continuous) as made:
            count, _ = made.run(0.05)
        thread.join(10)
    assert received == [first] + [_FRAME] * count
