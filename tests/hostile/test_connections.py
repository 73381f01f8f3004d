"""Peers that misbehave over time: slow, dead, idle, many. The rows of the checklist that bytes
alone cannot show.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import trio

from gateway.server.logs import TEXT_MAX, configure, reset
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.gateway.server.harness import Client, request, run, until
from tests.hostile.target import METADATA, attacked
from tests.hostile.test_checklist import metadata

FETCH, LIST_OFFSETS = 1, 2
TOPIC = "__cluster_metadata"


def fetch(
    offset: int, *, max_wait_ms: int = 0, min_bytes: int = 1, correlation_id: int = 1
) -> bytes:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    body = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        topics=[FetchTopic(topic=TOPIC, partitions=[partition])],
    )
    return request(FETCH, 12, body.encode(12), correlation_id)


async def end_of(client: Client) -> int:
    asked = ListOffsetsRequest(
        replica_id=-1,
        topics=[ListOffsetsTopic(name=TOPIC, partitions=[ListOffsetsPartition(timestamp=-1)])],
    )
    await client.send(request(LIST_OFFSETS, 7, asked.encode(7)))
    _, answer = await client.answer(LIST_OFFSETS, 7)
    return int(answer.topics[0].partitions[0].offset)


def test_row_3_a_body_that_trickles_is_cut_and_holds_only_what_came(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            attacked(tmp_path, request_receive_timeout_ms=300) as target,
            await target.connect() as slow,
        ):
            await target.witness(slow)
            await slow.send(struct.pack(">i", 16 * 1024 * 1024))
            with pytest.raises((trio.BrokenResourceError, trio.ClosedResourceError)):
                for _ in range(100):
                    await slow.send(b"x")
                    await trio.sleep(0.02)
                    await target.witness()
            assert target.counts["connection cut"] == 1

    run(main)


def test_row_6_a_request_that_breaks_off_is_not_carried_out(tmp_path: Path) -> None:
    async def main() -> None:
        async with attacked(tmp_path) as target:
            for end in (1, 4, 7, 20, len(metadata()) - 1):
                async with await target.connect() as client:
                    await client.send(metadata()[:end])
                    await client.stream.send_eof()
                    assert await client.closed() == b""
            await target.witness()

    run(main)


def test_row_8_a_request_split_at_every_byte_is_the_same_request(tmp_path: Path) -> None:
    async def main() -> None:
        async with attacked(tmp_path) as target, await target.connect() as client:
            await client.send(metadata())
            whole = await client.frame()
            for cut in range(1, len(metadata())):
                await client.send(metadata()[:cut])
                await trio.sleep(0.001)
                await client.send(metadata()[cut:])
                assert await client.frame() == whole

    run(main)


def test_row_10_who_never_reads_is_held_back_and_cut(tmp_path: Path) -> None:
    async def main() -> None:
        small = {"socket_send_buffer_bytes": 16 * 1024, "output_buffer_max_bytes": 64 * 1024}
        async with (
            attacked(tmp_path, response_send_timeout_ms=400, **small) as target,
            await target.connect(receive_buffer=8 * 1024) as dead,
            await target.connect() as bystander,
        ):
            with trio.move_on_after(0.3), contextlib.suppress(trio.BrokenResourceError):
                await dead.send(fetch(0) * 5000)
            for _ in range(10):
                await target.witness(bystander)
                await trio.sleep(0.1)
            assert target.counts["connection cut"] == 1
            await target.witness(bystander)

    run(main)


def test_a_slow_reader_gets_every_byte_while_others_are_served(tmp_path: Path) -> None:
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
                    await target.witness(other)
                assert got[4:] == whole

    run(main)


def test_row_11_five_thousand_connections_displace_each_other_at_the_limit_and_nobody_else(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with attacked(tmp_path, max_connections=200, connections_max_idle_ms=1500) as target:
            async with await target.connect() as bystander:
                await target.witness(bystander)
                with held() as sockets:
                    for number in range(5000):
                        sockets.append(dial(target.port))
                        if number % 100 == 99:
                            await target.witness(bystander)
                            await (
                                target.witness()
                            )  # a client that sends a request gets in, and stays
                    await until(lambda: target.counts["connection accepted"] >= 5000)
                    assert target.counts["connection refused"] == 0
                    for _ in range(8):
                        await trio.sleep(0.25)
                        await target.witness(bystander)
            closed = ("connection cut", "idle connection closed")
            assert sum(target.counts[event] for event in closed) >= 4990

    run(main, within_s=60)


def test_connections_of_one_address_are_limited(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            attacked(tmp_path, max_connections_per_ip=3) as target,
            contextlib.AsyncExitStack() as stack,
        ):
            clients = [await stack.enter_async_context(await target.connect()) for _ in range(3)]
            for client in clients:
                await target.witness(client)
            async with await target.connect() as fourth:
                assert await fourth.closed() == b""
            await clients[0].stream.aclose()
            await trio.sleep(0.05)
            await target.witness()

    run(main)


def test_row_12_connecting_and_leaving_leaks_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with attacked(tmp_path) as target:
            await target.witness()
            gc.collect()
            before = len(os.listdir("/proc/self/fd"))
            for number in range(2000):
                sock = dial(target.port)
                if number % 3 == 0:
                    sock.send(metadata()[: number % 40])
                if number % 2 == 0:  # gone with a reset
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.close()
                if number % 50 == 0:
                    await target.witness()
            await until(lambda: len(os.listdir("/proc/self/fd")) <= before)

    run(main)


def test_row_18_correlation_ids_are_echoed(tmp_path: Path) -> None:
    async def main() -> None:
        async with attacked(tmp_path) as target, await target.connect() as client:
            for correlation_id in (0, -1, -(2**31), 2**31 - 1, 7, 7, 7):
                body = metadata()
                await client.send(body[:8] + struct.pack(">i", correlation_id) + body[12:])
                assert (await client.answer(METADATA, 12))[0] == correlation_id

    run(main)


def test_row_16_a_client_id_cannot_forge_or_flood_the_log(
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


def test_row_9_what_a_flood_of_requests_costs_the_others(tmp_path: Path) -> None:
    """A connection that floods gets its turns, and no more."""

    async def main() -> None:
        async with (
            attacked(tmp_path) as target,
            await target.connect() as attacker,
            await target.connect() as bystander,
        ):
            flood = metadata() * 2000
            async with trio.open_nursery() as nursery:

                async def attack() -> None:
                    for _ in range(3):
                        await attacker.send(flood)

                async def drink() -> None:
                    with contextlib.suppress(trio.ClosedResourceError):
                        while await attacker.stream.receive_some(1 << 20):
                            pass

                nursery.start_soon(attack)
                nursery.start_soon(drink)
                slowest = 0.0
                for _ in range(50):
                    began = time.perf_counter()
                    await target.witness(bystander)
                    slowest = max(slowest, time.perf_counter() - began)
                nursery.cancel_scope.cancel()
            # 64 requests or 5 ms are a turn; client, attacker and server share this process.
            assert slowest < 0.5

    run(main)


def test_ten_thousand_idle_connections(tmp_path: Path) -> None:
    count = 10_000
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count + 500:
        pytest.skip(
            f"{count + 500} open files are needed, {hard} are allowed to this user (ulimit -Hn)"
        )

    async def main() -> None:
        async with attacked(tmp_path) as target, await target.connect() as bystander:
            await target.witness(bystander)
            rss = resident_kib()
            command = [sys.executable, "-m", "tests.hostile.crowd", str(target.port), str(count)]
            async with trio.open_nursery() as nursery:
                crowd = await nursery.start(
                    partial(
                        trio.run_process, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
                    )
                )
                while target.counts["connection accepted"] < count + 1:
                    await target.witness(bystander)
                    await trio.sleep(0.02)
                await target.witness(bystander)
                await target.witness()
                each = (resident_kib() - rss) / count
                print(f"{count} idle connections: {each:.1f} KiB each")
                assert each < 40
                await crowd.stdin.aclose()
            await target.witness(bystander)

    run(main, within_s=120)


def test_a_thousand_parked_long_polls(tmp_path: Path) -> None:
    count = 1000

    async def main() -> None:
        async with (
            attacked(tmp_path) as target,
            await target.connect() as bystander,
            contextlib.AsyncExitStack() as stack,
        ):
            end = await end_of(bystander)
            clients = [
                await stack.enter_async_context(await target.connect()) for _ in range(count)
            ]
            began = trio.current_time()
            for number, client in enumerate(clients):
                await client.send(fetch(end, max_wait_ms=2000, correlation_id=number))
            await until(lambda: target.ready.services.fetch_purgatory.parked == count)
            assert trio.current_time() - began < 2
            await target.witness(bystander)
            for number, client in enumerate(clients):
                correlation_id, answer = await client.answer(FETCH, 12)
                assert correlation_id == number
                assert answer.responses[0].partitions[0].high_watermark == end
            assert 2 <= trio.current_time() - began < 6
            assert target.ready.services.fetch_purgatory.parked == 0

    run(main)


def test_parked_polls_that_leave_are_forgotten(tmp_path: Path) -> None:
    async def main() -> None:
        async with attacked(tmp_path) as target, await target.connect() as bystander:
            end = await end_of(bystander)
            fetch_purgatory = target.ready.services.fetch_purgatory
            for _ in range(300):
                async with await target.connect() as client:
                    await client.send(fetch(end, max_wait_ms=2**31 - 1, min_bytes=2**31 - 1))
            await until(lambda: fetch_purgatory.parked == 0 and not fetch_purgatory._waiting)
            await target.witness(bystander)

    run(main)


def test_accepting_goes_on_when_descriptors_ran_out(tmp_path: Path) -> None:
    async def main() -> None:
        async with attacked(tmp_path) as target, await target.connect() as bystander:
            await target.witness(bystander)
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            sock = dial(target.port)
            await until(lambda: target.counts["connection accepted"] == 2)
            waiting = socket.socket()
            waiting.setblocking(False)
            resource.setrlimit(
                resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 1, hard)
            )
            try:
                fillers = []
                with contextlib.suppress(OSError):
                    while True:
                        fillers.append(os.open("/dev/null", os.O_RDONLY))
                with contextlib.suppress(BlockingIOError):
                    waiting.connect(("127.0.0.1", target.port))
                await until(lambda: target.counts["connections not accepted"] > 0)
                await target.witness(bystander)
            finally:
                for filler in fillers:
                    os.close(filler)
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            await until(lambda: target.counts["connection accepted"] == 3)
            sock.close()
            waiting.close()
            await target.witness()

    run(main)


def dial(port: int) -> socket.socket:
    """A connection that nobody looks after."""
    sock = socket.socket()
    sock.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        sock.connect(("127.0.0.1", port))
    return sock


@contextlib.contextmanager
def held() -> Iterator[list[socket.socket]]:
    sockets: list[socket.socket] = []
    try:
        yield sockets
    finally:
        for sock in sockets:
            sock.close()


def resident_kib() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


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
