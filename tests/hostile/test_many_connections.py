"""Rows of the checklist about many connections: idle, refused, closed at once, parked."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from tests.gateway.server.harness import run
from tests.hostile.client_requests import FETCH, end_of, fetch, metadata
from tests.hostile.target import attacked
from tests.waiting import until_async

#: How long a Fetch is parked, s: less than until a connection is idle for too long.
WAIT_S = 500


def test_ten_thousand_idle_connections_take_less_than_40_kib_each(tmp_path: Path) -> None:
    count = 10_000
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count + 500:
        pytest.skip(
            f"{count + 500} open files are needed, {hard} are allowed to this user (ulimit -Hn)"
        )

    async def main() -> None:
        async with attacked(tmp_path) as target, await target.connect() as bystander:
            await target.assert_served(bystander)
            rss = resident_kib()
            command = [sys.executable, "-m", "tests.hostile.crowd", str(target.port), str(count)]
            async with trio.open_nursery() as nursery:
                crowd = await nursery.start(
                    partial(
                        trio.run_process, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
                    )
                )

                async def accepted() -> int:
                    await target.assert_served(bystander)
                    return target.counts["connection accepted"]

                await until_async(accepted, "all connections", lambda number: number > count)
                await target.assert_served(bystander)
                await target.assert_served()
                each = (resident_kib() - rss) / count
                print(f"{count} idle connections: {each:.1f} KiB each")
                assert each < 40
                await crowd.stdin.aclose()
            await target.assert_served(bystander)

    run(main)


def test_row_11_five_thousand_connections_displace_only_each_other_at_the_limit(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with (
            attacked(tmp_path, max_connections=200, connections_max_idle_ms=1500) as target,
            await target.connect() as bystander,
        ):
            await target.assert_served(bystander)
            with held() as sockets:
                for number in range(5000):
                    sockets.append(dial(target.port))
                    if number % 100 == 99:
                        await target.assert_served(bystander)
                        await (
                            target.assert_served()
                        )  # a client that sends a request gets in, and stays
                await until_async(
                    lambda: target.counts["connection accepted"] >= 5000, "all connections"
                )
                assert target.counts["connection refused"] == 0

                async def closed() -> int:
                    await target.assert_served(bystander)
                    events = ("connection cut", "idle connection closed")
                    return sum(target.counts[event] for event in events)

                await until_async(closed, "4,990 are closed", lambda number: number >= 4990)

    run(main)


def test_connection_above_the_limit_of_its_address_is_closed(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            attacked(tmp_path, max_connections_per_ip=3) as target,
            contextlib.AsyncExitStack() as stack,
        ):
            clients = [await stack.enter_async_context(await target.connect()) for _ in range(3)]
            for client in clients:
                await target.assert_served(client)
            async with await target.connect() as fourth:
                assert await fourth.closed() == b""
            await clients[0].stream.aclose()

            async def served() -> bool:
                await target.assert_served()
                return True

            await until_async(served, "a client is accepted in place of the first")

    run(main)


def test_row_12_connections_that_leave_leak_no_descriptor(tmp_path: Path) -> None:
    async def main() -> None:
        async with attacked(tmp_path) as target:
            await target.assert_served()
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
                    await target.assert_served()
            await until_async(
                lambda: len(os.listdir("/proc/self/fd")), "no descriptor is left", before.__ge__
            )

    run(main)


def test_thousand_parked_fetches_are_answered_at_their_deadlines(tmp_path: Path) -> None:
    count = 1000
    clock = trio.testing.MockClock(rate=1)

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
            for number, client in enumerate(clients):
                await client.send(fetch(end, max_wait_ms=1000 * WAIT_S, correlation_id=number))
            purgatory = target.ready.purgatory
            await until_async(lambda: purgatory.parked == count, "all are parked")
            clock.jump(WAIT_S // 2)
            await target.assert_served(bystander)
            assert purgatory.parked == count
            clock.jump(WAIT_S // 2)
            for number, client in enumerate(clients):
                correlation_id, answer = await client.answer(FETCH, 12)
                assert correlation_id == number
                assert answer.responses[0].partitions[0].high_watermark == end
            assert purgatory.parked == 0

    trio.run(main, clock=clock)


def test_parked_fetches_end_with_their_connections(tmp_path: Path) -> None:
    async def main() -> None:
        async with attacked(tmp_path) as target, await target.connect() as bystander:
            end = await end_of(bystander)
            purgatory = target.ready.purgatory
            for _ in range(300):
                async with await target.connect() as client:
                    await client.send(fetch(end, max_wait_ms=2**31 - 1, min_bytes=2**31 - 1))
            await until_async(
                lambda: purgatory.parked == 0 and purgatory.waiting == 0,
                "no fetch is parked",
            )
            await target.assert_served(bystander)

    run(main)


def test_accepting_resumes_after_descriptors_ran_out(tmp_path: Path) -> None:
    async def main() -> None:
        async with attacked(tmp_path) as target, await target.connect() as bystander:
            await target.assert_served(bystander)
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            sock = dial(target.port)
            await until_async(
                lambda: target.counts["connection accepted"] == 2, "the second connection"
            )
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
                await until_async(
                    lambda: target.counts["connections not accepted"] > 0, "no descriptors"
                )
                await target.assert_served(bystander)
            finally:
                for filler in fillers:
                    os.close(filler)
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            await until_async(
                lambda: target.counts["connection accepted"] == 3, "the waiting connection"
            )
            sock.close()
            waiting.close()
            await target.assert_served()

    run(main)


def dial(port: int) -> socket.socket:
    """A connection that is not waited for."""
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
