"""Attacks on a TLS listener: unfinished handshakes, garbage, and a flood of handshakes."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.hostile.bystander import attacked_quorum, bystander, listener_port, with_listener
from tests.waiting import PATIENCE_S
from tools.kafka_security import Authority, key_store_properties
from tools.own_quorum import OwnCluster

CROWD, FLOODERS, HANDSHAKES = 300, 4, 100


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnCluster]:
    keys = key_store_properties(
        tmp_path_factory.mktemp("keys") / "node.pem", Authority().issue("node")
    )
    properties = {f"listener.name.tls.{key}": value for key, value in keys.items()}
    properties["listener.security.protocol.map"] = "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL"
    properties["request.receive.timeout.ms"] = "2000"
    with attacked_quorum(properties, node_properties=with_listener("TLS")) as cluster:
        yield cluster


def client_hello() -> bytes:
    """The ClientHello of a TLS client."""
    context, incoming, outgoing = ssl.create_default_context(), ssl.MemoryBIO(), ssl.MemoryBIO()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()


@pytest.mark.parametrize(
    "opening",
    [
        lambda: client_hello()[:50],
        client_hello,
        lambda: os.urandom(2000),
        lambda: b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=["half a hello", "hello and no more", "garbage", "http"],
)
def test_unfinished_handshakes_leave_others_undisturbed(
    cluster: OwnCluster, opening: Callable[[], bytes]
) -> None:
    leader = cluster.wait_for_leader()
    with bystander(cluster) as seen, contextlib.ExitStack() as stack:
        port, first = listener_port(leader, "TLS"), opening()
        crowd = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(CROWD)
        ]
        for one in crowd:
            with contextlib.suppress(ConnectionError):
                one.sendall(first)
        # The server closes each: garbage at once, the others when their time is over.
        for one in crowd:
            one.settimeout(PATIENCE_S)
            with contextlib.suppress(ConnectionError):
                while one.recv(65536):
                    pass
    seen.assert_undisturbed()


def test_flood_of_handshakes_leaves_others_undisturbed(cluster: OwnCluster) -> None:
    leader = cluster.wait_for_leader()
    port = listener_port(leader, "TLS")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def flood(_: int) -> None:
        for _ in range(HANDSHAKES):
            with socket.create_connection(("127.0.0.1", port)) as plain, context.wrap_socket(plain):
                pass

    with bystander(cluster) as seen, ThreadPoolExecutor(FLOODERS) as flooders:
        list(flooders.map(flood, range(FLOODERS)))
    seen.assert_undisturbed()
