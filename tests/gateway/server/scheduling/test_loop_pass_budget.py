"""Connections with large requests take turns, and small requests pass them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import pytest
import trio

from gateway.handlers.context import Context, Handler
from gateway.ports.streamed import Streamed
from gateway.server.scheduling import loop_pass_budget as turns
from kwire.messages.heartbeat_request import HeartbeatRequest
from kwire.messages.heartbeat_response import HeartbeatResponse
from kwire.messages.list_groups_request import ListGroupsRequest
from kwire.messages.list_groups_response import ListedGroup, ListGroupsResponse
from tests.gateway.server.harness import HEARTBEAT, request, run, serving
from tests.waiting import until_async

CROWD = 40


@pytest.fixture(autouse=True)
def each_pass_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a large request took all the time of a pass."""
    monkeypatch.setattr(turns, "PASS_S", -1.0)


def handle(asked: Any, context: Context) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=asked.generation_id)


def test_small_request_waits_for_two_or_three_large_ones_however_many_there_are() -> None:
    handled = 0

    def handle(asked: Any, context: Context) -> HeartbeatResponse:
        nonlocal handled
        handled += bool(asked.member_id)
        return HeartbeatResponse(error_code=asked.generation_id)

    async def main() -> None:
        large = request(
            HEARTBEAT, 4, HeartbeatRequest(member_id="m" * 8_000, generation_id=1).encode(4)
        )
        async with (
            serving(Handler(HEARTBEAT, "heartbeat", range(5), handle)) as server,
            await server.connect() as bystander,
            contextlib.AsyncExitStack() as stack,
        ):
            crowd = [await stack.enter_async_context(await server.connect()) for _ in range(CROWD)]
            for client in crowd:  # all at once: the server does not run in between
                assert os.write(client.stream.socket.fileno(), large) == len(large)
            large_between = []
            for number in range(10):
                before = handled
                await bystander.ask(number, number)
                large_between.append(handled - before)
            for client in crowd:
                assert (await client.answer())[1].error_code == 1
            assert max(large_between) <= 3, large_between

    run(main)


def test_every_waiting_connection_gets_its_turn_and_can_be_closed_before() -> None:
    async def main() -> None:
        large = request(
            HEARTBEAT, 4, HeartbeatRequest(member_id="m" * 8_000, generation_id=1).encode(4)
        )
        async with (
            serving(Handler(HEARTBEAT, "heartbeat", range(5), handle)) as server,
            contextlib.AsyncExitStack() as stack,
        ):
            crowd = [await stack.enter_async_context(await server.connect()) for _ in range(10)]
            for client in crowd:
                await client.send(large * 3)
            for client in crowd[:5]:
                await trio.aclose_forcefully(client.stream)
            for client in crowd[5:]:
                for _ in range(3):
                    await client.answer()
            await until_async(lambda: len(server.connections) == 5)

    run(main)


class SentInAPass(trio.abc.Instrument):
    """The maximum of bytes that the server sent in one pass of the event loop."""

    def __init__(self, counts: Any) -> None:
        self.most, self._counts, self._before = 0, counts, counts.sent

    def after_io_wait(self, timeout: float) -> None:
        self._before = self._counts.sent

    def before_io_wait(self, timeout: float) -> None:
        self.most = max(self.most, self._counts.sent - self._before)


def test_response_shared_by_many_connections_is_not_sent_in_one_pass() -> None:
    requests: list[Any] = []

    def groups() -> Iterator[ListedGroup | None]:
        while len(requests) < 20:  # all connections share one response
            yield None
        yield from [ListedGroup(group_id="g" * 30_000)] * 100

    def list_groups(asked: Any, context: Context) -> Streamed:
        requests.append(asked)
        return Streamed(ListGroupsResponse(), "groups", groups(), share_key="all")

    async def main() -> None:
        async with (
            serving(Handler(16, "list_groups", range(6), list_groups)) as server,
            contextlib.AsyncExitStack() as stack,
        ):
            crowd = [await stack.enter_async_context(await server.connect()) for _ in range(20)]
            sent = SentInAPass(server.server_context.counts)
            trio.lowlevel.add_instrument(sent)
            for client in crowd:
                await client.send(request(16, 4, ListGroupsRequest().encode(4)))
            for client in crowd:
                answer: Any = (await client.answer(16, 4))[1]
                assert len(answer.groups) == 100
            trio.lowlevel.remove_instrument(sent)
            assert 0 < sent.most < 10 << 20, sent.most

    run(main)
