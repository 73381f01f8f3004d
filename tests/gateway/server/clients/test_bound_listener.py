"""Listening sockets: all of the configuration or none, and the error names the one that failed."""

from __future__ import annotations

import errno
import socket
from typing import Any, cast

import pytest

from gateway.config.config import Config, ConfigError, Listener
from gateway.server.clients.bound_listener import BoundListener, accept, bind_listeners
from gateway.server.clients.connections import Connections
from gateway.server.logging.logs import Reports
from tests.gateway.server.harness import run

PROTOCOLS = {"PLAINTEXT": "PLAINTEXT", "OTHER": "PLAINTEXT"}


def config(*listeners: Listener) -> Config:
    return Config(source="sample", listeners=listeners, listener_security_protocol_map=PROTOCOLS)


def test_port_0_listens_at_a_free_port_that_the_listener_names() -> None:
    bound_listeners = bind_listeners(
        config(Listener("PLAINTEXT", "127.0.0.1", 0), Listener("OTHER", "localhost", 0))
    )
    try:
        assert [bound_listener.name for bound_listener in bound_listeners] == ["PLAINTEXT", "OTHER"]
        assert all(bound_listener.port > 0 for bound_listener in bound_listeners)
        assert str(bound_listeners[0]) == f"127.0.0.1:{bound_listeners[0].port}"
    finally:
        for bound_listener in bound_listeners:
            bound_listener.sock.close()


@pytest.mark.skipif(not socket.has_ipv6, reason="Python was built without IPv6")
def test_ipv6_address_is_written_in_brackets() -> None:
    try:
        (bound_listener,) = bind_listeners(config(Listener("PLAINTEXT", "::1", 0)))
    except ConfigError:
        pytest.skip("this machine has no IPv6 loopback")
    with bound_listener.sock:
        assert str(bound_listener) == f"[::1]:{bound_listener.port}"


def test_listener_that_fails_closes_the_others() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            free = probe.getsockname()[1]
        with pytest.raises(
            ConfigError, match=rf"listeners: cannot listen at OTHER://127\.0\.0\.1:{port}"
        ):
            bind_listeners(
                config(
                    Listener("PLAINTEXT", "127.0.0.1", free), Listener("OTHER", "127.0.0.1", port)
                )
            )
        socket.create_server(("127.0.0.1", free)).close()  # it is free again


def test_unknown_host_name_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="no-such-host"):
        bind_listeners(config(Listener("PLAINTEXT", "no-such-host.invalid", 0)))


def test_connection_reset_before_it_is_accepted_is_ignored() -> None:
    class Sock:
        left = 3

        def accept(self) -> Any:
            self.left -= 1
            if self.left >= 0:
                raise OSError(errno.ECONNABORTED, "gone")
            raise StopIteration  # enough seen

    reports = Reports()
    bound_listener = BoundListener("PLAINTEXT", cast(socket.socket, Sock()), "127.0.0.1", 1)

    async def main() -> None:
        with pytest.raises(RuntimeError, match="StopIteration"):
            await accept(bound_listener, cast(Connections, None), reports)

    run(main)
    assert reports.counts["accept failed"] == 3
