"""Streamed responses on live connections: other connections are served meanwhile, memory is
counted, equal responses are shared.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
import trio

from gateway.handlers.context import Context, Handler
from gateway.ports.encoded import Encoded
from gateway.ports.pending_response import PendingResponse
from gateway.ports.streamed import Streamed
from kwire.messages.list_groups_request import ListGroupsRequest
from kwire.messages.list_groups_response import ListedGroup, ListGroupsResponse
from tests.gateway.server.harness import ECHO, Client, request, run, serving
from tests.gateway.steps import SpentTime
from tests.shared import mistyped
from tests.waiting import until_async

LIST_GROUPS = 16


@pytest.fixture(autouse=True)
def time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the elements of the responses take time of the encoder."""
    Many.spend = SpentTime(
        monkeypatch,
        "gateway.server.clients.response_scheduler",
        "gateway.server.scheduling.work_scheduler",
    ).spend


class Many:
    """Answers ListGroups with ``count`` groups, each of which takes ``seconds``."""

    spend: ClassVar[Callable[[float], None]]

    def __init__(self, count: int, seconds: float = 0.0001, *, share: object = None) -> None:
        self.count = count
        self.seconds = seconds
        self.share = share
        self.begun = self.made = 0
        self.handler = Handler(LIST_GROUPS, "list_groups", range(6), self.handle)

    def handle(self, request: Any, context: Context) -> Streamed:
        return Streamed(ListGroupsResponse(), "groups", self.groups(), share_key=self.share)

    def groups(self) -> Iterator[ListedGroup]:
        self.begun += 1
        for number in range(self.count):
            Many.spend(self.seconds)
            self.made += 1
            yield ListedGroup(group_id=f"group-{number}")


async def ask(client: Client, correlation_id: int = 1) -> None:
    await client.send(request(LIST_GROUPS, 4, ListGroupsRequest().encode(4), correlation_id))


async def answer(client: Client, correlation_id: int = 1) -> int:
    found, response = await client.answer(LIST_GROUPS, 4)
    assert found == correlation_id
    return len(response.groups)


def test_long_response_does_not_delay_other_connections() -> None:
    count = 20_000
    in_a_pass: list[int] = []

    async def watch(many: Many) -> None:
        while many.made < count:
            before = many.made
            await trio.lowlevel.checkpoint()
            in_a_pass.append(many.made - before)

    async def main() -> None:
        many = Many(count, 0.002)
        async with (
            serving(many.handler, ECHO) as server,
            await server.connect() as slow,
            await server.connect() as other,
            trio.open_nursery() as nursery,
        ):
            await ask(slow)
            nursery.start_soon(watch, many)
            await until_async(lambda: many.made > 0)
            for number in range(20):
                await other.ask(number)
            assert many.made < count, "the long response was done before the others were answered"
            assert await answer(slow) == count

    run(main)
    # A slice ends with the element that exceeds 5 ms, or with the one behind it, and the slices of
    # two passes may lie between two turns of another task.
    assert max(in_a_pass) <= 8, "each element takes 2 ms, a slice 5 ms"


def test_responses_stay_in_order_behind_a_long_one() -> None:
    async def main() -> None:
        many = Many(2000)
        async with serving(many.handler, ECHO) as server, await server.connect() as client:
            await ask(client, 1)
            await ask(client, 2)
            assert [await answer(client, 1), await answer(client, 2)] == [2000, 2000]
            await client.ask(3)

    run(main)


def test_equal_concurrent_requests_share_a_response_and_its_memory() -> None:
    async def main() -> None:
        many = Many(20_000, share="all")
        async with serving(many.handler, ECHO) as server:
            clients = [await server.connect() for _ in range(20)]
            for number, client in enumerate(clients):
                await ask(client, number)
            for number, client in enumerate(clients):
                assert await answer(client, number) == 20_000
            assert many.begun < 20
            await until_async(lambda: server.server_context.memory.held == 0)
            for client in clients:
                await trio.aclose_forcefully(client.stream)

    run(main)


def test_encoded_elements_of_several_responses_count_once() -> None:
    data = ListGroupsResponse(groups=[ListedGroup(group_id="g" * 100)]).encode(4)
    encoded = [Encoded(data[7:-1] * 100, 100) for _ in range(1000)]

    def handle(request: Any, context: Context) -> Streamed:
        return Streamed(ListGroupsResponse(), "groups", encoded)

    async def main() -> None:
        handler = Handler(LIST_GROUPS, "list_groups", range(6), handle)
        async with serving(handler, ECHO) as server:
            memory = server.server_context.memory
            clients = [await server.connect() for _ in range(4)]
            for number, client in enumerate(clients):
                await ask(client, number)
            size = sum(len(one.data) for one in encoded)
            await until_async(lambda: all(one.holders == len(clients) for one in encoded))
            assert size <= memory.held < 1.1 * size
            for client in clients:
                await trio.aclose_forcefully(client.stream)
            await until_async(lambda: memory.held == 0)
            assert not any(one.holders for one in encoded)

    run(main)


