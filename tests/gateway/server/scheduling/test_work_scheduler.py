"""Work of handlers on live connections: in slices, in threads, in order, and given up with its
client.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from gateway.handlers.context import Context, Handler
from gateway.ports.pending_response import PendingResponse, Work
from gateway.ports.work import completed, in_slices
from gateway.server.clients.dispatch import Malformed
from kwire.errors import DecodeError
from kwire.messages.list_groups_request import ListGroupsRequest
from kwire.messages.list_groups_response import ListedGroup, ListGroupsResponse
from tests.gateway.server.harness import ECHO, Client, request, run, serving
from tests.gateway.steps import SpentTime
from tests.shared import mistyped
from tests.waiting import until_async

LIST_GROUPS = 16


@pytest.fixture(autouse=True)
def time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the steps of the work take time of the scheduler."""
    Slow.spend = SpentTime(monkeypatch, "gateway.server.scheduling.work_scheduler").spend


class Slow:
    """Answers ListGroups after ``steps`` steps of 1 ms, and a function if ``threaded``."""

    spend: ClassVar[Callable[[float], None]]

    def __init__(
        self, steps: int, *, threaded: bool = False, error: Exception | None = None
    ) -> None:
        self.steps, self.threaded, self.error = steps, threaded, error
        self.done = 0
        self.ended = False
        self.thread: threading.Thread | None = None
        self.pending: PendingResponse | None = None
        self.handler = Handler(LIST_GROUPS, "list_groups", range(6), self.handle)

    def handle(self, request: Any, context: Context) -> Work:
        try:
            while self.done < self.steps:
                Slow.spend(0.001)
                self.done += 1
                yield None
            names = ["a"]
            if self.threaded:
                names = yield self.look_up
        finally:
            self.ended = True
        response = ListGroupsResponse(groups=[ListedGroup(group_id=name) for name in names])
        if self.pending is not None:
            self.pending.complete(response)
            return self.pending
        return response

    def look_up(self) -> list[str]:
        self.thread = threading.current_thread()
        if self.error is not None:
            raise self.error
        return ["b", "c"]


async def ask(client: Client, correlation_id: int = 1) -> None:
    await client.send(request(LIST_GROUPS, 4, ListGroupsRequest().encode(4), correlation_id))


async def names(client: Client, correlation_id: int = 1) -> list[str]:
    found, response = await client.answer(LIST_GROUPS, 4)
    assert found == correlation_id
    return [group.group_id for group in response.groups]


def test_other_connections_are_served_between_slices() -> None:
    async def main() -> None:
        slow = Slow(1 << 60)
        async with (
            serving(slow.handler, ECHO) as server,
            await server.connect() as client,
            await server.connect() as other,
        ):
            await ask(client)
            await until_async(lambda: slow.done > 0)
            for number in range(5):
                await other.ask(number)
            assert not slow.ended
            slow.steps = 0
            assert await names(client) == ["a"]

    run(main)


def test_requests_behind_it_are_answered_after_it() -> None:
    async def main() -> None:
        slow = Slow(30)
        async with serving(slow.handler, ECHO) as server, await server.connect() as client:
            await ask(client, 1)
            await ask(client, 2)
            assert await names(client, 1) == ["a"]
            assert await names(client, 2) == ["a"]
            await client.ask(3)

    run(main)


def test_a_function_that_work_yields_is_called_in_a_thread() -> None:
    async def main() -> None:
        slow = Slow(3, threaded=True)
        async with serving(slow.handler) as server, await server.connect() as client:
            await ask(client)
            assert await names(client) == ["b", "c"]
            assert slow.thread is not threading.current_thread()

    run(main)


def test_work_may_end_with_a_pending_response() -> None:
    async def main() -> None:
        slow = Slow(3)
        slow.pending = PendingResponse()
        async with serving(slow.handler) as server, await server.connect() as client:
            await ask(client)
            assert await names(client) == ["a"]

    run(main)


@pytest.mark.parametrize(
    ("error", "event"),
    [
        (Malformed(DecodeError("no", rule="truncated"), {"api": "x"}), "bad request"),
        (ValueError("a bug"), "internal error"),
    ],
)
def test_a_failure_of_work_closes_its_connection_only(
    error: Exception, event: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        slow = Slow(3, threaded=True, error=error)
        async with (
            serving(slow.handler, ECHO) as server,
            await server.connect() as client,
            await server.connect() as other,
        ):
            await ask(client)
            await client.closed()
            await other.ask(1)

    run(main)
    said = capsys.readouterr()
    assert event in said.out + said.err


def test_work_for_a_client_that_is_gone_is_given_up() -> None:
    async def main() -> None:
        slow = Slow(100_000)
        async with serving(slow.handler, ECHO) as server:
            async with await server.connect() as client:
                await ask(client)
                await until_async(lambda: slow.done > 0)
            await until_async(lambda: slow.ended)
            assert slow.done < 100_000
            async with await server.connect() as other:
                await other.ask(1)

    run(main)


def test_short_work_is_completed_at_once() -> None:
    slow = Slow(3, threaded=True)
    work = slow.handle(mistyped(None), mistyped(None))
    response: Any = in_slices(work, 3)
    assert [group.group_id for group in response.groups] == ["b", "c"]
    again = slow.handle(mistyped(None), mistyped(None))
    assert in_slices(again, 10_000) is again
    assert completed(again) is not None
