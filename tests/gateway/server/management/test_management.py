"""The pages of the management port over a real socket, and the addresses it listens at."""

from __future__ import annotations

import socket

import pytest
import trio

from gateway.config.config import ConfigError
from gateway.ports.services import State
from gateway.ports.view_topics import VIEW_TOPICS, VIEWS, view_topic
from gateway.server.management.management import (
    management_address,
    open_management,
    serve_management,
)
from gateway.views.schemas import json_schema, spark_schema
from tests.gateway.server.harness import run
from tests.gateway.server.management.http_client import (
    PAGES,
    Client,
    ask,
    with_client,
)
from tests.gateway.server.watched import NOW, FakePartition, facts, quorum_status


def test_livez_is_200_whatever_the_state_of_the_log() -> None:
    reply = ask("/livez", shown=facts(FakePartition(State.BROKEN)))
    assert (reply.status, reply.reason, reply.json) == (200, "OK", {"live": True})
    assert reply.headers["content-type"].startswith("application/json")
    assert reply.headers["cache-control"] == "no-store"


def test_readyz_of_a_ready_server_is_200() -> None:
    reply = ask("/readyz")
    assert (reply.status, reply.json) == (200, {"ready": True, "state": "ready"})


def test_readyz_of_a_stale_server_is_503_with_the_reason() -> None:
    reply = ask("/readyz", shown=facts(quorum=quorum_status(last_answer_at=NOW - 60)))
    assert (reply.status, reply.json["ready"], reply.json["state"]) == (503, False, "stale")
    assert reply.json["reason"].startswith("The quorum has not answered for 60.0 s.")
    assert reply.json["since"] == "2023-11-14T22:12:20Z"


def test_metrics_are_plain_text_by_default() -> None:
    reply = ask("/metrics")
    assert (reply.status, reply.headers["content-type"]) == (
        200,
        "text/plain; version=0.0.4; charset=utf-8",
    )
    assert b"\nkwire_partition_high_watermark 500.0\n" in reply.body


def test_metrics_are_openmetrics_if_an_accept_header_names_it() -> None:
    reply = ask(
        "/metrics", "Accept: text/plain", "Accept: application/openmetrics-text; version=1.0.0"
    )
    assert reply.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert reply.body.endswith(b"# EOF\n")


def test_status_is_json_with_the_state_of_the_server() -> None:
    shown = facts(
        quorum=quorum_status(), groups=lambda: {"Stable": 1}, problems=lambda: ["torn tail"]
    )
    said = ask("/status", shown=shown).json
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


def test_views_are_the_schemas_of_every_view_topic() -> None:
    shown = ask("/views").json
    assert shown.keys() == VIEW_TOPICS.keys()
    for view in VIEWS:
        one = shown[view_topic(view)]
        assert one["key"] == json_schema(view, key=True)
        assert one["value"] == json_schema(view)
        assert one["spark"] == spark_schema(view)


@pytest.mark.parametrize(
    "path", ["/livez?verbose", "http://localhost:9/livez", "http://127.0.0.1/livez?x=/metrics"]
)
def test_query_and_absolute_form_of_a_target_are_ignored(path: str) -> None:
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
def test_unknown_path_is_404_with_the_list_of_pages(path: str) -> None:
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


def test_page_that_fails_is_500_and_reported_and_the_connection_stays() -> None:
    def fail() -> list[object]:
        raise RuntimeError("no such thing")

    shown = facts(problems=fail)

    async def talk(client: Client) -> None:
        assert (await client.get("/status")).status == 500
        assert (await client.get("/livez")).status == 200

    with_client(talk, shown)
    assert shown.server_context.reports.counts["internal error"] == 1


def test_cancelled_server_closes_its_socket_and_connections() -> None:
    async def main() -> None:
        bound_listener = open_management("0")
        async with trio.open_nursery() as nursery:
            await nursery.start(serve_management, bound_listener.sock, facts())
            stream = await trio.open_tcp_stream("127.0.0.1", bound_listener.port)
            await trio.sleep(0.02)
            nursery.cancel_scope.cancel()
        assert await Client(stream).closed() == b""
        await stream.aclose()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", bound_listener.port))

    run(main)


def test_lack_of_file_descriptors_is_reported_and_waited_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown, accept, full = (
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

    with_client(talk, shown)
    assert shown.server_context.reports.counts["connections not accepted"] == 2


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
def test_address_is_parsed(text: str, address: tuple[str, int]) -> None:
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
def test_error_of_a_bad_address_names_the_key_and_the_form(text: str) -> None:
    with pytest.raises(
        ConfigError, match=r"^management\.listener: .*is not HOST:PORT: 127\.0\.0\.1:9464"
    ):
        management_address(text)


def test_address_in_use_is_a_configuration_error() -> None:
    bound_listener = open_management("127.0.0.1:0")
    try:
        with pytest.raises(
            ConfigError,
            match=r"^management\.listener: cannot listen at 127\.0\.0\.1:"
            rf"{bound_listener.port}: .*in use",
        ):
            open_management(f"127.0.0.1:{bound_listener.port}")
        assert str(bound_listener) == f"127.0.0.1:{bound_listener.port}"
    finally:
        bound_listener.sock.close()


def test_https_is_refused_with_a_hint_at_a_proxy() -> None:
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
def test_unknown_host_is_a_configuration_error(host: str, what: str) -> None:
    with pytest.raises(ConfigError, match=rf"^management\.listener: {what}"):
        open_management(f"{host}:1")


def test_port_alone_listens_on_loopback_only() -> None:
    bound_listener = open_management("0")
    try:
        assert bound_listener.sock.getsockname()[0] == "127.0.0.1"
    finally:
        bound_listener.sock.close()
