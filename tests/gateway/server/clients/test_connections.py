"""Options of the sockets of admitted connections."""

from __future__ import annotations

import socket

import pytest

from gateway.config.config import Config
from gateway.server.clients.connections import _LOCAL, _prepare


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"])
def test_address_of_this_host_is_local(host: str) -> None:
    assert _LOCAL.match(host)


@pytest.mark.parametrize(
    "host", ["10.127.0.1", "1.127.0.0", "::12", "::ffff:10.0.0.1", "fe80::1", ""]
)
def test_address_of_another_host_is_not_local(host: str) -> None:
    assert not _LOCAL.match(host)


@pytest.mark.skipif(
    not hasattr(socket, "TCP_CONGESTION"),
    reason="congestion control is chosen by socket on Linux alone",
)
def test_local_connection_has_a_congestion_control_without_pacing() -> None:
    def chosen(host: str) -> bytes:
        with socket.socket() as sock:
            _prepare(sock, host, Config())
            return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")

    with socket.socket() as untouched:
        default = untouched.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")
    assert chosen("127.0.0.1") == b"reno"
    assert chosen("192.0.2.1") == default
