"""HTTP requests of every kind at the management port: good, malformed, too long, with a body."""

from __future__ import annotations

import gc
import re

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.server.management.http_connections import HEAD_MAX
from tests.gateway.server.harness import run
from tests.gateway.server.management.http_client import (
    PAGES,
    Client,
    ask,
    say,
    served,
    with_client,
)
from tests.gateway.server.watched import facts


def test_connection_is_kept_after_a_response() -> None:
    async def talk(client: Client) -> None:
        for page in PAGES * 3:
            reply = await client.get(page)
            assert reply.status == 200
            assert "connection" not in reply.headers

    with_client(talk)


def test_pipelined_requests_are_answered_in_order() -> None:
    async def talk(client: Client) -> None:
        await client.send(
            b"".join(
                f"GET {page} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
                for page in (*PAGES, "/nothing")
            )
        )
        statuses = [(await client.reply()).status for _ in (*PAGES, "/nothing")]
        assert statuses == [200] * len(PAGES) + [404]

    with_client(talk)


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /livez HTTP/1.0\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    ],
)
def test_connection_closes_after_a_last_request(request_: bytes) -> None:
    received = say(request_)
    assert received.startswith(b"HTTP/1.1 200 ")
    assert received.endswith(b'{\n "live": true\n}\n')


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
@pytest.mark.parametrize("length", [0, 5, 99])
def test_request_with_two_lengths_is_400_and_the_last_one(method: str, length: int) -> None:
    head = f"{method} /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n"
    received = say(
        head.encode() + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    )
    assert received.startswith(b"HTTP/1.1 400 ") and b"\r\nConnection: close\r\n" in received
    assert received.count(b"HTTP/1.1") == 1 + (method != "HEAD")  # the text of the answer has one


def test_head_request_of_another_protocol_version_is_refused_without_a_body() -> None:
    received = say(b"HEAD /livez HTTP/2.0\r\nHost: localhost\r\n\r\n")
    assert received.startswith(b"HTTP/1.1 505 ") and received.endswith(b"\r\n\r\n")


def test_peer_that_closes_its_side_gets_its_response() -> None:
    async def talk(client: Client) -> None:
        await client.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await client.stream.send_eof()
        assert (await client.closed()).startswith(b"HTTP/1.1 200 ")

    with_client(talk)


def test_request_in_single_bytes_is_answered() -> None:
    async def talk(client: Client) -> None:
        for byte in b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n":
            await client.send(bytes([byte]))
            await trio.sleep(0.001)
        assert (await client.reply()).status == 200

    with_client(talk)


@pytest.mark.parametrize(
    "upgrade",
    [
        ("Upgrade: websocket", "Connection: Upgrade"),
        ("Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABkAAQAAP"),
    ],
)
def test_upgrade_is_ignored(upgrade: tuple[str, ...]) -> None:
    assert ask("/livez", *upgrade).status == 200


@pytest.mark.parametrize(
    "data",
    [
        b"\r\n\r\n\r\n",
        b"hello\r\n\r\n",
        b"GET /livez\r\n\r\n",
        b"GET  /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /livez HTTP/1.1\r\n\r\n",  # no Host
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: y\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\n folded: y\r\nbad header\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"GET /livez\x80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),  # TLS
        # ApiVersions of a Kafka client
        b"\x00\x00\x00\x10\x00\x12\x00\x03\x00\x00\x00\x01\x00\x01x\x00\x00\x00\x00\x00",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_bytes_that_are_no_request_are_refused_and_the_connection_closes(data: bytes) -> None:
    received = say(data)
    assert re.match(rb"HTTP/1\.1 (400|501|505) ", received), received
    assert b"\r\nConnection: close\r\n" in received
    assert received.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize(
    "data",
    [
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000,
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 20_000,
        b"GET /" + b"a" * 100_000,
        b"x" * 100_000,
    ],
)
def test_head_above_the_limit_is_431(data: bytes) -> None:
    received = say(data)
    assert received.startswith(
        (b"HTTP/1.1 431 ", b"HTTP/1.1 400 ") if data[:1] == b"x" else b"HTTP/1.1 431 "
    )
    assert b"\r\nConnection: close\r\n" in received


def test_head_just_below_the_limit_is_accepted() -> None:
    assert ask("/livez", "X: " + "a" * (HEAD_MAX - 200)).status == 200


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello", 400),
        (b"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n", 400),
        (
            b"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
            b"Expect: 100-continue\r\n\r\n",
            400,
        ),
        (
            b"GET /livez HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"5\r\nhello\r\n0\r\n\r\n",
            400,
        ),
        (
            b"GET /livez HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            400,
        ),
        (
            b"POST /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n"
            + b"a" * 200_000,
            405,
        ),
        (b"CONNECT here:1 HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
    ],
)
def test_body_is_not_read_and_the_connection_closes_after_the_response(
    data: bytes, status: int
) -> None:
    received = say(data)
    assert received.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"\r\nConnection: close\r\n" in received


REQUEST = (
    b"GET /readyz?x=1 HTTP/1.1\r\nHost: localhost\r\nAccept: application/openmetrics-text\r\n"
    b"Content-Length: 0\r\n\r\n"
)


@st.composite
def mutilated(draw: st.DrawFn) -> bytes:
    """One or two requests with some bytes removed, replaced or inserted."""
    data = bytearray(REQUEST * draw(st.integers(1, 2)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 3))] = draw(
            st.binary(max_size=4) | st.sampled_from([b"\r\n", b": ", b"\x00", b" "])
        )
    return bytes(data)


def test_random_bytes_get_whole_responses_and_the_server_goes_on() -> None:
    async def main() -> None:
        shown = facts()
        async with served(shown) as port:
            for data in examples:
                async with port.client() as client:
                    await client.send(data)
                    await client.stream.send_eof()
                    received = await client.closed()
                    assert not received or received.startswith(b"HTTP/1.1 ")
            async with port.client() as client:
                assert (await client.get("/livez")).status == 200
        assert not shown.server_context.reports.counts["internal error"]

    examples: list[bytes] = []

    @settings(max_examples=300, deadline=None, database=None)
    @given(mutilated() | st.binary(max_size=200))
    def collect(data: bytes) -> None:
        examples.append(data)

    collect()
    run(main)


def test_empty_body_is_no_body() -> None:
    assert ask("/livez", "Content-Length: 0").status == 200


def test_garbage_after_a_request_does_not_change_its_response() -> None:
    received = say(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n\x00\xffgarbage\r\n\r\n")
    assert received.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 400 " in received


def test_pages_leave_no_reference_cycle() -> None:
    async def talk(client: Client) -> None:
        for page in PAGES:
            await client.get(page)
        gc.collect()
        gc.disable()
        try:
            for page in PAGES * 5:
                await client.get(page)
            assert gc.collect() < len(PAGES)
        finally:
            gc.enable()

    with_client(talk)
