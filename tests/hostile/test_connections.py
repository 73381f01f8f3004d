"""Rows of the checklist about one connection over time: slow, broken off, flooding, never read."""

from __future__ import annotations

import contextlib
import json
import struct
from pathlib import Path

import pytest
import trio
import trio.testing

from gateway.server.logging.logs import TEXT_MAX, configure, reset
from kwire.messages.api_versions_request import ApiVersionsRequest
from tests.gateway.server.harness import request, run
from tests.hostile.client_requests import fetch, metadata
from tests.hostile.target import METADATA, attacked
from tests.waiting import until_async

#: Requests of a connection in one turn, and its turns while another connection is answered once.
TURN, TURNS_MAX = 64, 8


def test_row_3_trickling_body_is_cut_after_the_receive_timeout(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            attacked(tmp_path, request_receive_timeout_ms=300) as target,
            await target.connect() as slow,
        ):
            await target.assert_served(slow)
            await slow.send(struct.pack(">i", 16 * 1024 * 1024))
            with pytest.raises((trio.BrokenResourceError, trio.ClosedResourceError)):
                while True:
                    await slow.send(b"x")
                    await target.assert_served()
            assert target.counts["connection cut"] == 1

    run(main)


def test_row_6_incomplete_request_gets_no_response(tmp_path: Path) -> None:
    async def main() -> None:
        async with attacked(tmp_path) as target:
            for end in (1, 4, 7, 20, len(metadata()) - 1):
                async with await target.connect() as client:
                    await client.send(metadata()[:end])
                    await client.stream.send_eof()
                    assert await client.closed() == b""
            await target.assert_served()

    run(main)


def test_row_8_request_split_at_any_byte_gets_the_same_response(tmp_path: Path) -> None:
    async def main() -> None:
        async with attacked(tmp_path) as target, await target.connect() as client:
            await client.send(metadata())
            whole = await client.frame()
            for cut in range(1, len(metadata())):
                await client.send(metadata()[:cut])
                await trio.testing.wait_all_tasks_blocked()  # the server has read the part
                await client.send(metadata()[cut:])
                assert await client.frame() == whole

    run(main)


def test_row_10_client_that_never_reads_is_cut_after_the_send_timeout(tmp_path: Path) -> None:
    async def main() -> None:
        small = {"socket_send_buffer_bytes": 16 * 1024, "output_buffer_max_bytes": 64 * 1024}
        async with (
            attacked(tmp_path, response_send_timeout_ms=400, **small) as target,
            await target.connect(receive_buffer=8 * 1024) as dead,
            await target.connect() as bystander,
        ):

            async def cuts() -> int:
                await target.assert_served(bystander)
                return target.counts["connection cut"]

            async def flood() -> None:
                with contextlib.suppress(trio.BrokenResourceError):
                    await dead.send(fetch(0) * 5000)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(flood)
                await until_async(cuts, "the client that never reads is cut")
                nursery.cancel_scope.cancel()
            assert await cuts() == 1

    run(main)


def test_slow_reader_gets_every_byte_while_others_are_served(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            attacked(tmp_path, socket_send_buffer_bytes=16 * 1024) as target,
            await target.connect(receive_buffer=4 * 1024) as slow,
            await target.connect() as other,
        ):
            await other.send(fetch(0))
            whole = await other.frame()
            await slow.send(fetch(0) * 2)
            for _ in range(2):
                got = b""
                while len(got) < len(whole) + 4:
                    got += await slow.exactly(min(8192, len(whole) + 4 - len(got)))
                    await target.assert_served(other)
                assert got[4:] == whole

    run(main)


def test_row_18_correlation_ids_are_echoed(tmp_path: Path) -> None:
    async def main() -> None:
        async with attacked(tmp_path) as target, await target.connect() as client:
            for correlation_id in (0, -1, -(2**31), 2**31 - 1, 7, 7, 7):
                body = metadata()
                await client.send(body[:8] + struct.pack(">i", correlation_id) + body[12:])
                assert (await client.answer(METADATA, 12))[0] == correlation_id

    run(main)


def test_row_16_client_ids_neither_forge_nor_flood_the_servers_log(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        configure("debug", "json")
        async with attacked(tmp_path) as target:
            for number in range(300):
                async with await target.connect() as client:
                    name = f'{number}\n{{"event": "ready"}}\x1b[2J' + "x" * 20_000
                    await client.send(request(METADATA, 99, b"", client_id=name))
                    await client.closed()
                    await client.stream.aclose()
            for _ in range(300):
                async with await target.connect() as client:
                    await client.send(b"\xff\xff\xff\xff")
                    await client.closed()

    try:
        run(main)
    finally:
        reset()
    lines = capfd.readouterr().err.splitlines()
    events = [json.loads(line)["event"] for line in lines]
    assert "ready" not in events
    assert events.count("unsupported request") == 1
    assert events.count("bad request") == 10
    (refused,) = (json.loads(line) for line in lines if "unsupported request" in line)
    assert len(refused["client_id"]) <= 4 * TEXT_MAX + 1
    assert refused["client_id"].isprintable()


def test_row_9_flood_of_one_connection_is_answered_in_turns_with_others(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            attacked(tmp_path) as target,
            await target.connect() as attacker,
            await target.connect() as bystander,
        ):
            flood, answered = metadata() * 2000, 0.0
            await attacker.send(metadata())
            frame = 4 + len(await attacker.frame())
            async with trio.open_nursery() as nursery:

                async def attack() -> None:
                    for _ in range(3):
                        await attacker.send(flood)

                async def drink() -> None:
                    nonlocal answered
                    with contextlib.suppress(trio.ClosedResourceError):
                        while data := await attacker.stream.receive_some(1 << 20):
                            answered += len(data) / frame

                nursery.start_soon(attack)
                nursery.start_soon(drink)
                most = 0.0
                for _ in range(50):
                    before = answered
                    await target.assert_served(bystander)
                    most = max(most, answered - before)
                nursery.cancel_scope.cancel()
            assert 0 < most <= TURNS_MAX * TURN

    run(main)


def test_api_versions_of_every_version_is_answered(tmp_path: Path) -> None:
    async def main() -> None:
        async with attacked(tmp_path) as target, await target.connect() as client:
            for version in range(5):
                hello = ApiVersionsRequest(
                    client_software_name="a", client_software_version="1"
                ).encode(version)
                await client.send(request(18, version, hello))
                _, answer = await client.answer(18, version)
                assert answer.error_code == 0
                assert {1, 3, 18} <= {api.api_key for api in answer.api_keys}

    run(main)
