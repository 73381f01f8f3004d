"""Answers of every form: completed once, and given up without a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio

from gateway.config.config import Config
from gateway.ports.pending_response import PendingResponse
from gateway.ports.streamed import Streamed
from gateway.server.clients.answer_completer import AnswerCompleter
from gateway.server.clients.dispatch import InFlightRequest
from gateway.server.clients.purgatory import Purgatory
from gateway.server.clients.server_context import ServerContext
from gateway.server.logging.logs import Reports
from kwire.messages.list_groups_response import ListedGroup, ListGroupsResponse
from kwire.protocol import ApiKey
from tests.gateway.server.harness import run
from tests.shared import mistyped
from tests.waiting import until_async

VERSION = 4
Answers = Callable[[], Any]


class Received:
    """The calls of a receiver."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def deliver(self, response: Any) -> None:
        self.calls.append(("deliver", b"".join(map(_bytes, response.encode_parts(VERSION)))))

    def failed(self, error: Exception) -> None:
        self.calls.append(("failed", str(error)))

    def cut(self, reason: str) -> None:
        self.calls.append(("cut", reason))


def _bytes(part: Any) -> bytes:
    return b"".join(part.chunks) if hasattr(part, "chunks") else bytes(part)


def completing() -> tuple[ServerContext, Received, AnswerCompleter]:
    context = ServerContext(Config(source="sample"), mistyped(None), Purgatory(), Reports())
    received = Received()
    in_flight = InFlightRequest(ApiKey.LIST_GROUPS, "ListGroups", VERSION, 1, None)
    return context, received, AnswerCompleter(context, in_flight, received)


def message(count: int = 1) -> ListGroupsResponse:
    return ListGroupsResponse(groups=[ListedGroup(group_id=f"g{n}") for n in range(count)])


def streamed() -> Streamed:
    return Streamed(ListGroupsResponse(), "groups", message().groups)


def work_to(answer: Any) -> Iterator[Any]:
    yield None
    found = yield lambda: answer
    return found


def later(answer: Any) -> PendingResponse:
    """A pending response that is complete before anyone waits for it."""
    pending = PendingResponse()
    pending.complete(answer)
    return pending


def broken() -> Iterator[Any]:
    yield None
    raise ValueError("a bug")


@pytest.mark.parametrize(
    "answer",
    [
        message,
        streamed,
        lambda: work_to(message()),
        lambda: work_to(streamed()),
        lambda: work_to(later(message())),
        lambda: later(message()),
        lambda: later(streamed()),
        lambda: later(work_to(message())),
    ],
    ids=[
        "message",
        "streamed",
        "work",
        "work to streamed",
        "work to pending",
        "pending",
        "pending to streamed",
        "pending to work",
    ],
)
def test_answer_of_any_form_is_delivered_once(answer: Answers) -> None:
    async def main() -> None:
        context, received, completer = completing()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(context.work.run)
            completer.complete(answer())
            await until_async(lambda: bool(received.calls))
            assert received.calls == [("deliver", message().encode(VERSION))]
            assert context.purgatory.parked == 0
            nursery.cancel_scope.cancel()

    run(main)


@pytest.mark.parametrize(
    "answer",
    [PendingResponse, streamed, lambda: work_to(message())],
    ids=["pending", "streamed", "work"],
)
def test_cancelled_answer_is_given_up_and_not_delivered(answer: Answers) -> None:
    async def main() -> None:
        context, received, completer = completing()
        completer.complete(answer())
        assert context.purgatory.parked == 1 and completer.keeps_request
        completer.cancel()
        completer.cancel()
        assert context.purgatory.parked == 0 and len(context.responses) == 0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(context.work.run)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert received.calls == [] and context.memory.held == 0

    run(main)


@pytest.mark.parametrize(
    "answer",
    [broken, lambda: Streamed(ListGroupsResponse(), "groups", broken())],
    ids=["work", "streamed"],
)
def test_failure_of_an_answer_is_told_once(answer: Answers) -> None:
    async def main() -> None:
        context, received, completer = completing()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(context.work.run)
            completer.complete(answer())
            await until_async(lambda: bool(received.calls))
            assert received.calls == [("failed", "a bug")] and context.purgatory.parked == 0
            nursery.cancel_scope.cancel()

    run(main)


def test_long_message_that_a_later_event_completes_is_encoded_in_slices() -> None:
    async def main() -> None:
        context, received, completer = completing()
        pending = PendingResponse()
        completer.complete(pending)
        pending.complete(message(3000))
        assert len(context.responses) == 1 and not received.calls
        async with trio.open_nursery() as nursery:
            nursery.start_soon(context.work.run)
            await until_async(lambda: bool(received.calls))
            nursery.cancel_scope.cancel()
        assert received.calls == [("deliver", message(3000).encode(VERSION))]

    run(main)
