"""HTTP connections of the management port: their number, their timeouts, and slow peers."""

from __future__ import annotations

import contextlib
import socket

import pytest
import trio

from gateway.server.management import http_connections
from gateway.server.management.http_connections import CONNECTIONS_MAX
from tests.gateway.server.harness import run
from tests.gateway.server.management.http_client import (
    Client,
    Port,
    served,
    with_client,
)
from tests.gateway.server.watched import facts
from tests.waiting import PATIENCE_S


def test_unfinished_request_is_closed_after_the_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_connections, "HEAD_TIMEOUT_S", 0.2)

    async def talk(client: Client) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_drip, client)
            assert await client.closed() == b""
            nursery.cancel_scope.cancel()

    with_client(talk)


async def _drip(client: Client) -> None:
    with contextlib.suppress(trio.BrokenResourceError):
        await client.send(b"GET /livez HTTP/1.1\r\n")
        while True:
            await client.send(b"X: y\r\n")
            await trio.sleep(0.03)


@pytest.mark.parametrize("first", [True, False])
def test_connection_without_a_request_is_closed_after_the_timeout(
    monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    monkeypatch.setattr(http_connections, "IDLE_TIMEOUT_S", 0.1)

    async def talk(client: Client) -> None:
        if not first:
            await client.get("/livez")
        assert await client.closed() == b""

    with_client(talk)


def test_response_that_the_peer_does_not_read_is_given_up_after_the_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_connections, "SEND_TIMEOUT_S", 0.2)

    async def main() -> None:
        async with served() as port:
            with socket.socket() as peer:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                peer.connect(("127.0.0.1", port.number))
                peer.setblocking(False)
                wanted = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100
                with trio.fail_after(PATIENCE_S):
                    while True:  # until the server has given it up: nothing it sent was read
                        try:
                            peer.send(wanted)
                        except BlockingIOError:
                            pass
                        except (BrokenPipeError, ConnectionResetError):
                            break
                        await trio.sleep(0.05)

    run(main)


def test_silent_connections_make_way_for_a_new_one() -> None:
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


def test_connection_that_is_silent_for_longest_makes_way_first() -> None:
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


def test_connections_that_read_no_response_make_way_for_a_new_one() -> None:
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


def test_many_scrapers_at_once_all_get_their_page_and_other_tasks_run() -> None:
    async def main() -> None:
        turns = served_between = longest = 0

        async def others() -> None:
            nonlocal turns, served_between, longest
            while True:
                served_between, turns = 0, turns + 1
                await trio.lowlevel.checkpoint()

        async def ask_often(port: Port) -> None:
            nonlocal served_between, longest
            async with port.client() as client:
                for _ in range(5):
                    assert (await client.get("/metrics")).status == 200
                    served_between += 1
                    longest = max(longest, served_between)

        async with served() as port, trio.open_nursery() as nursery:
            nursery.start_soon(others)
            async with trio.open_nursery() as asking:
                for _ in range(20):
                    asking.start_soon(ask_often, port)
            nursery.cancel_scope.cancel()
        assert turns > 100, "as many as pages at least"
        assert longest <= 20, "each scraper had at most one page between two turns"

    run(main)


def test_peers_that_reset_are_no_bug() -> None:
    async def main() -> None:
        shown = facts()
        async with served(shown) as port:
            for data in (b"", b"GET /", b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"):
                with socket.create_connection(("127.0.0.1", port.number)) as peer:
                    peer.setsockopt(
                        socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00"
                    )
                    peer.send(data)
            await trio.sleep(0.05)
            async with port.client() as client:
                assert (await client.get("/livez")).status == 200
        assert not shown.server_context.reports.counts["internal error"]

    run(main)
