"""Requests that workers forward: every form of a response reaches the worker as bytes."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import trio

from gateway.config.config import Config
from gateway.handlers.context import Context, Handler, Peer
from gateway.handlers.gateway_port import Gateway
from gateway.ports.pending_response import PendingResponse
from gateway.server.clients.dispatch import Dispatcher
from gateway.server.clients.purgatory import Purgatory
from gateway.server.clients.server_context import ServerContext
from gateway.server.logging.logs import Reports
from gateway.server.workers.forwarded_requests import ForwardedRequests
from gateway.server.workers.messages import Request, Response
from kwire.header import encode_request_header
from kwire.messages.heartbeat_request import HeartbeatRequest
from kwire.messages.heartbeat_response import HeartbeatResponse
from kwire.messages.list_groups_request import ListGroupsRequest
from kwire.messages.list_groups_response import ListedGroup, ListGroupsResponse
from tests.gateway.server.harness import HEARTBEAT, handler, run
from tests.waiting import until_async

LIST_GROUPS = 16
PEER = Peer("PLAINTEXT", "User:bob", "10.0.0.1", 1, 1)
FRAME = encode_request_header(HEARTBEAT, 4, 1, "client") + HeartbeatRequest(
    group_id="g", generation_id=7, member_id="m"
).encode(4)
BODY = HeartbeatResponse(error_code=7).encode(4)


class Forwarding:
    """The node's side, with what it has sent to the worker."""

    def __init__(self, one: Handler) -> None:
        self.sent: list[Response] = []
        purgatory = Purgatory()
        table = {one.api_key: one}
        self.context = ServerContext(
            Config(source="sample"),
            Dispatcher(table, cast(Gateway, None), element_budget=1000),
            purgatory,
            Reports(),
        )
        self.requests = ForwardedRequests(self.context, self.sent.append)

    async def answered(self) -> Response:
        await until_async(lambda: bool(self.sent))
        assert len(self.requests) == 0
        return self.sent.pop()


@contextlib.asynccontextmanager
async def forwarding(handle: Callable[[Any, Context], Any]) -> AsyncIterator[Forwarding]:
    made = Forwarding(handler(handle))
    async with trio.open_nursery() as nursery:
        for task in (made.context.purgatory, made.context.work):
            nursery.start_soon(task.run)
        made.requests.handle(Request(5, PEER, FRAME))
        yield made
        nursery.cancel_scope.cancel()


def echo(request: Any, context: Context) -> HeartbeatResponse:
    assert context.peer == PEER
    return HeartbeatResponse(error_code=request.generation_id)


def check(handle: Callable[[Any, Context], Any], number: int = 5) -> None:
    async def main() -> None:
        async with forwarding(handle) as node:
            answer = await node.answered()
            assert (answer.number, answer.body, answer.errors) == (number, BODY, {7: 1})
            assert sum(node.context.counts.apis[HEARTBEAT].buckets) == 0, "the worker counts it"

    run(main)


def test_response_at_once() -> None:
    check(echo)


def test_response_of_work_in_slices() -> None:
    def work(request: Any, context: Context) -> Any:
        yield None
        found = yield lambda: echo(request, context)
        return found

    check(work)


def test_response_at_a_deadline() -> None:
    def late(request: Any, context: Context) -> Any:
        return PendingResponse(deadline=context.now + 0.05, expire=lambda: echo(request, context))

    check(late)


def test_long_response_is_encoded_in_slices() -> None:
    groups = [ListedGroup(group_id=f"group-{number}") for number in range(3000)]
    response = ListGroupsResponse(groups=groups)
    body = response.encode(4)
    long = Handler(LIST_GROUPS, "list_groups", range(6), lambda request, context: response)
    frame = encode_request_header(LIST_GROUPS, 4, 1, "client") + ListGroupsRequest().encode(4)

    async def main() -> None:
        node = Forwarding(long)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.context.work.run)
            node.requests.handle(Request(5, PEER, frame))
            assert not node.sent
            assert (await node.answered()).body == body
            assert node.context.memory.held == 0
            nursery.cancel_scope.cancel()

    run(main)


def test_bug_of_a_handler_closes_the_connection_of_the_client() -> None:
    def fails(request: Any, context: Context) -> Any:
        raise RuntimeError("a bug")

    async def main() -> None:
        async with forwarding(fails) as node:
            assert (await node.answered()).body is None
            assert node.context.reports.counts["internal error"] == 1

    run(main)


def test_request_of_a_client_that_left_is_cancelled() -> None:
    pending = PendingResponse()

    async def main() -> None:
        async with forwarding(lambda request, context: pending) as node:
            assert len(node.requests) == 1 and node.context.purgatory.parked == 1
            node.requests.cancel(5)
            assert pending.cancelled and node.context.purgatory.parked == 0
            node.requests.cancel(5)
            pending.complete(HeartbeatResponse())
            assert not node.sent

    run(main)
