"""The link between node and worker: order, large messages, and ends that are closed."""

from __future__ import annotations

import socket
from collections import Counter
from typing import Any

import trio

from gateway.server.workers.link import Link
from gateway.server.workers.messages import Response, SyncRequest
from tests.gateway.server.harness import run


async def received(link: Link, number: int) -> list[Any]:
    found: list[Any] = []
    async for message in link.messages():
        found.append(message)
        if len(found) == number:
            break
    return found


def test_messages_arrive_in_order_beyond_the_buffers_of_the_socket() -> None:
    async def main() -> None:
        ours, its = map(Link, socket.socketpair())
        sent: list[Any] = [SyncRequest(number) for number in range(100)]
        sent[50:50] = [Response(1, b"x" * 20_000_000, Counter())]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ours.run)
            for message in sent:
                ours.send(message)
            assert await received(its, len(sent)) == sent
            nursery.cancel_scope.cancel()
        ours.close()
        its.close()

    run(main)


def test_messages_end_where_the_other_end_is_closed() -> None:
    async def main() -> None:
        ours, its = map(Link, socket.socketpair())
        its.send(SyncRequest(1))
        its.close()
        assert await received(ours, 99) == [SyncRequest(1)]
        ours.send(SyncRequest(2))  # dropped
        ours.close()
        ours.close()

    run(main)
