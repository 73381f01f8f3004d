"""The network of proxies: who calls is known by the first request; ways are cut, slowed down and
reset one by one.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from kwire.header import encode_request_header
from kwire.messages.api_versions_request import ApiVersionsRequest
from tests.waiting import PATIENCE_S
from tools.tcp_proxy import CONTROLLER, Network

_ECHO, _OTHER = 1, 2


class Echo:
    """A server that sends everything back."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                one, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._echo, args=(one,), daemon=True).start()

    def _echo(self, one: socket.socket) -> None:
        with one:
            try:
                while data := one.recv(4096):
                    one.sendall(data)
            except OSError:
                return


@pytest.fixture
def network() -> Iterator[Network]:
    one, other = Echo(), Echo()
    with Network({_ECHO: one.address, _OTHER: other.address}) as network:
        yield network
    for echo in (one, other):
        echo.listener.close()


def hello(client_id: str) -> bytes:
    """A first request, size and all."""
    frame = encode_request_header(
        ApiVersionsRequest.API_KEY, 3, 1, client_id
    ) + ApiVersionsRequest().encode(3)
    return len(frame).to_bytes(4, "big") + frame


def call(
    network: Network, client_id: str = f"raft-client-{_OTHER}", *, listener: str = CONTROLLER
) -> socket.socket:
    """A connection to the first node on which the first request went there and back."""
    host, port = network.address(_ECHO, listener).split(":")
    connection = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
    assert echoed(connection, hello(client_id))
    return connection


def echoed(connection: socket.socket, data: bytes) -> bool:
    connection.sendall(data)
    got = b""
    while len(got) < len(data):
        piece = connection.recv(4096)
        if not piece:
            return False
        got += piece
    return got == data


def silent(connection: socket.socket, seconds: float = 0.2) -> bool:
    connection.settimeout(seconds)
    try:
        connection.recv(1)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(PATIENCE_S)
    return False


@pytest.mark.parametrize("way", [(_OTHER, _ECHO), (_ECHO, _OTHER)], ids=["requests", "answers"])
def test_one_direction_is_cut_and_healed(network: Network, way: tuple[int, int]) -> None:
    with call(network) as connection:
        source, target = way
        before, back = network.passed[way], network.passed[target, source]
        network.cut(source, target)
        connection.sendall(b"held")
        assert silent(connection)
        assert network.passed[way] == before
        assert (network.passed[target, source] > back) == (way == (_ECHO, _OTHER)), (
            "the other way is open"
        )
        network.heal()
        assert connection.recv(4096) == b"held"


def test_a_new_connection_over_a_cut_way_is_silent(network: Network) -> None:
    network.isolate(_OTHER)
    host, port = network.address(_ECHO).split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
        connection.sendall(hello(f"raft-client-{_OTHER}"))
        assert silent(connection)
        network.heal()
        assert connection.recv(4096)


def test_connections_of_other_callers_pass(network: Network) -> None:
    network.isolate(_ECHO)
    with call(network, "an-admin-client") as connection:
        assert echoed(connection, b"hello")


def test_a_delayed_way_is_slow(network: Network) -> None:
    with call(network) as connection, call(network) as other:
        network.delay(_ECHO, _OTHER, 600)
        connection.sendall(b"slow")
        assert silent(connection)
        network.delay(_ECHO, _OTHER, 0.2)
        assert echoed(other, b"sooner")


def test_reset_is_an_error_and_not_an_end(network: Network) -> None:
    with call(network) as connection, call(network, "a-outsider") as outsider:
        assert network.reset(_ECHO, _OTHER) == 1
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
        assert echoed(outsider, b"still here")


def test_the_end_of_a_connection_is_passed_on(network: Network) -> None:
    with call(network) as connection:
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""


def test_a_connection_that_is_closed_over_a_cut_way_ends(network: Network) -> None:
    connection = call(network)
    network.isolate(_ECHO)
    connection.sendall(b"never")
    connection.close()
    network.close()
    with pytest.raises(OSError, match=r".+"):
        socket.create_connection(
            ("127.0.0.1", int(network.address(_ECHO).split(":")[1])), timeout=PATIENCE_S
        )


def test_a_node_that_does_not_listen_is_a_reset() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        address = gone.getsockname()
    with Network({_ECHO: address}) as network:
        host, port = network.address(_ECHO).split(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
            connection.sendall(hello("raft-client-2"))
            with pytest.raises(ConnectionResetError):
                connection.recv(1)


@pytest.mark.parametrize(
    ("client_id", "is_node"),
    [
        ("broker-2-fetcher-0", True),
        ("broker-2", True),
        ("kwire-2", True),
        ("2", True),
        ("rdkafka", False),
        ("raft-client", False),
        ("consumer-2", False),
    ],
)
def test_node_that_calls_is_known_by_its_client_id_and_no_client_is(
    network: Network, client_id: str, is_node: bool
) -> None:
    with call(network, client_id) as connection:
        network.cut(_OTHER, _ECHO)
        connection.sendall(b"held?")
        assert silent(connection) == is_node


def test_each_listener_of_a_node_has_a_proxy_and_all_are_reset(network: Network) -> None:
    one = Echo()
    network.add(_ECHO, one.address, "BROKER")
    network.add(_ECHO, ("127.0.0.1", 1), "BROKER")  # it has one
    assert network.listeners(_ECHO).keys() == {CONTROLLER, "BROKER"}
    with (
        call(network) as to_controller,
        call(network, listener="BROKER") as to_broker,
    ):
        assert network.reset(_OTHER, _ECHO) == 2
        for connection in (to_controller, to_broker):
            with pytest.raises(ConnectionResetError):
                connection.recv(1)
    one.listener.close()
