"""The page's requests over a socket: files, rows, states, differences, the protocol; refusals."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlencode

import pytest
import trio

from gateway.page.assets import CSS, HTML, JS, asset
from gateway.ports.view_topics import CHANGES
from gateway.server.management import http_connections, page_log
from gateway.server.management.page_api import PageApi
from gateway.server.sources.metadata_source import SAMPLE
from kwire.cluster.difference import difference
from kwire.cluster.shell_view import shell_view
from tests.gateway.page.sample_log import changes, state
from tests.gateway.page.test_change_index import counted
from tests.gateway.page.test_wire import capture
from tests.gateway.server.harness import run
from tests.gateway.server.management.http_client import Client, Reply, served
from tests.gateway.server.management.served_page import page
from tests.gateway.server.watched import NOW, quorum_status
from tests.gateway.views.view_reading import opened, view_records
from tests.waiting import until_async

END = 1057


def with_page(talk: Callable[[Client], Awaitable[None]], shown: PageApi | None = None) -> None:
    """Talk to a management port with the page of the sample log."""

    async def main() -> None:
        async with served(page=shown or page()) as port, port.client() as client:
            await talk(client)

    run(main)


async def get(client: Client, target: str, **query: object) -> Any:
    reply = await client.get(f"{target}?{urlencode(query)}")
    assert reply.status == 200, reply.body
    return reply.json


async def until_read(client: Client) -> dict[str, Any]:
    """The answer of /api/now once the whole log is folded."""
    return await until_async(
        lambda: get(client, "/api/now"),
        holds=lambda now: now["changes"] and now["changes"]["offset"] == now["log"]["end"],
    )


def test_now_has_the_figures_of_the_state() -> None:
    async def talk(client: Client) -> None:
        now = await until_read(client)
        assert now["log"] == {"start": 0, "end": END, "epoch": now["leaders"][0]["epoch"]}
        counts = now["changes"]["counts"]
        expected = counted(state())
        assert {name: counts.get(name, 0) for name in expected} == expected
        assert now["metadataVersion"] == shell_view(state())["features"]["metadataVersion"]["name"]
        assert now["copy"] is None, "the server observes no quorum"
        assert now["quorum"] is None and now["leaders"][0]["leader"] == 1

    with_page(talk)


@pytest.mark.parametrize(
    ("changes", "since", "caught_up"),
    [
        ({}, 40_000, 400),
        ({"last_caught_up_at": NOW - 11}, None, 11_000),
        ({"complete_since": None, "last_caught_up_at": None}, None, None),
    ],
)
def test_now_says_since_when_the_copy_of_an_observer_is_complete(
    changes: dict[str, Any], since: int | None, caught_up: int | None
) -> None:
    async def talk(client: Client) -> None:
        now = await get(client, "/api/now")
        told = {name: now["copy"][name] for name in ("completeSince", "caughtUp")}
        ages = {name: time and now["time"] - time for name, time in told.items()}
        assert ages == {"completeSince": since, "caughtUp": caught_up}
        assert now["copy"]["lag"] == 3

    with_page(talk, page(quorum=quorum_status(**changes)))


def test_rows_and_changes_are_those_of_the_view_topic() -> None:
    async def talk(client: Client) -> None:
        now = await until_read(client)
        rows, after, more = [], "", True
        while more:
            found = await get(client, "/api/changes", after=after)
            rows += found["rows"]
            after, more = found["last"], found["more"]
        assert after == now["changes"]["last"]
        records = view_records(opened(SAMPLE), CHANGES)
        assert [(row[0] << 24) + row[1] for row in rows] == [one.offset for one in records]
        for row, record in list(zip(rows, records, strict=True))[::97]:
            change = await get(client, "/api/change", offset=f"{row[0]}.{row[1]}")
            value = json.loads(record.value or b"")
            value["source"]["cluster_id"] = change["source"]["cluster_id"]
            assert change == value

    with_page(talk)


@pytest.mark.parametrize("offset", [None, 0, 333, END])
def test_state_is_that_of_kwire_state(offset: int | None) -> None:
    async def talk(client: Client) -> None:
        at = "" if offset is None else offset
        expected: Any = shell_view(state(offset))
        for path in ([], ["configs"], ["topics", "byName"], ["features"]):
            node = expected
            for name in path:
                node = node[name]
            found = await get(client, "/api/state", path=json.dumps(path), at=at)
            assert [entry[0] for entry in found["entries"]] == list(node)

    with_page(talk)


def test_state_at_a_time_is_the_one_before_the_next_record() -> None:
    time = changes()[len(changes()) // 2].timestamp
    offset = next(one.source.offset for one in changes() if one.timestamp > time)

    async def talk(client: Client) -> None:
        found = await get(client, "/api/state", at=time)
        assert found["offset"] <= offset

    with_page(talk)


def test_difference_is_that_of_kwire_diff() -> None:
    async def talk(client: Client) -> None:
        found = await get(client, "/api/difference", before=333, after="")
        expected = [one.without_secrets() for one in difference(state(333), state())]
        assert sorted(tuple(one["path"]) for one in found["differences"]) == sorted(
            one.place for one in expected
        )

    with_page(talk)


def test_files_have_a_policy_and_are_kept_by_the_browser() -> None:
    async def talk(client: Client) -> None:
        for path, name in (("/", HTML), (f"/{CSS}", CSS), (f"/{JS}", JS)):
            reply = await client.get(path)
            assert (reply.status, reply.body) == (200, asset(name).data)
            policy = reply.headers["content-security-policy"]
            assert "default-src 'none'" in policy and "unsafe" not in policy
            again = await client.get(path, f"If-None-Match: {reply.headers['etag']}")
            assert (again.status, again.body) == (304, b"")

    with_page(talk)


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/api/change", 400),
        ("/api/change?offset=x", 400),
        ("/api/change?offset=5.5", 404),
        ("/api/changes?after=-", 400),
        ("/api/state?at=x", 400),
        ("/api/state?at=999999", 400),
        ("/api/state?at=-1", 400),
        ("/api/state?path=x", 400),
        ("/api/state?path=%5B1%5D", 400),
        ("/api/state?path=%5B%22nothing%22%5D", 404),
        ("/api/state?" + "&".join(f"a{n}=1" for n in range(20)), 400),
        ("/api/difference?before=999999", 400),
        ("/api/fields", 400),
        ("/api/fields?api=18&version=99", 400),
        ("/api/nothing", 404),
        ("/../setup.cfg", 404),
    ],
)
def test_bad_requests_are_refused_with_a_sentence(target: str, status: int) -> None:
    async def talk(client: Client) -> None:
        await until_read(client)
        reply = await client.get(target)
        assert reply.status == status and len(reply.body) > 10

    with_page(talk)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"])
@pytest.mark.parametrize("path", ["/", "/api/now", "/page.js"])
def test_other_methods_are_405(path: str, method: str) -> None:
    async def talk(client: Client) -> None:
        reply = await client.get(path, method=method)
        assert (reply.status, reply.headers["allow"]) == (405, "GET, HEAD")

    with_page(talk)


def test_head_has_no_body() -> None:
    async def talk(client: Client) -> None:
        reply = await client.get("/", method="HEAD")
        assert (reply.status, reply.body) == (200, b"")
        assert (await client.get("/api/dissect")).status == 405

    with_page(talk)


async def dissect(client: Client, body: bytes, path: str = "/api/dissect") -> Reply:
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
    await client.send("\r\n".join([*lines, "", ""]).encode() + body)
    return await client.reply()


def test_bytes_are_dissected() -> None:
    async def talk(client: Client) -> None:
        asked = {"kind": "request", "hex": "00120000000000070003666f6f"}
        reply = await dissect(client, json.dumps(asked).encode())
        assert reply.status == 200 and reply.json["ok"]
        assert (await get(client, "/api/apis"))[0]["name"] == "Produce"

    with_page(talk)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b'{"hex": 5}', b"[" * 50_000])
def test_other_bodies_are_refused(body: bytes) -> None:
    async def talk(client: Client) -> None:
        reply = await dissect(client, body)
        assert reply.status == 400

    with_page(talk)


def test_capture_is_dissected_and_other_files_are_refused() -> None:
    async def talk(client: Client) -> None:
        reply = await dissect(client, capture(), "/api/capture")
        assert reply.status == 200 and reply.json["frames"]
        assert (await dissect(client, b"x" * 1000, "/api/capture")).status == 400

    with_page(talk)


def test_huge_and_slow_bodies_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connections, "BODY_TIMEOUT_S", 0.2)

    async def main() -> None:
        async with served(page=page()) as port:
            for size, sent in ((1 << 30, 200_000), (500, 10)):
                async with port.client() as client:
                    head = (
                        f"POST /api/dissect HTTP/1.1\r\nHost: x.localhost\r\nContent-Length: {size}"
                    )
                    await client.send(head.encode() + b"\r\n\r\n" + b"a" * sent)
                    received = await client.closed()
                    assert received.startswith(b"HTTP/1.1 413 ")
                    assert b"Connection: close" in received

    run(main)


def test_body_is_asked_for_with_continue() -> None:
    async def talk(client: Client) -> None:
        body = b'{"kind": "request", "hex": "00120000000000070003666f6f"}'
        await client.send(
            b"POST /api/dissect HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body)
        )
        assert (await client.stream.receive_some(100)).startswith(b"HTTP/1.1 100 ")
        await client.send(body)
        assert (await client.reply()).status == 200

    with_page(talk)


def test_memory_is_released_when_no_page_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_log, "IDLE_S", 0.2)
    shown = page()

    async def talk(client: Client) -> None:
        await until_read(client)
        await get(client, "/api/state", at=333)
        assert shown._log.follower is not None
        assert shown._log.follower.cursor.has_caught_up
        await trio.sleep(1)
        assert shown._log.follower is None
        assert not shown._log._states
        await until_read(client)

    with_page(talk, shown)


def test_nothing_is_read_before_a_page_is_open() -> None:
    shown = page()

    async def talk(client: Client) -> None:
        await client.get("/metrics")
        await client.get("/")
        assert shown._log.follower is None

    with_page(talk, shown)


def test_other_requests_are_answered_while_a_state_is_folded() -> None:
    async def main() -> None:
        async with served(page=page()) as port, trio.open_nursery() as nursery:

            async def ask(at: int) -> None:
                async with port.client() as client:
                    assert (await client.get(f"/api/state?at={at}")).status == 200

            for at in range(300, 312):
                nursery.start_soon(ask, at)
            async with port.client() as client:
                assert (await client.get("/livez")).status == 200

    run(main)


def test_directory_is_named_by_no_response() -> None:
    async def talk(client: Client) -> None:
        assert str(SAMPLE) not in json.dumps(await until_read(client))

    with_page(talk)


def test_log_that_was_truncated_is_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = page()

    async def talk(client: Client) -> None:
        before = (await until_read(client))["changes"]
        partition = shown._log.partition
        follower = shown._log.follower
        assert follower is not None
        monkeypatch.setattr(follower.cursor, "epoch", partition.leader_epoch + 1)
        after = (await until_read(client))["changes"]
        while after["number"] == before["number"]:
            after = (await until_read(client))["changes"]
        assert {**after, "number": 0} == {**before, "number": 0}
        found = await get(client, "/api/changes", after=before["last"])
        assert found["number"] == after["number"]

    with_page(talk, shown)


def test_log_without_its_begin_has_no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_log.PageLog, "available", False)

    async def talk(client: Client) -> None:
        now = await get(client, "/api/now")
        assert now["changes"] is None and not now["available"]
        reply = await client.get("/api/state")
        assert reply.status == 400 and "begins after offset 0" in reply.json["error"]

    with_page(talk)


def test_failed_fold_is_reported_and_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_log, "_FAILED_DELAY_S", 0.05)
    shown, fail = page(), [True]
    step = shown._log._step

    async def once(follower: Any) -> bool:
        if fail.pop() if fail else False:
            raise RuntimeError("fails once")
        return await step(follower)

    monkeypatch.setattr(shown._log, "_step", once)

    async def talk(client: Client) -> None:
        assert (await until_read(client))["changes"]["last"]
        assert shown._log._reports.counts["internal error"] == 1

    with_page(talk, shown)


def test_secrets_are_in_no_response() -> None:
    async def talk(client: Client) -> None:
        await until_read(client)
        rows = (await get(client, "/api/changes"))["rows"]
        texts = [json.dumps(rows)]
        for row in rows:
            change = await get(client, "/api/change", offset=f"{row[0]}.{row[1]}")
            texts.append(json.dumps(change))
        found = await get(client, "/api/difference", before=0)
        texts.append(json.dumps(found))
        assert not found["more"]
        shown = "".join(texts)
        credentials = list(state().scram.values())
        assert credentials and "storedKey" in shown
        for one in credentials:
            for secret in (one.salt, one.stored_key, one.server_key):
                assert secret.hex() not in shown
                assert base64.b64encode(secret).decode() not in shown

    with_page(talk)
