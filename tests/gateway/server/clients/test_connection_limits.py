"""Limits of a connection over a real socket: sizes, times, and the memory of all connections."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import pytest
import trio

from gateway.config.config import MIB, Config
from gateway.handlers.context import Context, Handler
from gateway.ports.pending_response import PendingResponse
from gateway.server.clients.dispatch import DECODED_FACTOR
from kwire.errors import DecodeError
from kwire.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.messages.fetch_response import FetchResponse
from kwire.messages.heartbeat_request import HeartbeatRequest
from kwire.messages.heartbeat_response import HeartbeatResponse
from tests.gateway.server.clients.fetch_requests import (
    FETCH,
    fetch_handler,
    fetch_request,
    records_answer,
)
from tests.gateway.server.harness import (
    ECHO,
    HEARTBEAT,
    handler,
    heartbeat,
    request,
    run,
    serving,
)
from tests.waiting import until_async


def test_no_more_than_read_ahead_max_bytes_is_read_behind_a_pending_request() -> None:
    waiting: list[PendingResponse] = []

    def handle(asked: Any, context: Context) -> Any:
        if asked.generation_id == 0:
            waiting.append(PendingResponse())
            return waiting[-1]
        return HeartbeatResponse()

    async def main() -> None:
        limit = 64 * 1024
        async with (
            serving(
                handler(handle), read_ahead_max_bytes=limit, socket_receive_buffer_bytes=32 * 1024
            ) as server,
            await server.connect() as client,
        ):
            flood = heartbeat(1) + b"".join(heartbeat(n, 1) for n in range(2, 100_000))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.send, flood)
                await until_async(lambda: bool(waiting))
                await trio.sleep(0.3)
                (connection,) = server.connections._all
                assert connection._splitter.buffered <= 2 * limit + 64
                waiting[0].complete(HeartbeatResponse())
                for number in range(1, 100_000):
                    data = await client.frame()
                    assert int.from_bytes(data[:4], "big") == number

    run(main)


def test_client_that_does_not_read_is_not_served_until_it_reads() -> None:
    asked: list[int] = []

    def handle(message: Any, context: Context) -> FetchResponse:
        asked.append(1)
        return records_answer(b"x" * 100_000)

    async def main() -> None:
        bound = 256 * 1024
        async with (
            serving(
                fetch_handler(handle),
                ECHO,
                output_buffer_max_bytes=bound,
                socket_send_buffer_bytes=32 * 1024,
            ) as server,
            await server.connect(receive_buffer=16 * 1024) as client,
            await server.connect() as other,
        ):
            await client.send(fetch_request() * 200)
            await until_async(lambda: any(c._output for c in server.connections._all))
            await trio.sleep(0.1)
            (stuck,) = (c for c in server.connections._all if c._output)
            assert stuck._output.unsent <= bound + 100_200
            run_sliced = len(asked)
            assert run_sliced < 10
            assert (await other.ask(1, 5)).error_code == 5
            for _ in range(200):  # a slow reader gets everything in the end
                _, answer = await client.answer(FETCH, 12)
                assert len(answer.responses[0].partitions[0].records) == 100_000
            assert len(asked) == 200

    run(main)


def test_client_that_never_reads_is_cut_after_response_send_timeout_ms() -> None:
    async def main() -> None:
        handle = fetch_handler(lambda asked, context: records_answer(b"x" * 4_000_000))
        async with (
            serving(
                handle, ECHO, response_send_timeout_ms=200, socket_send_buffer_bytes=32 * 1024
            ) as server,
            await server.connect(receive_buffer=16 * 1024) as dead,
            await server.connect() as other,
        ):
            await dead.send(fetch_request())
            await until_async(lambda: server.counts["connection cut"] == 1)
            await until_async(lambda: len(server.connections) == 1)
            assert (await other.ask(1, 5)).error_code == 5

    run(main)


def test_idle_connection_is_closed_after_connections_max_idle_ms() -> None:
    async def main() -> None:
        async with (
            serving(connections_max_idle_ms=3000) as server,
            await server.connect() as idle,
            await server.connect() as busy,
        ):
            for number in itertools.count():
                await busy.ask(number)
                if len(server.connections) == 1:
                    break
                await trio.sleep(0.05)
            assert await idle.closed() == b""
            await busy.ask(99)

    run(main)


def test_slow_request_is_cut_after_request_receive_timeout_ms() -> None:
    async def main() -> None:
        async with (
            serving(request_receive_timeout_ms=200) as server,
            await server.connect() as client,
        ):
            await client.ask(1)
            await client.send(b"\0\0\1\0")
            with pytest.raises((trio.BrokenResourceError, trio.ClosedResourceError)):
                for _ in range(40):
                    await trio.sleep(0.05)
                    await client.send(b"x")
            assert server.counts["connection cut"] == 1

    run(main)


def test_frame_above_the_limit_closes_the_connection() -> None:
    async def main() -> None:
        async with serving(socket_request_max_bytes=1000, first_request_max_bytes=100) as server:
            async with await server.connect() as first:
                await first.send((101).to_bytes(4, "big"))
                assert await first.closed() == b""
            async with await server.connect() as second:
                await second.ask(1)
                body = request(
                    HEARTBEAT, 4, b"\2g\0\0\0\5\2m\0\0" + b"\0" * 500
                )  # behind the body: ignored
                await second.send(body)
                assert (await second.answer())[1].error_code == 5
                await second.send((1001).to_bytes(4, "big"))
                assert await second.closed() == b""
            assert server.counts["bad request"] == 2

    run(main)


def test_reassignment_of_4000_partitions_is_the_largest_within_the_default() -> None:
    """As docs/operations.md says: a topic, a partition and three replicas each."""
    partition = ReassignablePartition(partition_index=0, replicas=[1, 2, 3])
    topic = ReassignableTopic(name="t", partitions=[partition])

    def decode(count: int) -> None:
        asked = AlterPartitionReassignmentsRequest(topics=[topic] * count)
        AlterPartitionReassignmentsRequest.decode(
            asked.encode(1), 1, budget=Config().request_max_elements
        )

    decode(4000)
    with pytest.raises(DecodeError) as fault:
        decode(4001)
    assert fault.value.rule == "element-budget"


def test_request_above_request_max_elements_closes_the_connection_and_names_the_key(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from kwire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
    from kwire.messages.metadata_response import MetadataResponse

    metadata = Handler(3, "metadata", range(13), lambda asked, context: MetadataResponse())

    def names(count: int) -> bytes:
        return request(
            3,
            12,
            MetadataRequest(topics=[MetadataRequestTopic(name="t") for _ in range(count)]).encode(
                12
            ),
        )

    async def main() -> None:
        async with (
            serving(metadata, request_max_elements=500) as server,
            await server.connect() as client,
        ):
            await client.send(names(500))
            await client.answer(3, 12)
            await client.send(names(501))
            assert await client.closed() == b""
            assert server.counts["bad request"] == 1

    run(main)
    assert "or raise request.max.elements" in capsys.readouterr().err


def test_unfinished_requests_count_in_buffers_max_bytes() -> None:
    async def main() -> None:
        limit = 2 * 1024 * 1024
        async with (
            serving(buffers_max_bytes=limit, first_request_max_bytes=1 << 20) as server,
            await server.connect() as bystander,
            contextlib.AsyncExitStack() as stack,
        ):
            memory = server.server_context.memory
            for _ in range(10):
                hoarder = await stack.enter_async_context(await server.connect())
                with contextlib.suppress(trio.BrokenResourceError):
                    await hoarder.send((1 << 20).to_bytes(4, "big") + bytes(700_000))
                await trio.sleep(0.02)
                assert memory.held <= limit + 1024 * 1024
                assert (await bystander.ask(1, 5)).error_code == 5
            assert server.counts["connection cut"] >= 7
            await stack.aclose()
            await until_async(lambda: len(server.connections) == 1)
            assert memory.held == 0

    run(main)


def test_unsent_responses_count_in_buffers_max_bytes() -> None:
    async def main() -> None:
        handle = fetch_handler(lambda asked, context: records_answer(b"x" * 900_000))
        async with (
            serving(
                handle, ECHO, buffers_max_bytes=2 * 1024 * 1024, socket_send_buffer_bytes=16 * 1024
            ) as server,
            await server.connect() as bystander,
            contextlib.AsyncExitStack() as stack,
        ):
            for _ in range(10):
                dead = await stack.enter_async_context(
                    await server.connect(receive_buffer=8 * 1024)
                )
                await dead.send(fetch_request())
            await until_async(lambda: server.counts["connection cut"] >= 7)
            assert (await bystander.ask(1, 5)).error_code == 5
            assert server.server_context.memory.held <= 3 * 1024 * 1024

    run(main)


def test_pending_requests_count_in_buffers_max_bytes() -> None:
    waiting: list[PendingResponse] = []

    def handle(asked: Any, context: Context) -> PendingResponse:
        waiting.append(PendingResponse(keeps_request=asked.group_id != "forgotten"))
        return waiting[-1]

    def large(group_id: str) -> bytes:
        body = HeartbeatRequest(group_id=group_id, generation_id=1, member_id="m" * 30_000)
        return request(HEARTBEAT, 4, body.encode(4))

    async def main() -> None:
        async with (
            serving(
                Handler(HEARTBEAT, "heartbeat", range(5), handle), buffers_max_bytes=MIB
            ) as server,
            contextlib.AsyncExitStack() as stack,
        ):
            memory = server.server_context.memory
            clients = [await stack.enter_async_context(await server.connect()) for _ in range(8)]
            await clients[0].send(large("forgotten"))
            await until_async(lambda: len(waiting) == 1)
            assert memory.held == 0
            await clients[1].send(large("kept"))
            await until_async(lambda: memory.held > DECODED_FACTOR * 30_000)
            waiting[1].complete(HeartbeatResponse())
            await clients[1].answer()
            await until_async(lambda: memory.held == 0)
            for client in clients[2:]:
                await client.send(large("kept"))
            await until_async(lambda: server.server_context.counts.cuts["buffers.max.bytes"] == 2)
            assert memory.held <= MIB
            await stack.aclose()
            await until_async(lambda: len(server.connections) == 0)
            assert memory.held == 0

    run(main)
