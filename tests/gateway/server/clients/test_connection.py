"""A connection over a real socket: order, coalescing, waiting, limits, and what the others notice."""

from __future__ import annotations

import contextlib
import os
import struct
import tempfile
from typing import Any

import pytest
import trio

from gateway.config import MIB
from gateway.handlers.context import Context, PendingResponse
from gateway.handlers.table import Handler
from gateway.ports import FileRange, FileRecords, Read
from gateway.server.clients.connection import DECODED_FACTOR
from kwire.errors import EncodeError
from kwire.frame import frame
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.messages.api_versions_response import ApiVersionsResponse
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from kwire.messages.heartbeat_request import HeartbeatRequest
from kwire.messages.heartbeat_response import HeartbeatResponse
from tests.gateway.server.harness import (
    ECHO,
    HEARTBEAT,
    handler,
    heartbeat,
    request,
    run,
    serving,
    until,
)

FETCH = 1


def test_requests_are_answered() -> None:
    async def main() -> None:
        async with serving() as server, await server.connect() as client:
            assert (await client.ask(7, generation_id=42)).error_code == 42
            assert (await client.ask(-1, generation_id=3)).error_code == 3

    run(main)


def test_a_thousand_pipelined_requests_are_answered_in_order() -> None:
    async def main() -> None:
        async with serving() as server, await server.connect() as client:
            await client.send(b"".join(heartbeat(number, number) for number in range(1000)))
            for number in range(1000):
                correlation_id, answer = await client.answer()
                assert (correlation_id, answer.error_code) == (number, number)  # type: ignore[attr-defined]

    run(main)


def test_a_request_cut_at_every_byte_is_one_request() -> None:
    async def main() -> None:
        async with serving() as server, await server.connect() as client:
            data = heartbeat(1, 5)
            for cut in range(1, len(data)):
                await client.send(data[:cut])
                await trio.sleep(0.001)
                await client.send(data[cut:])
                assert (await client.answer())[1].error_code == 5  # type: ignore[attr-defined]

    run(main)


def test_an_answer_that_comes_later_keeps_its_place() -> None:
    waiting: list[PendingResponse] = []

    def handle(asked: Any, context: Context) -> Any:
        if asked.generation_id == 0:
            waiting.append(PendingResponse())
            return waiting[-1]
        return HeartbeatResponse(error_code=asked.generation_id)

    async def main() -> None:
        async with serving(handler(handle)) as server, await server.connect() as client:
            await client.send(heartbeat(1) + heartbeat(2, 9))
            await trio.sleep(0.02)
            assert len(waiting) == 1
            waiting[0].complete(HeartbeatResponse(error_code=8))
            assert [(await client.answer())[1].error_code for _ in range(2)] == [8, 9]  # type: ignore[attr-defined]

    run(main)


def test_a_request_behind_one_that_waits_is_carried_out_after_it() -> None:
    order: list[str] = []
    waiting: list[PendingResponse] = []

    def handle(asked: Any, context: Context) -> Any:
        order.append(f"asked {asked.generation_id}")
        if asked.generation_id == 0:
            waiting.append(PendingResponse())
            return waiting[-1]
        return HeartbeatResponse()

    async def main() -> None:
        async with serving(handler(handle)) as server, await server.connect() as client:
            await client.send(heartbeat(1) + heartbeat(2, 1))
            await trio.sleep(0.02)
            order.append("answered 0")
            waiting[0].complete(HeartbeatResponse())
            await client.answer()
            await client.answer()
            assert order == ["asked 0", "answered 0", "asked 1"]

    run(main)


def test_a_deadline_answers() -> None:
    def handle(asked: Any, context: Context) -> PendingResponse:
        return PendingResponse(
            deadline=context.now + 0.05, expire=lambda: HeartbeatResponse(error_code=27)
        )

    async def main() -> None:
        async with serving(handler(handle)) as server, await server.connect() as client:
            began = trio.current_time()
            assert (await client.ask(1)).error_code == 27
            assert 0.05 <= trio.current_time() - began < 1

    run(main)


def test_whoever_goes_is_forgotten() -> None:
    waiting: list[PendingResponse] = []

    def handle(asked: Any, context: Context) -> PendingResponse:
        waiting.append(PendingResponse(deadline=context.now + 1000))
        return waiting[-1]

    async def main() -> None:
        async with serving(handler(handle)) as server:
            async with await server.connect() as client:
                await client.send(heartbeat(1))
                await until(lambda: bool(waiting))
                assert server.server_context.purgatory.parked == 1
            await until(lambda: not server.server_context.purgatory.parked)
            assert waiting[0].cancelled
            waiting[0].complete(HeartbeatResponse())  # nobody is there: nothing happens

    run(main)