def test_response_that_is_complete_in_the_next_pass_is_sent_at_every_turn() -> None:
    """A connection lets others run after some turns, among them the task that completes it."""
    many = Many(1000)

    async def main() -> None:
        async with serving(many.handler, ECHO) as server, await server.connect() as client:
            for number in range(100):
                await ask(client, number)
                assert await answer(client, number) == 1000

    run(main)


def test_response_is_given_up_when_its_connection_is_closed() -> None:
    async def main() -> None:
        many = Many(1_000_000)
        async with serving(many.handler, ECHO) as server:
            async with await server.connect() as client:
                await ask(client)
                await until_async(lambda: many.made > 100)
                assert len(server.server_context.responses) == 1
            await until_async(lambda: len(server.server_context.responses) == 0)
            await until_async(lambda: server.server_context.memory.held == 0)
            assert many.made < 1_000_000

    run(main)


def test_response_above_buffers_max_bytes_closes_its_connection() -> None:
    async def main() -> None:
        many = Many(1_000_000)
        async with (
            serving(many.handler, ECHO, buffers_max_bytes=1 << 20) as server,
            await server.connect() as client,
            await server.connect() as other,
        ):
            await ask(client)
            assert await client.closed() == b""
            await other.ask(1)
            assert server.server_context.counts.cuts["buffers.max.bytes"] == 1
            await until_async(lambda: server.server_context.memory.held == 0)
            assert many.made < 1_000_000

    run(main)


def test_failing_element_closes_its_connection_alone() -> None:
    def broken() -> Iterator[ListedGroup]:
        yield ListedGroup()
        raise ValueError("a bug")

    async def main() -> None:
        handler = Handler(
            LIST_GROUPS,
            "list_groups",
            range(6),
            lambda request, context: Streamed(ListGroupsResponse(), "groups", broken()),
        )
        async with (
            serving(handler, ECHO) as server,
            await server.connect() as client,
            await server.connect() as other,
        ):
            await ask(client)
            assert await client.closed() == b""
            await other.ask(1)
            assert server.counts["internal error"] == 1

    run(main)


def test_pending_response_may_be_streamed() -> None:
    async def main() -> None:
        many, laters = Many(3000), []

        def handle(request: Any, context: Context) -> PendingResponse:
            laters.append(PendingResponse())
            return laters[-1]

        async with (
            serving(Handler(LIST_GROUPS, "list_groups", range(6), handle), ECHO) as server,
            await server.connect() as client,
        ):
            await ask(client)
            await until_async(lambda: bool(laters))
            laters[0].complete(many.handle(mistyped(None), mistyped(None)))
            assert await answer(client) == 3000

    run(main)


def test_short_response_does_not_wait_behind_long_ones() -> None:
    async def main() -> None:
        gc.collect()
        long, short = Many(100_000, 0.001), Many(1)
        choose = [long] * 5 + [short]

        def handle(request: Any, context: Context) -> Streamed:
            return choose.pop(0).handle(request, context)

        async with serving(Handler(LIST_GROUPS, "list_groups", range(6), handle), ECHO) as server:
            clients = [await server.connect() for _ in range(6)]
            for client in clients[:5]:
                await ask(client)
            await until_async(lambda: long.begun == 5)
            before = long.made
            await ask(clients[5])
            assert await answer(clients[5]) == 1
            assert long.made - before < 60, "more than a few slices of others"
            for client in clients:
                await trio.aclose_forcefully(client.stream)

    run(main)


def test_long_pending_response_is_encoded_in_slices() -> None:
    async def main() -> None:
        groups = [ListedGroup(group_id=f"group-{number}") for number in range(1000)]
        waiting: list[PendingResponse] = []

        def handle(asked: Any, context: Context) -> PendingResponse:
            waiting.append(PendingResponse())
            return waiting[-1]

        async with (
            serving(Handler(LIST_GROUPS, "list_groups", range(6), handle)) as server,
            await server.connect() as client,
        ):
            await ask(client)
            await until_async(lambda: len(waiting) == 1)
            waiting[0].complete(ListGroupsResponse(groups=groups))
            assert len(server.server_context.responses) == 1
            assert await answer(client) == 1000
            await ask(client, 2)
            await until_async(lambda: len(waiting) == 2)
            waiting[1].complete(ListGroupsResponse(groups=groups[:10]))
            assert len(server.server_context.responses) == 0
            assert await answer(client, 2) == 10

    run(main)
