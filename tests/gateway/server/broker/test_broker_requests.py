"""Requests to other brokers: what waits goes together, and a broker that is away costs a pause."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import trio
import trio.testing

from gateway.server.broker.broker_requests import BrokerRequests
from gateway.server.node_client.errors import ConnectionClosed, UpstreamError
from kwire.message import Message
from kwire.messages.api_versions_request import ApiVersionsRequest


async def _run(requests: BrokerRequests[int], act: Callable[[], Awaitable[None]]) -> None:
    """Run the task while ``act`` sends, and until all is answered."""

    async with trio.open_nursery() as nursery:
        nursery.start_soon(requests.run)
        await act()
        await trio.sleep(5)
        nursery.cancel_scope.cancel()


def _in_mock_time(requests: BrokerRequests[int], act: Callable[[], Awaitable[None]]) -> None:
    trio.run(_run, requests, act, clock=trio.testing.MockClock(autojump_threshold=0))


class _Kind:
    """Takes everything that waits; notes what was answered."""

    versions = range(1)

    def __init__(self) -> None:
        self.outcomes: list[tuple[list[int], Any]] = []

    def take(self, waiting: deque[int]) -> list[int]:
        taken = list(waiting)
        waiting.clear()
        return taken

    def request(self, entries: Sequence[int]) -> ApiVersionsRequest:
        return ApiVersionsRequest(client_software_name=str(list(entries)))

    def answered(self, entries: Sequence[int], response: Any) -> None:
        self.outcomes.append((list(entries), response))


class _Connection:
    """Answers each request with its name, or raises what is next in ``errors``."""

    def __init__(self, *errors: UpstreamError | None) -> None:
        self.errors = deque(errors)
        self.at: list[float] = []
        self.is_closed = False

    async def call(self, request: Message, versions: range) -> str:
        assert isinstance(request, ApiVersionsRequest)
        self.at.append(trio.current_time())
        await trio.sleep(1)
        error = self.errors.popleft() if self.errors else None
        if error is not None:
            raise error
        return request.client_software_name

    async def close(self) -> None:
        self.is_closed = True


def test_entries_that_wait_during_a_request_go_into_the_next_one() -> None:
    kind, connection = _Kind(), _Connection()
    requests: BrokerRequests[int] = BrokerRequests(kind, lambda _: connection)

    async def act() -> None:
        requests.send(7, 1)
        await trio.sleep(0.5)
        requests.send(7, 2)
        requests.send(7, 3)

    _in_mock_time(requests, act)
    assert kind.outcomes == [([1], "[1]"), ([2, 3], "[2, 3]")]
    assert connection.is_closed


def test_idle_connection_that_was_closed_is_made_again_once() -> None:
    closed = ConnectionClosed("broker 7", "it closed the connection")
    kind, connection = _Kind(), _Connection(closed, None, closed, closed)
    requests: BrokerRequests[int] = BrokerRequests(kind, lambda _: connection)

    async def act() -> None:
        requests.send(7, 1)
        await trio.sleep(5)
        requests.send(7, 2)

    _in_mock_time(requests, act)
    assert kind.outcomes == [([1], "[1]"), ([2], None)]


def test_broker_that_is_away_is_asked_again_after_a_pause() -> None:
    away = UpstreamError("broker 7", "cannot connect")
    kind, connection = _Kind(), _Connection(away)
    requests: BrokerRequests[int] = BrokerRequests(kind, lambda _: connection)

    async def act() -> None:
        requests.send(7, 1)
        await trio.testing.wait_all_tasks_blocked()
        requests.send(7, 2)

    _in_mock_time(requests, act)
    assert kind.outcomes == [([1], None), ([2], "[2]")]
    first, second = connection.at
    assert second > first + 1


def test_broker_that_does_not_answer_holds_up_no_other() -> None:
    kind, slow, quick = _Kind(), _Connection(), _Connection()
    requests: BrokerRequests[int] = BrokerRequests(kind, {1: slow, 2: quick}.__getitem__)

    async def act() -> None:
        for entry in range(3):
            requests.send(1, entry)
            await trio.sleep(0.1)
        requests.send(2, 9)

    _in_mock_time(requests, act)
    assert ([9], "[9]") in kind.outcomes and kind.outcomes.index(([9], "[9]")) == 1