def test_no_more_is_read_behind_a_request_that_waits_than_the_limit() -> None:
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
                await trio.sleep(0.3)
                (connection,) = server.connections._all
                assert connection._splitter.buffered <= 2 * limit + 64
                waiting[0].complete(HeartbeatResponse())
                for number in range(1, 100_000):
                    data = await client.frame()
                    assert int.from_bytes(data[:4], "big") == number

    run(main, within_s=60)


def test_who_does_not_read_stops_being_served() -> None:
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
            await trio.sleep(0.1)
            (stuck,) = (c for c in server.connections._all if c._output)
            assert stuck._output.unsent <= bound + 100_200
            carried_out = len(asked)
            assert carried_out < 10
            assert (await other.ask(1, 5)).error_code == 5
            for _ in range(200):  # a slow reader gets everything in the end
                _, answer = await client.answer(FETCH, 12)
                assert len(answer.responses[0].partitions[0].records) == 100_000  # type: ignore[attr-defined]
            assert len(asked) == 200

    run(main)


def test_a_reader_that_is_dead_is_cut() -> None:
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
            await trio.sleep(0.6)
            assert server.counts["connection cut"] == 1
            assert len(server.connections) == 1
            assert (await other.ask(1, 5)).error_code == 5

    run(main)


def test_a_connection_without_traffic_is_closed_after_connections_max_idle_ms() -> None:
    async def main() -> None:
        async with (
            serving(connections_max_idle_ms=200) as server,
            await server.connect() as idle,
            await server.connect() as busy,
        ):
            for number in range(12):
                await trio.sleep(0.05)
                await busy.ask(number)
            assert await idle.closed(within_s=0.5) == b""
            await busy.ask(99)

    run(main)


def test_a_request_that_trickles_is_cut_after_request_receive_timeout_ms() -> None:
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


def test_frames_above_socket_request_max_bytes_close_the_connection() -> None:
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
                assert (await second.answer())[1].error_code == 5  # type: ignore[attr-defined]
                await second.send((1001).to_bytes(4, "big"))
                assert await second.closed() == b""
            assert server.counts["bad request"] == 2

    run(main)


def test_good_requests_before_a_bad_one_are_answered() -> None:
    async def main() -> None:
        async with serving() as server, await server.connect() as client:
            await client.send(heartbeat(1, 5) + b"\xff\xff\xff\xff")
            assert (await client.answer())[1].error_code == 5  # type: ignore[attr-defined]
            assert await client.closed() == b""

    run(main)


def test_a_handler_that_fails_costs_its_connection_only() -> None:
    def handle(asked: Any, context: Context) -> HeartbeatResponse:
        if asked.generation_id == 13:
            raise RuntimeError("a bug")
        return HeartbeatResponse(error_code="no number" if asked.generation_id == 14 else 0)  # type: ignore[arg-type]

    async def main() -> None:
        async with serving(handler(handle)) as server, await server.connect() as other:
            for bad in (13, 14):
                async with await server.connect() as client:
                    await client.send(heartbeat(1, bad))
                    assert await client.closed() == b""
            await other.ask(2)
            assert server.counts["internal error"] == 2

    run(main)


def test_an_answer_later_that_cannot_be_written_costs_its_connection_only() -> None:
    def handle(asked: Any, context: Context) -> PendingResponse:
        return PendingResponse(
            deadline=context.now, expire=lambda: HeartbeatResponse(error_code=1 << 40)
        )

    async def main() -> None:
        async with serving(handler(handle)) as server, await server.connect() as client:
            await client.send(heartbeat(1))
            assert await client.closed() == b""
            assert server.counts["internal error"] == 1

    run(main)


def test_a_request_that_wants_no_answer_and_fails_closes() -> None:
    async def main() -> None:
        async with (
            serving(handler(lambda asked, context: None)) as server,
            await server.connect() as client,
        ):
            await client.send(heartbeat(1))
            assert await client.closed() == b""

    run(main)


