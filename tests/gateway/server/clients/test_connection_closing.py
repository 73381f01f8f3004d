"""The end of a connection over a real socket: disconnected, drained or cut, in every state."""

from __future__ import annotations

import ssl
import struct
from typing import Any, cast

import pytest
import trio
import trio.testing

from gateway.handlers.context import Context, Handler
from gateway.ports.pending_response import PendingResponse
from gateway.server.clients.connection_state import State
from gateway.server.clients.listener_auth import ListenerAuth
from kwire.messages.heartbeat_response import HeartbeatResponse
from tests.gateway.server.clients.fetch_requests import (
    fetch_handler,
    fetch_request,
    records_answer,
)
from tests.gateway.server.harness import (
    handler,
    heartbeat,
    run,
    serving,
)
from tests.waiting import until_async


def test_pending_response_is_cancelled_when_the_client_disconnects() -> None:
    waiting: list[PendingResponse] = []

    def handle(asked: Any, context: Context) -> PendingResponse:
        waiting.append(PendingResponse(deadline=context.now + 1000))
        return waiting[-1]

    async def main() -> None:
        async with serving(handler(handle)) as server:
            async with await server.connect() as client:
                await client.send(heartbeat(1))
                await until_async(lambda: bool(waiting))
                assert server.server_context.purgatory.parked == 1
            await until_async(lambda: not server.server_context.purgatory.parked)
            assert waiting[0].cancelled
            waiting[0].complete(HeartbeatResponse())  # after the end: it is dropped

    run(main)


def test_draining_expires_pending_responses_and_closes() -> None:
    def handle(asked: Any, context: Context) -> PendingResponse:
        return PendingResponse(
            deadline=context.now + 1000, expire=lambda: HeartbeatResponse(error_code=27)
        )

    async def main() -> None:
        async with (
            serving(handler(handle)) as server,
            await server.connect() as waiting,
            await server.connect() as idle,
        ):
            await waiting.send(heartbeat(1) + heartbeat(2))
            await until_async(lambda: server.server_context.purgatory.parked == 1)
            server.stop.set()
            assert (await waiting.answer())[1].error_code == 27
            assert await waiting.closed() == b""
            assert await idle.closed() == b""
            with pytest.raises(OSError, match="refused"):
                await server.connect()

    run(main)


def test_draining_cuts_a_client_that_does_not_read() -> None:
    async def main() -> None:
        handle = fetch_handler(lambda asked, context: records_answer(b"x" * 4_000_000))
        async with (
            serving(handle, drain_timeout_ms=200, socket_send_buffer_bytes=32 * 1024) as server,
            await server.connect(receive_buffer=16 * 1024) as dead,
        ):
            await dead.send(fetch_request())
            await until_async(lambda: any(c._output for c in server.connections._all))
            server.stop.set()
            await until_async(lambda: not len(server.connections))

    run(main)


def test_pending_response_to_a_client_that_is_gone_is_no_bug() -> None:
    waiting: list[PendingResponse] = []

    def handle(asked: Any, context: Context) -> PendingResponse:
        waiting.append(PendingResponse())
        return waiting[-1]

    async def main() -> None:
        async with serving(handler(handle)) as server:
            client = await server.connect()
            await client.send(heartbeat(1))
            await until_async(lambda: bool(waiting))
            client.stream.setsockopt(
                trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            client.stream.socket.close()
            waiting[0].complete(HeartbeatResponse())  # before the server's task can notice
            await until_async(lambda: not len(server.connections))
            assert server.counts["internal error"] == 0
            assert server.counts["peer disconnected"] == 1

    run(main)


def held_responses(pending: list[PendingResponse]) -> Handler:
    """A handler whose requests of generation 0 stay pending; it adds their responses to a list."""

    def handle(asked: Any, context: Context) -> Any:
        if asked.generation_id:
            return HeartbeatResponse(error_code=asked.generation_id)
        pending.append(PendingResponse())
        return pending[-1]

    return handler(handle)


def test_responses_before_a_pending_one_are_sent_at_once() -> None:
    pending: list[PendingResponse] = []

    async def main() -> None:
        async with (
            serving(held_responses(pending)) as server,
            await server.connect() as client,
        ):
            await client.send(heartbeat(1, 5) + heartbeat(2))
            assert (await client.answer())[0] == 1
            assert not pending[0].done
            pending[0].complete(HeartbeatResponse())
            assert (await client.answer())[0] == 2

    run(main)


def test_pending_response_that_completes_after_a_cut_is_no_bug() -> None:
    pending: list[PendingResponse] = []

    async def main() -> None:
        async with (
            serving(held_responses(pending)) as server,
            await server.connect() as client,
        ):
            await client.send(heartbeat(1))
            await until_async(lambda: bool(pending))
            (connection,) = server.connections._all
            connection.cut("a limit")
            pending[0].complete(HeartbeatResponse())  # before the connection's task can run
            await client.closed()
            await until_async(lambda: not len(server.connections))
            assert server.counts["internal error"] == 0
            assert server.server_context.counts.cuts == {"a limit": 1}

    run(main)


def test_cut_connection_is_closed_once_though_it_is_drained_and_cut_again() -> None:
    async def main() -> None:
        async with serving() as server, await server.connect() as client:
            await client.ask(1)
            (connection,) = server.connections._all
            connection.cut("a limit")
            connection.drain()
            connection.cut("another limit")
            assert await client.closed() == b""
            await until_async(lambda: not len(server.connections))
            connection.cut("too late")  # as the reaper may, whose list of connections is a copy
            connection.drain()
            assert server.server_context.counts.cuts == {"another limit": 1}

    run(main)


def test_draining_cuts_a_connection_whose_response_stays_pending() -> None:
    pending: list[PendingResponse] = []

    async def main() -> None:
        async with (
            serving(held_responses(pending), drain_timeout_ms=100) as server,
            await server.connect() as client,
        ):
            await client.send(heartbeat(1))
            await until_async(lambda: bool(pending))
            server.stop.set()
            assert await client.closed() == b""
            assert pending[0].cancelled
            assert server.server_context.counts.cuts == {"the server stops": 1}

    run(main)


def test_client_that_disconnects_from_a_draining_connection_cancels_its_pending_response() -> None:
    pending: list[PendingResponse] = []

    async def main() -> None:
        async with serving(held_responses(pending)) as server:
            async with await server.connect() as client:
                await client.send(heartbeat(1))
                await until_async(lambda: bool(pending))
                (connection,) = server.connections._all
                connection.drain()
                connection.drain()
            await until_async(lambda: not len(server.connections))
            assert pending[0].cancelled
            assert not server.server_context.counts.cuts

    run(main)


@pytest.mark.parametrize("is_cut", [False, True])
def test_connection_in_its_tls_handshake_closes_when_it_is_drained_or_cut(is_cut: bool) -> None:
    async def main() -> None:
        async with serving() as server:
            auth = ListenerAuth(tls=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
            cast(dict[str, ListenerAuth], server.server_context.listener_auths)["PLAINTEXT"] = auth
            async with await server.connect() as client:
                await until_async(lambda: bool(len(server.connections)))
                (connection,) = server.connections._all
                assert connection._state.now is State.HANDSHAKE
                await trio.testing.wait_all_tasks_blocked()
                connection.cut("a limit") if is_cut else connection.drain()
                assert await client.closed() == b""
                await until_async(lambda: not len(server.connections))
            assert server.counts["handshake failed"] == 0
            assert server.server_context.counts.cuts == ({"a limit": 1} if is_cut else {})

    run(main)
