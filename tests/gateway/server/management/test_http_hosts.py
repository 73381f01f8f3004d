"""Requests to the management port whose Host a browser could have been tricked into sending."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h11
import pytest
import trio

from gateway.server.management.http_hosts import AllowedHosts
from gateway.server.management.management import open_management, serve_management
from tests.gateway.server.harness import run
from tests.gateway.server.management.http_client import PAGES, Client
from tests.gateway.server.own_nodes import lone_node
from tests.gateway.server.watched import facts

CONFIGURED = ("metrics.example", ".svc.cluster.local")


def request(*hosts: str, target: str = "/status", version: str = "1.1") -> h11.Request:
    # h11 refuses two Host headers and HTTP/1.1 without one, so that neither reaches the check.
    return h11.Request(
        method="GET",
        target=target,
        headers=[("Host", host) for host in hosts],
        http_version=version,
    )


@pytest.mark.parametrize(
    "host",
    [
        *(
            "localhost",
            "LOCALHOST:9464",
            "localhost.",
            "a.localhost:1",
            "127.0.0.1:9464",
            "127.0.0.1",
            "10.2.3.4:9464",
        ),
        *("[::1]:9464", "[::1]", "[fe80::1%eth0]", "metrics.example:9464", "Metrics.Example."),
        *("kwire-0.kwire.default.svc.cluster.local:9464",),
    ],
)
def test_address_loopback_name_or_configured_name_is_served(host: str) -> None:
    assert AllowedHosts(CONFIGURED).refused(request(host)) is None


@pytest.mark.parametrize(
    "host",
    [
        *(
            "evil.example",
            "evil.example:9464",
            "localhost.evil.example",
            "evillocalhost",
            "127.0.0.1.evil.example",
            "0x7f.1",
        ),
        *(
            "notmetrics.example",
            "svc.cluster.local",
            "",
            ":9464",
            "metrics.example@evil.example",
            "[::1",
            "a b",
            "2130706433",
        ),
        *("localhost:9464:1", "localhost/", "[evil.example]", "\xe9.example"),
    ],
)
def test_host_that_a_page_could_have_rebound_is_refused(host: str) -> None:
    # Not every one of these gets through h11: the check does not depend on that.
    unchecked: Any = SimpleNamespace(target=b"/status", headers=[(b"host", host.encode("latin-1"))])
    assert AllowedHosts(CONFIGURED).refused(unchecked) == host


def test_authority_of_an_absolute_target_counts_as_host_does() -> None:
    hosts = AllowedHosts()
    assert (
        hosts.refused(request("localhost", target="http://evil.example/status")) == "evil.example"
    )
    assert (
        hosts.refused(request("evil.example", target="http://localhost:1/status")) == "evil.example"
    )
    assert hosts.refused(request("localhost", target="http://127.0.0.1:1/status")) is None


def test_request_of_http_1_0_without_a_host_is_served() -> None:
    assert AllowedHosts().refused(request(version="1.0")) is None


def test_asterisk_allows_every_host() -> None:
    assert AllowedHosts(["*"]).refused(request("evil.example")) is None


def test_every_page_is_refused_with_403_and_names_the_key() -> None:
    async def ask(allowed: Collection[str], host: str) -> list[tuple[int, bytes]]:
        bound_listener = open_management("127.0.0.1:0")
        async with trio.open_nursery() as nursery:
            await nursery.start(serve_management, bound_listener.sock, facts(), allowed)
            client = Client(await trio.open_tcp_stream("127.0.0.1", bound_listener.port))
            replies = []
            for page in PAGES:
                await client.send(f"GET {page} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
                reply = await client.reply()
                replies.append((reply.status, reply.body))
            nursery.cancel_scope.cancel()
        return replies

    async def main() -> None:
        for status, body in await ask((), "evil.example:9464"):
            assert status == 403 and b"management.allowed.hosts" in body and b"node" not in body
        assert all(
            status in (200, 503) for status, _ in await ask(["evil.example"], "evil.example:9464")
        )

    run(main)


def test_server_takes_the_allowed_hosts_of_its_configuration(tmp_path: Path) -> None:
    async def main() -> None:
        allowed = {
            "management_listener": "http://localhost:0/",
            "management_allowed_hosts": frozenset({"ops.example"}),
        }
        async with lone_node(tmp_path / "data", **allowed) as node:
            assert node.ready.management is not None
            client = Client(
                await trio.open_tcp_stream(node.ready.management.host, node.ready.management.port)
            )
            for host, status in (("ops.example", 200), ("localhost", 200), ("evil.example", 403)):
                await client.send(f"GET /livez HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
                assert (await client.reply()).status == status

    run(main)
