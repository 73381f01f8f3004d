"""A page that stays open, and one that is opened again and again, over a log that goes on: the
server keeps no more for the last rounds than for the first.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path

import trio

from tests.gateway.server.harness import run
from tests.gateway.server.management.http_client import Client
from tests.gateway.server.own_nodes import OwnNode, lone_node

#: Polls of a page: each of its requests. An open page sends them some times in a second.
FIRST, ROUNDS = 40, 200
TARGETS = ("/", "/api/now", "/api/changes", "/api/state", "/api/state?at=3", "/api/topics")


async def polls(client: Client) -> None:
    for target in TARGETS:
        assert (await client.get(target)).status == 200


async def opened_again(node: OwnNode, rounds: int) -> None:
    """Open connections with a page each; some leave in the middle of a response."""
    assert node.ready.management is not None
    for number in range(rounds):
        async with await trio.open_tcp_stream("127.0.0.1", node.ready.management.port) as stream:
            if number % 4:
                await polls(Client(stream))
            else:
                await stream.send_all(b"GET /api/state?at=2 HTTP/1.1\r\nHost: localhost\r\n\r\n")


def held() -> tuple[int, int, int]:
    """File descriptors, tasks and objects of the process."""
    gc.collect()
    tasks = trio.lowlevel.current_statistics().tasks_living
    # Trio keeps up to 1,000 scopes, in tuples, after their ends.
    objects = sum(not isinstance(one, (tuple, trio.CancelScope)) for one in gc.get_objects())
    return len(os.listdir("/proc/self/fd")), tasks, objects


def test_open_pages_keep_nothing_of_their_requests(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(tmp_path, management_listener="127.0.0.1:0") as node:
            assert node.ready.management is not None
            port = node.ready.management.port
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                kept = Client(stream)

                async def rounds(count: int, name: str) -> tuple[int, int, int]:
                    for number in range(count):
                        if number % 20 == 0:  # each has some 30 objects in the state
                            assert await node.create(f"{name}-{number}") == 0
                        await polls(kept)
                    await opened_again(node, count)
                    return held()

                await rounds(FIRST, "first")
                before = await rounds(FIRST, "second")
                after = await rounds(ROUNDS, "third")
            files, tasks, objects = (now - then for now, then in zip(after, before, strict=True))
            # Each connection, or each request, would be more.
            assert files < ROUNDS // 10
            assert tasks < ROUNDS // 10
            assert objects < ROUNDS * len(TARGETS) // 2

    run(main)