@pytest.mark.parametrize("sizes", [(10,), (100_000,), (3_000_000,), (20_000, 5, 40_000), (1, 2, 3)])
def test_ranges_of_files_arrive_whole_and_are_released(sizes: tuple[int, ...]) -> None:
    released: list[bool] = []
    content = os.urandom(sum(sizes) + 100)

    async def main() -> None:
        with tempfile.TemporaryFile() as file:
            file.write(content)
            file.flush()
            chunks: list[Any] = []
            at = 50
            for size in sizes:
                chunks.append(FileRange(file.fileno(), at, size))
                at += size
            chunks.append(b"tail")

            def handle(asked: Any, context: Context) -> FetchResponse:
                return records_answer(
                    FileRecords(Read(chunks, sum(sizes) + 4, lambda: released.append(True)))
                )

            async with serving(fetch_handler(handle)) as server, await server.connect() as client:
                await client.send(fetch_request() * 2)
                for _ in range(2):
                    _, answer = await client.answer(FETCH, 12)
                    assert (
                        answer.responses[0].partitions[0].records  # type: ignore[attr-defined]
                        == content[50 : 50 + sum(sizes)] + b"tail"
                    )
                assert released == [True, True]

    run(main)


def test_a_file_cut_under_an_answer_closes_the_connection_and_releases() -> None:
    released: list[bool] = []

    async def main() -> None:
        with tempfile.TemporaryFile() as file:
            file.write(b"x" * 10_000)
            file.flush()
            for size in (12_000, 100_000):  # read, and sent from the file
                chunk = FileRange(file.fileno(), 0, size)

                def handle(asked: Any, context: Context, chunk: FileRange = chunk) -> FetchResponse:
                    return records_answer(
                        FileRecords(Read([chunk], chunk.length, lambda: released.append(True)))
                    )

                async with (
                    serving(fetch_handler(handle)) as server,
                    await server.connect() as client,
                ):
                    await client.send(fetch_request())
                    assert len(await client.closed()) < size
                    assert server.counts["response truncated"] == 1
            assert released == [True, True]

    run(main)


def test_reads_are_released_when_the_reader_is_gone() -> None:
    released: list[bool] = []

    async def main() -> None:
        with tempfile.TemporaryFile() as file:
            file.truncate(50_000_000)
            read = Read(
                [FileRange(file.fileno(), 0, 50_000_000)], 50_000_000, lambda: released.append(True)
            )
            async with serving(
                fetch_handler(lambda asked, context: records_answer(FileRecords(read)))
            ) as server:
                async with await server.connect() as client:
                    await client.send(fetch_request())
                    await client.exactly(1000)
                await until(lambda: not len(server.connections))
                assert released == [True]

    run(main)


def test_api_versions_too_new_is_told_what_there_is_in_version_0() -> None:
    async def main() -> None:
        versions = Handler(
            18, "api_versions", range(5), lambda asked, context: ApiVersionsResponse()
        )
        async with serving(versions) as server, await server.connect() as client:
            for version in (5, 6, 100, 32767):
                await client.send(
                    request(
                        18, version, b"\xff\xff\xff\xff junk of the future", correlation_id=version
                    )
                )
                correlation_id, answer = await client.answer(18, 0)
                assert (correlation_id, answer.error_code) == (version, 35)  # type: ignore[attr-defined]
            await client.send(
                request(
                    18,
                    4,
                    ApiVersionsRequest(
                        client_software_name="a", client_software_version="1"
                    ).encode(4),
                )
            )
            assert (await client.answer(18, 4))[1].error_code == 0  # type: ignore[attr-defined]

    run(main)


