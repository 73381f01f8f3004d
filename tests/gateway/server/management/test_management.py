"""The management port on a real socket: its pages, and peers that do not behave."""

from __future__ import annotations

import contextlib
import json
import re
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.config import ConfigError
from gateway.ports import State
from gateway.server.management import http_connections as http_guests
from gateway.server.management.facts import Facts
from gateway.server.management.http_connections import CONNECTIONS_MAX, HEAD_MAX
from gateway.server.management.management import (
    management_address,
    open_management,
    serve_management,
)
from tests.gateway.server.harness import run
from tests.gateway.server.watched import NOW, FakePartition, facts, quorum_status

PAGES = ["/metrics", "/livez", "/readyz", "/status"]


@dataclass
class Reply:
    """An answer taken apart."""

    status: int
    reason: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """Sends bytes as given, reads answers."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._got = b""

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def get(self, path: str, *headers: str, method: str = "GET") -> Reply:
        await self.send(
            "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()
        )
        return await self.reply(with_body=method != "HEAD")

    async def reply(self, *, with_body: bool = True) -> Reply:
        while b"\r\n\r\n" not in self._got:
            await self._receive()
        head, _, self._got = self._got.partition(b"\r\n\r\n")
        line, *lines = head.decode("ascii").split("\r\n")
        headers = {name.lower(): value for name, value in (text.split(": ", 1) for text in lines)}
        size = int(headers["content-length"]) if with_body else 0
        while len(self._got) < size:
            await self._receive()
        body, self._got = self._got[:size], self._got[size:]
        _, status, reason = line.split(" ", 2)
        return Reply(int(status), reason, headers, body)

    async def closed(self, within_s: float = 3) -> bytes:
        """What still comes before the end."""
        with trio.fail_after(within_s), contextlib.suppress(trio.BrokenResourceError):
            while data := await self.stream.receive_some():
                self._got += data
        return self._got

    async def _receive(self) -> None:
        data = await self.stream.receive_some()
        assert data, f"closed after {self._got!r}"
        self._got += data


class Port:
    """A management port that is served."""

    def __init__(self, number: int) -> None:
        self.number = number

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        stream = await trio.open_tcp_stream("127.0.0.1", self.number)
        try:
            yield Client(stream)
        finally:
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(stream)


@contextlib.asynccontextmanager
async def served(told: Facts | None = None) -> AsyncIterator[Port]:
    bound_listener = open_management("127.0.0.1:0")
    async with trio.open_nursery() as nursery:
        await nursery.start(serve_management, bound_listener.sock, told or facts())
        yield Port(bound_listener.port)
        nursery.cancel_scope.cancel()


def with_client(talk: Callable[[Client], Any], told: Facts | None = None) -> None:
    async def main() -> None:
        async with served(told) as port, port.client() as client:
            await talk(client)

    run(main)


def ask(path: str, *headers: str, told: Facts | None = None, method: str = "GET") -> Reply:
    """One request, one answer."""
    replies: list[Reply] = []

    async def talk(client: Client) -> None:
        replies.append(await client.get(path, *headers, method=method))

    with_client(talk, told)
    return replies[0]


def say(data: bytes) -> bytes:
    """Everything that comes back, until the server closes."""
    heard: list[bytes] = []

    async def talk(client: Client) -> None:
        with contextlib.suppress(trio.BrokenResourceError):
            await client.send(data)
        heard.append(await client.closed())

    with_client(talk)
    return heard[0]


# --- pages
# ------------------------------------------------------------------------------------------------------------


def test_livez() -> None:
    reply = ask("/livez", told=facts(FakePartition(State.BROKEN)))
    assert (reply.status, reply.reason, reply.json) == (200, "OK", {"live": True})
    assert reply.headers["content-type"].startswith("application/json")
    assert reply.headers["cache-control"] == "no-store"


def test_readyz_of_a_server_that_is() -> None:
    reply = ask("/readyz")
    assert (reply.status, reply.json) == (200, {"ready": True, "state": "ready"})


def test_readyz_says_why_not() -> None:
    reply = ask("/readyz", told=facts(quorum=quorum_status(last_answer_at=NOW - 60)))
    assert (reply.status, reply.json["ready"], reply.json["state"]) == (503, False, "stale")
    assert reply.json["reason"].startswith("The quorum has not answered for 60.0 s.")
    assert reply.json["since"] == "2023-11-14T22:12:20Z"


def test_metrics() -> None:
    reply = ask("/metrics")
    assert (reply.status, reply.headers["content-type"]) == (
        200,
        "text/plain; version=0.0.4; charset=utf-8",
    )
    assert b"\nkwire_partition_high_watermark 500.0\n" in reply.body


def test_metrics_as_openmetrics_over_several_headers() -> None:
    reply = ask(
        "/metrics", "Accept: text/plain", "Accept: application/openmetrics-text; version=1.0.0"
    )
    assert reply.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert reply.body.endswith(b"# EOF\n")


def test_status() -> None:
    told = facts(
        quorum=quorum_status(), groups=lambda: {"Stable": 1}, problems=lambda: ["torn tail"]
    )
    said = ask("/status", told=told).json
    assert (said["version"], said["node_id"], said["source"], said["uptime_s"]) == (
        "1.2.3",
        5,
        "quorum",
        60,
    )
    assert (said["started"], said["readiness"]["ready"]) == ("2023-11-14T22:12:20Z", True)
    assert said["quorum"]["leader_id"] == 2
    assert said["problems"] == ["torn tail"]
    assert said["groups"] == {"Stable": 1}


@pytest.mark.parametrize(
    "path", ["/livez?verbose", "http://localhost:9/livez", "http://127.0.0.1/livez?x=/metrics"]
)
def test_other_ways_to_write_a_path(path: str) -> None:
    assert ask(path).json == {"live": True}


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/metrics/",
        "//metrics",
        "/livez/../metrics",
        "/%6civez",
        "http://localhost",
        "metrics",
        "*",
    ],
)
def test_what_is_not_there_is_404_and_says_what_is(path: str) -> None:
    reply = ask(path)
    assert (reply.status, reply.headers["content-type"]) == (404, "text/plain; charset=utf-8")
    assert all(page in reply.body.decode() for page in PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_head_has_the_headers_and_no_body(page: str) -> None:
    async def talk(client: Client) -> None:
        head = await client.get(page, method="HEAD")
        get = await client.get(page)
        assert (head.status, head.body, head.headers["content-type"]) == (
            get.status,
            b"",
            get.headers["content-type"],
        )
        assert int(head.headers["content-length"]) > 0

    with_client(talk)


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "BREW", "get"]
)
def test_other_methods_are_405(method: str) -> None:
    reply = ask("/metrics", method=method)
    assert (reply.status, reply.headers["allow"]) == (405, "GET, HEAD")


def test_a_page_that_fails_is_500_costs_nothing_else_and_is_reported() -> None:
    def fail() -> list[object]:
        raise RuntimeError("no such thing")

    told = facts(problems=fail)

    async def talk(client: Client) -> None:
        assert (await client.get("/status")).status == 500
        assert (await client.get("/livez")).status == 200

    with_client(talk, told)
    assert told.server_context.reports.counts["internal error"] == 1


# --- connections
# ------------------------------------------------------------------------------------------------------


def test_a_connection_is_kept() -> None:
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
        assert [(await client.reply()).status for _ in range(5)] == [200, 200, 200, 200, 404]

    with_client(talk)


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /livez HTTP/1.0\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    ],
)
def test_who_wants_no_more_is_let_go(request_: bytes) -> None:
    heard = say(request_)
    assert heard.startswith(b"HTTP/1.1 200 ")
    assert heard.endswith(b'{\n "live": true\n}\n')


def test_a_peer_that_closes_its_side_gets_its_answer() -> None:
    async def talk(client: Client) -> None:
        await client.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await client.stream.send_eof()
        assert (await client.closed()).startswith(b"HTTP/1.1 200 ")

    with_client(talk)


def test_a_request_in_single_bytes() -> None:
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
def test_an_upgrade_is_passed_over(upgrade: tuple[str, ...]) -> None:
    assert ask("/livez", *upgrade).status == 200


# --- peers that do not behave
# -----------------------------------------------------------------------------------------


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
def test_bytes_that_are_no_request_are_refused_and_the_connection_ends(data: bytes) -> None:
    heard = say(data)
    assert re.match(rb"HTTP/1\.1 (400|501|505) ", heard), heard
    assert b"\r\nConnection: close\r\n" in heard
    assert heard.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize(
    "data",
    [
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000,
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 20_000,
        b"GET /" + b"a" * 100_000,
        b"x" * 100_000,
    ],
)
def test_a_head_that_does_not_end_is_431(data: bytes) -> None:
    heard = say(data)
    assert heard.startswith(
        (b"HTTP/1.1 431 ", b"HTTP/1.1 400 ") if data[:1] == b"x" else b"HTTP/1.1 431 "
    )
    assert b"\r\nConnection: close\r\n" in heard


def test_a_head_just_below_the_limit_is_taken() -> None:
    assert ask("/livez", "X: " + "a" * (HEAD_MAX - 200)).status == 200


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello", 400),
        (b"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n", 400),
        (
            b"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
            400,
        ),
        (
            b"GET /livez HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
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
def test_a_body_is_not_read_and_its_connection_ends_with_the_answer(
    data: bytes, status: int
) -> None:
    heard = say(data)
    assert heard.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"\r\nConnection: close\r\n" in heard


REQUEST = b"GET /readyz?x=1 HTTP/1.1\r\nHost: localhost\r\nAccept: application/openmetrics-text\r\nContent-Length: 0\r\n\r\n"


@st.composite
def mutilated(draw: st.DrawFn) -> bytes:
    """A request, or two, of which some bytes are gone, others, or more."""
    data = bytearray(REQUEST * draw(st.integers(1, 2)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 3))] = draw(
            st.binary(max_size=4) | st.sampled_from([b"\r\n", b": ", b"\x00", b" "])
        )
    return bytes(data)


def test_whatever_is_sent_answers_come_whole_and_the_server_lives_on() -> None:
    async def main() -> None:
        told = facts()
        async with served(told) as port:
            for data in examples:
                async with port.client() as client:
                    await client.send(data)
                    await client.stream.send_eof()
                    heard = await client.closed()
                    assert not heard or heard.startswith(b"HTTP/1.1 ")
            async with port.client() as client:
                assert (await client.get("/livez")).status == 200
        assert not told.server_context.reports.counts["internal error"]

    examples: list[bytes] = []

    @settings(max_examples=300, deadline=None, database=None)
    @given(mutilated() | st.binary(max_size=200))
    def collect(data: bytes) -> None:
        examples.append(data)

    collect()
    run(main)


def test_an_empty_body_is_none() -> None:
    assert ask("/livez", "Content-Length: 0").status == 200


def test_garbage_after_a_request_does_not_spoil_its_answer() -> None:
    heard = say(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n\x00\xffgarbage\r\n\r\n")
    assert heard.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 400 " in heard


def test_a_request_that_is_never_finished_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_guests, "HEAD_TIMEOUT_S", 0.2)

    async def talk(client: Client) -> None:
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_drip, client)
            assert await client.closed() == b""
            nursery.cancel_scope.cancel()
        assert trio.current_time() - began < 2

    with_client(talk)


async def _drip(client: Client) -> None:
    with contextlib.suppress(trio.BrokenResourceError):
        await client.send(b"GET /livez HTTP/1.1\r\n")
        while True:
            await client.send(b"X: y\r\n")
            await trio.sleep(0.03)


@pytest.mark.parametrize("first", [True, False])
def test_a_connection_on_which_nothing_is_asked_ends(
    monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    monkeypatch.setattr(http_guests, "IDLE_TIMEOUT_S", 0.1)

    async def talk(client: Client) -> None:
        if not first:
            await client.get("/livez")
        assert await client.closed() == b""

    with_client(talk)


def test_an_answer_that_is_not_taken_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_guests, "SEND_TIMEOUT_S", 0.2)

    async def main() -> None:
        async with served() as port:
            with socket.socket() as peer:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                peer.connect(("127.0.0.1", port.number))
                peer.setblocking(False)
                wanted = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100
                with trio.fail_after(20):
                    while True:  # until the server has given it up: nothing it sent was read
                        try:
                            peer.send(wanted)
                        except BlockingIOError:
                            pass
                        except (BrokenPipeError, ConnectionResetError):
                            break
                        await trio.sleep(0.05)

    run(main)


def test_silent_connections_keep_nobody_out() -> None:
    async def main() -> None:
        async with served() as port, contextlib.AsyncExitStack() as stack:
            silent = [
                await stack.enter_async_context(port.client()) for _ in range(CONNECTIONS_MAX * 3)
            ]
            for client in silent[::2]:
                with contextlib.suppress(trio.BrokenResourceError):
                    await client.send(b"GET /")
            async with port.client() as client:
                assert (await client.get("/livez")).status == 200
            assert await silent[0].closed() == b""

    run(main)


def test_the_oldest_silent_one_goes_first() -> None:
    async def main() -> None:
        async with served() as port, contextlib.AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(port.client()) for _ in range(CONNECTIONS_MAX)
            ]
            assert (
                await clients[0].get("/livez")
            ).status == 200  # now the second one is silent for longest
            await stack.enter_async_context(port.client())
            assert await clients[1].closed() == b""
            for client in (clients[0], *clients[2:]):
                assert (await client.get("/livez")).status == 200

    run(main)


def test_connections_that_take_no_answer_keep_nobody_out() -> None:
    async def main() -> None:
        async with served() as port:
            with contextlib.ExitStack() as stack:
                for _ in range(CONNECTIONS_MAX):
                    peer = stack.enter_context(socket.socket())
                    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                    peer.connect(("127.0.0.1", port.number))
                    peer.setblocking(False)
                    peer.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)
                await trio.sleep(0.1)
                async with port.client() as client:
                    assert (await client.get("/livez")).status == 200

    run(main)


def test_many_who_ask_at_once_all_get_their_page_and_leave_room_for_others() -> None:
    async def main() -> None:
        longest = 0.0

        async def others() -> None:
            nonlocal longest
            while True:
                began = trio.current_time()
                await trio.lowlevel.checkpoint()
                longest = max(longest, trio.current_time() - began)

        async def ask_often(port: Port) -> None:
            async with port.client() as client:
                for _ in range(5):
                    assert (await client.get("/metrics")).status == 200

        async with served() as port, trio.open_nursery() as nursery:
            nursery.start_soon(others)
            async with trio.open_nursery() as asking:
                for _ in range(20):
                    asking.start_soon(ask_often, port)
            nursery.cancel_scope.cancel()
        assert longest < 0.25

    run(main)


def test_peers_that_reset_cost_nothing() -> None:
    async def main() -> None:
        told = facts()
        async with served(told) as port:
            for data in (b"", b"GET /", b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"):
                with socket.create_connection(("127.0.0.1", port.number)) as peer:
                    peer.setsockopt(
                        socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00"
                    )
                    peer.send(data)
            await trio.sleep(0.05)
            async with port.client() as client:
                assert (await client.get("/livez")).status == 200
        assert not told.server_context.reports.counts["internal error"]

    run(main)


def test_it_ends_with_its_connections_when_cancelled() -> None:
    async def main() -> None:
        bound_listener = open_management("0")
        async with trio.open_nursery() as nursery:
            await nursery.start(serve_management, bound_listener.sock, facts())
            stream = await trio.open_tcp_stream("127.0.0.1", bound_listener.port)
            await trio.sleep(0.02)
            nursery.cancel_scope.cancel()
        with trio.fail_after(1):
            assert await Client(stream).closed() == b""
        await stream.aclose()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", bound_listener.port))

    run(main)


def test_no_file_descriptor_left_is_waited_out(monkeypatch: pytest.MonkeyPatch) -> None:
    told, accept, full = (
        facts(),
        trio.SocketListener.accept,
        [OSError(24, "Too many open files")] * 2,
    )

    async def failing(listener: trio.SocketListener) -> trio.SocketStream:
        if full:
            raise full.pop()
        return await accept(listener)

    monkeypatch.setattr(trio.SocketListener, "accept", failing)

    async def talk(client: Client) -> None:
        assert (await client.get("/livez")).status == 200

    with_client(talk, told)
    assert told.server_context.reports.counts["connections not accepted"] == 2


# --- the address
# ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9464", ("127.0.0.1", 9464)),
        ("9464", ("127.0.0.1", 9464)),  # loopback unless said otherwise
        (" 0.0.0.0:0 ", ("0.0.0.0", 0)),
        ("[::1]:80", ("::1", 80)),
        ("[fe80::1%eth0]:80", ("fe80::1%eth0", 80)),
        ("kwire.example-1.org:65535", ("kwire.example-1.org", 65535)),
        ("http://127.0.0.1:9464", ("127.0.0.1", 9464)),
        ("HTTP://[::1]:80/", ("::1", 80)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert management_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "localhost",
        ":9464",
        "::1:80",
        "a:b",
        "a:1:2",
        "http://a:80/metrics",
        "a b:1",
        "a:-1",
        "a:+1",
        "a:65536",
        "a:123456",
        "[]:1",
    ],
)
def test_what_is_no_address_names_the_key_and_the_form(text: str) -> None:
    with pytest.raises(
        ConfigError, match=r"^management\.listener: .*is not HOST:PORT: 127\.0\.0\.1:9464"
    ):
        management_address(text)


def test_an_address_in_use_is_an_error_of_the_configuration() -> None:
    bound_listener = open_management("127.0.0.1:0")
    try:
        with pytest.raises(
            ConfigError,
            match=rf"^management\.listener: cannot listen at 127\.0\.0\.1:{bound_listener.port}: .*in use",
        ):
            open_management(f"127.0.0.1:{bound_listener.port}")
        assert str(bound_listener) == f"127.0.0.1:{bound_listener.port}"
    finally:
        bound_listener.sock.close()


def test_another_scheme_is_refused_with_the_way_to_tls() -> None:
    with pytest.raises(
        ConfigError,
        match=r"^management\.listener: 'https://a:80': only http is served; put a proxy",
    ):
        management_address("https://a:80")


@pytest.mark.parametrize(
    ("host", "what"),
    [
        ("no-such-host.invalid", "cannot listen at "),
        ("a" * 70, "'a+' is not a host name"),
        ("x..y", "'x..y' is not a host name"),
    ],
)
def test_a_host_that_there_is_not(host: str, what: str) -> None:
    with pytest.raises(ConfigError, match=rf"^management\.listener: {what}"):
        open_management(f"{host}:1")


def test_only_the_address_that_is_named_is_listened_at() -> None:
    bound_listener = open_management("0")
    try:
        assert bound_listener.sock.getsockname()[0] == "127.0.0.1"
    finally:
        bound_listener.sock.close()
