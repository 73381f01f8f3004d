"""Requests over a real connection: order, coalescing, pending responses, and bad requests."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from gateway.handlers.context import Context, Handler
from gateway.ports.pending_response import PendingResponse
from kwire.errors import EncodeError
from kwire.frame import frame
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.messages.api_versions_response import ApiVersionsResponse
from kwire.messages.heartbeat_response import HeartbeatResponse
from tests.gateway.server.harness import (
    ECHO,
    HEARTBEAT,
    handler,
    heartbeat,
    request,
    run,
    serving,
)
from tests.shared import mistyped
from tests.waiting import until_async


def test_request_is_answered() -> None:
    async def main() -> None:
        async with serving() as server, await server.connect() as client:
            assert (await client.ask(7, generation_id=42)).error_code == 42
            assert (await client.ask(-1, generation_id=3)).error_code == 3

    run(main)


def test_pipelined_requests_are_answered_in_order() -> None:
    async def main() -> None:
        async with serving() as server, await server.connect() as client:
            await client.send(b"".join(heartbeat(number, number) for number in range(1000)))
            for number in range(1000):
                correlation_id, answer = await client.answer()
                assert (correlation_id, answer.error_code) == (number, number)

    run(main)


def test_request_in_two_pieces_is_handled_wherever_it_is_cut() -> None:
    async def main() -> None:
        async with serving() as server, await server.connect() as client:
            data = heartbeat(1, 5)
            for cut in range(1, len(data)):
                await client.send(data[:cut])
                await trio.sleep(0.001)
                await client.send(data[cut:])
                assert (await client.answer())[1].error_code == 5

    run(main)


def test_pending_response_is_sent_before_the_responses_behind_it() -> None:
    waiting: list[PendingResponse] = []

    def handle(asked: Any, context: Context) -> Any:
        if asked.generation_id == 0:
            waiting.append(PendingResponse())
            return waiting[-1]
        return HeartbeatResponse(error_code=asked.generation_id)

    async def main() -> None:
        async with serving(handler(handle)) as server, await server.connect() as client:
            await client.send(heartbeat(1) + heartbeat(2, 9))
            await until_async(lambda: len(waiting) == 1)
            waiting[0].complete(HeartbeatResponse(error_code=8))
            assert [(await client.answer())[1].error_code for _ in range(2)] == [8, 9]

    run(main)


def test_pending_response_that_is_completed_with_work_is_sent_when_the_work_is_done() -> None:
    waiting: list[PendingResponse] = []

    def handle(asked: Any, context: Context) -> PendingResponse:
        waiting.append(PendingResponse(ready=work))
        return waiting[-1]

    def work() -> Any:
        yield None
        return HeartbeatResponse(error_code=8)

    async def main() -> None:
        async with serving(handler(handle)) as server, await server.connect() as client:
            await client.send(heartbeat(1) + heartbeat(2))
            for _ in range(2):
                await until_async(lambda: bool(waiting))
                waiting.pop().try_complete()
                assert (await client.answer())[1].error_code == 8
            assert server.server_context.purgatory.parked == 0

    run(main)


def test_request_behind_a_pending_one_is_handled_after_its_response() -> None:
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
            await until_async(lambda: bool(waiting))
            await trio.sleep(0.02)
            order.append("answered 0")
            waiting[0].complete(HeartbeatResponse())
            await client.answer()
            await client.answer()
            assert order == ["asked 0", "answered 0", "asked 1"]

    run(main)


def test_pending_response_expires_at_its_deadline() -> None:
    early: list[bool] = []

    def handle(asked: Any, context: Context) -> PendingResponse:
        deadline = context.now + 0.05

        def expire() -> HeartbeatResponse:
            # tidy: clock: two times of one clock; it cannot be early on a slow machine
            early.append(trio.current_time() < deadline)
            return HeartbeatResponse(error_code=27)

        return PendingResponse(deadline=deadline, expire=expire)

    async def main() -> None:
        async with serving(handler(handle)) as server, await server.connect() as client:
            assert (await client.ask(1)).error_code == 27
            assert early == [False]

    run(main)


def test_requests_before_a_bad_one_are_answered() -> None:
    async def main() -> None:
        async with serving() as server, await server.connect() as client:
            await client.send(heartbeat(1, 5) + b"\xff\xff\xff\xff")
            assert (await client.answer())[1].error_code == 5
            assert await client.closed() == b""

    run(main)


def test_handler_that_raises_closes_its_connection_only() -> None:
    def handle(asked: Any, context: Context) -> HeartbeatResponse:
        if asked.generation_id == 13:
            raise RuntimeError("a bug")
        return HeartbeatResponse(
            error_code=mistyped("no number") if asked.generation_id == 14 else 0
        )

    async def main() -> None:
        async with serving(handler(handle)) as server, await server.connect() as other:
            for bad in (13, 14):
                async with await server.connect() as client:
                    await client.send(heartbeat(1, bad))
                    assert await client.closed() == b""
            await other.ask(2)
            assert server.counts["internal error"] == 2

    run(main)


def test_pending_response_that_cannot_be_encoded_closes_its_connection_only() -> None:
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


def test_error_code_of_more_than_16_bits_cannot_be_encoded() -> None:
    with pytest.raises(EncodeError):
        HeartbeatResponse(error_code=1 << 40).encode(4)


def test_failed_request_that_wants_no_response_closes_the_connection() -> None:
    async def main() -> None:
        async with (
            serving(handler(lambda asked, context: None)) as server,
            await server.connect() as client,
        ):
            await client.send(heartbeat(1))
            assert await client.closed() == b""

    run(main)


def test_api_versions_of_an_unknown_version_is_answered_in_version_0() -> None:
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
                assert (correlation_id, answer.error_code) == (version, 35)
            await client.send(
                request(
                    18,
                    4,
                    ApiVersionsRequest(
                        client_software_name="a", client_software_version="1"
                    ).encode(4),
                )
            )
            assert (await client.answer(18, 4))[1].error_code == 0

    run(main)


def test_unknown_api_or_version_closes_and_is_logged_once_per_software(
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
