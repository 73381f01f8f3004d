"""Clients that speak another protocol than the port: the log names what came, and the client sees a
clean end.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
import trio

from kwire.messages.api_versions_request import ApiVersionsRequest
from tests.gateway.server.guarded import place
from tests.gateway.server.harness import request, run
from tests.gateway.server.own_nodes import lone_node
from tests.waiting import until_async

HTTP = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
KAFKA = request(18, 3, ApiVersionsRequest().encode(3))


def client_hello() -> bytes:
    """The first bytes of a TLS client."""
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(received, sent).do_handshake()
    return sent.read()


async def answer(port: int, data: bytes) -> bytes:
    """All that comes back; a reset connection raises BrokenResourceError."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        await stream.send_all(data)
        return b"".join([part async for part in stream])


@pytest.mark.parametrize(
    ("data", "what"),
    [(client_hello(), "a TLS handshake"), (HTTP, "an HTTP message")],
    ids=["TLS", "HTTP"],
)
@pytest.mark.parametrize("listener", ["PLAINTEXT", "CONTROLLER"])
def test_plaintext_listener_names_the_protocol_that_came(
    listener: str, data: bytes, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        async with lone_node(tmp_path) as node:
            assert await answer(node.ports[listener], data) == b""
            counts = node.ready.reports.counts
            await until_async(lambda: counts["bad request"], "the report")

    run(main)
    assert f"{what} in place of a frame of Kafka's protocol" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("data", "what"), [(KAFKA, "a request"), (HTTP, "an HTTP message")], ids=["Kafka", "HTTP"]
)
def test_tls_listener_names_the_protocol_that_came_and_ends_without_a_reset(
    data: bytes, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        async with place(tmp_path) as there:
            # More than the handshake reads: unread bytes would reset the connection.
            assert await answer(there.port("TLS"), data * 3) == b""
            await until_async(lambda: there.counts["handshake failed"], "the report")

    run(main)
    assert f"{what} without TLS in place of a TLS handshake" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("data", "what"),
    [(client_hello(), "a TLS handshake"), (KAFKA, "a request of Kafka's protocol")],
    ids=["TLS", "Kafka"],
)
def test_management_port_names_the_protocol_that_came(
    data: bytes, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = f"{what} came to the management port, which serves http://"

    async def main() -> None:
        more: Any = {"management_listener": "127.0.0.1:0"}
        async with lone_node(tmp_path, **more) as node:
            assert node.ready.management is not None
            found = await answer(node.ready.management.port, data)
            assert found.startswith(b"HTTP/1.1 400 ") and said.encode() in found

    run(main)
    assert said in capsys.readouterr().err
