"""A small client that is cut has no connection that it could wait for."""

from __future__ import annotations

import socket

import pytest

from tests.kwire.conformance.client.small.life import Life


def test_connection_that_is_made_while_the_client_is_cut_is_closed() -> None:
    life = Life("none", print)
    with socket.create_server(("127.0.0.1", 0)) as server:
        life.cut()
        with pytest.raises(OSError, match="cut"):
            life.connect(server.getsockname())
        accepted, _ = server.accept()
        with accepted:
            assert accepted.recv(1) == b""
