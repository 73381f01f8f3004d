"""The page of whole servers of a quorum: the quorum as every node sees it, changes as they come,
the client that asked for one, and the token of the configuration.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from gateway.app.node import check
from gateway.config.config import ConfigError
from tests.gateway.page.test_change_index import counted
from tests.gateway.server.harness import run
from tests.gateway.server.management.http_client import Client
from tests.gateway.server.own_nodes import OwnNode, cluster, lone_config, lone_node
from tests.waiting import until_async

PORT = {"management_listener": "127.0.0.1:0"}
TOKEN = "0123456789abcdef0123456789abcdef"


async def get(node: OwnNode, target: str, *headers: str, status: int = 200) -> Any:
    """The JSON that a node's management port answers."""
    assert node.ready.management is not None
    stream = await trio.open_tcp_stream("127.0.0.1", node.ready.management.port)
    async with stream:
        reply = await Client(stream).get(target, *headers)
    assert reply.status == status, reply.body
    return reply.json if status == 200 else reply.body


async def until_shown(node: OwnNode, topics: int) -> dict[str, Any]:
    """The answer of /api/now when it counts so many topics."""
    return await until_async(
        lambda: get(node, "/api/now"),
        f"{topics} topics on the page",
        lambda now: now["changes"] and now["changes"]["counts"].get("topic", 0) == topics,
    )


def test_change_is_shown_with_the_client_that_asked_for_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(tmp_path, **PORT) as node:
            await until_shown(node, 0)
            assert await node.create("orders") == 0
            now = await until_shown(node, 1)
            rows = (await get(node, "/api/changes"))["rows"]
            (row,) = (row for row in rows if row[5] == "orders" and row[4] == "c")
            change = await get(node, f"/api/change?offset={row[0]}.{row[1]}")
            assert change["after"]["name"] == "orders"
            assert change["who"]["principal"] == "User:ANONYMOUS"
            assert (change["who"]["api"], change["who"]["host"]) == ("CreateTopics", "127.0.0.1")
            first = await get(node, f"/api/change?offset={rows[0][0]}.{rows[0][1]}")
            assert first["who"] is None, "no client asked for the first records"
            counts = now["changes"]["counts"]
            expected = counted(node.quorum.image)
            assert {name: counts.get(name, 0) for name in expected} == expected

    run(main)


def test_every_node_describes_the_quorum(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, 3, **PORT) as running:
            await running.start(1, 2, 3)
            leader = await running.leader()
            for node in running.nodes.values():
                now = await until_async(
                    partial(get, node, "/api/now"), "the quorum", lambda now: now["quorum"]
                )
                quorum = now["quorum"]
                assert quorum["leader"] == leader.ready.services.node_id
                assert [one["id"] for one in quorum["voters"]] == [1, 2, 3]
                lags = {one["id"]: one["lag"] for one in quorum["voters"]}
                assert lags[quorum["leader"]] == 0
                assert now["leaders"][0]["leader"] == quorum["leader"]
                assert now["leaders"][0]["epoch"] == quorum["epoch"]

    run(main)


def test_state_of_now_is_that_of_the_quorum(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(tmp_path, **PORT) as node:
            assert await node.create("orders") == 0
            path = json.dumps(["topics", "byName"]).replace(" ", "").replace('"', "%22")
            found = await get(node, f"/api/state?path={path}")
            assert [entry[0] for entry in found["entries"]] == ["orders"]
            before = await get(node, f"/api/state?path={path}&at=0")
            assert before["entries"] == []

    run(main)


def test_token_of_the_configuration_guards_the_port(tmp_path: Path) -> None:
    async def main() -> None:
        security = {"management.token": TOKEN}
        async with lone_node(tmp_path, **PORT, security=security) as node:
            for target in ("/", "/api/now", "/metrics", "/status"):
                await get(node, target, status=401)
            bearer = f"Authorization: Bearer {TOKEN}"
            assert (await get(node, "/api/now", bearer))["node"] == 1

    run(main)


def test_bad_token_fails_the_check_of_the_configuration(tmp_path: Path) -> None:
    config = lone_config(tmp_path, **PORT, security={"management.token": "short"})
    with pytest.raises(ConfigError, match=r"management\.token"):
        check(config)