def test_unknown_apis_and_versions_close_and_are_logged_once_per_software(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def main() -> None:
        async with serving(
            ECHO,
            Handler(18, "api_versions", range(5), lambda asked, context: ApiVersionsResponse()),
        ) as server:
            hello = ApiVersionsRequest(
                client_software_name="oddclient", client_software_version="1.0"
            ).encode(3)
            for _ in range(3):
                for odd in (frame(b"\x7f\xff\0\0\0\0\0\1\xff\xff"), request(HEARTBEAT, 77, b"")):
                    async with await server.connect() as client:
                        await client.send(request(18, 3, hello))
                        await client.frame()
                        await client.send(odd)
                        assert await client.closed() == b""
            assert server.counts["unsupported request"] == 6

    run(main)
    said = capsys.readouterr()
    lines = [line for line in (said.out + said.err).splitlines() if "unsupported request" in line]
    assert len(lines) == 2
    assert all("oddclient/1.0" in line for line in lines)


def test_the_element_budget_is_a_limit_of_the_configuration() -> None:
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


def test_what_all_connections_hold_together_is_bounded() -> None:
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
            await until(lambda: len(server.connections) == 1)
            assert memory.held == 0

    run(main)


def test_answers_that_nobody_reads_count_too() -> None:
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
            await until(lambda: server.counts["connection cut"] >= 7)
            assert (await bystander.ask(1, 5)).error_code == 5
            assert server.server_context.memory.held <= 3 * 1024 * 1024

    run(main)


def test_requests_that_wait_for_their_answers_count_too() -> None:
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
            await until(lambda: len(waiting) == 1)
            assert memory.held == 0
            await clients[1].send(large("kept"))
            await until(lambda: memory.held > DECODED_FACTOR * 30_000)
            waiting[1].complete(HeartbeatResponse())
            await clients[1].answer()
            await until(lambda: memory.held == 0)
            for client in clients[2:]:
                await client.send(large("kept"))
            await until(lambda: server.server_context.counts.cuts["buffers.max.bytes"] == 2)
            assert memory.held <= MIB
            await stack.aclose()
            await until(lambda: len(server.connections) == 0)
            assert memory.held == 0

    run(main)


def test_draining_answers_what_waits_and_closes() -> None:
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
            await trio.sleep(0.02)
            server.stop.set()
            assert (await waiting.answer())[1].error_code == 27  # type: ignore[attr-defined]
            assert await waiting.closed() == b""
            assert await idle.closed() == b""
            with pytest.raises(OSError, match="refused"):
                await server.connect()

    run(main)


def test_draining_ends_though_a_peer_does_not_read() -> None:
    async def main() -> None:
        handle = fetch_handler(lambda asked, context: records_answer(b"x" * 4_000_000))
        async with (
            serving(handle, drain_timeout_ms=200, socket_send_buffer_bytes=32 * 1024) as server,
            await server.connect(receive_buffer=16 * 1024) as dead,
        ):
            await dead.send(fetch_request())
            await until(lambda: any(c._output for c in server.connections._all))
            server.stop.set()
            await until(lambda: not len(server.connections), within_s=2)

    run(main)


def test_an_answer_later_whose_file_was_cut_costs_its_connection_only() -> None:
    waiting: list[PendingResponse] = []
    released: list[bool] = []

    def handle(asked: Any, context: Context) -> PendingResponse:
        waiting.append(PendingResponse())
        return waiting[-1]

    async def main() -> None:
        with tempfile.TemporaryFile() as file:
            for size in (100, 100_000):  # read, and sent from the file
                async with (
                    serving(fetch_handler(handle)) as server,
                    await server.connect() as client,
                ):
                    await client.send(fetch_request())
                    await until(lambda: server.server_context.purgatory.parked == 1)
                    read = Read(
                        [FileRange(file.fileno(), 0, size)], size, lambda: released.append(True)
                    )
                    waiting.pop().complete(records_answer(FileRecords(read)))
                    await client.closed()
                    assert server.counts["response truncated"] == 1
        assert released == [True, True]

    run(main)


def test_an_answer_to_a_peer_that_has_just_gone_is_nobodys_fault() -> None:
    waiting: list[PendingResponse] = []

    def handle(asked: Any, context: Context) -> PendingResponse:
        waiting.append(PendingResponse())
        return waiting[-1]

    async def main() -> None:
        async with serving(handler(handle)) as server:
            client = await server.connect()
            await client.send(heartbeat(1))
            await until(lambda: bool(waiting))
            client.stream.setsockopt(
                trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            client.stream.socket.close()
            waiting[0].complete(HeartbeatResponse())  # before the server's task can notice
            await until(lambda: not len(server.connections))
            assert server.counts["internal error"] == 0
            assert server.counts["peer disconnected"] == 1

    run(main)


def fetch_handler(handle: Any) -> Handler:
    return Handler(FETCH, "fetch", range(4, 13), handle)


def fetch_request() -> bytes:
    return request(FETCH, 12, FetchRequest().encode(12))


def records_answer(records: Any) -> FetchResponse:
    partition = PartitionData(partition_index=0, high_watermark=1, records=records)
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])


def test_encode_errors_are_ours() -> None:
    with pytest.raises(EncodeError):
        HeartbeatResponse(error_code=1 << 40).encode(4)
