"""Workers that are killed, suspended or cannot start, and a node that is killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from gateway.config.config import ConfigError
from gateway.server.workers import worker_processes
from kwire.protocol import ErrorCode
from tests.gateway.server.harness import Client, run
from tests.gateway.server.workers.served_workers import (
    ServedWorkers,
    close,
    create,
    latest,
    served_workers,
)
from tests.gateway.server.workers.test_workers import commit, committed
from tests.waiting import until_async


async def survivors(clients: list[Client]) -> list[Client]:
    """The connections that still answer."""
    found = []
    for client in clients:
        with contextlib.suppress(trio.BrokenResourceError, AssertionError):
            await latest(client)
            found.append(client)
    return found


async def killed(served: ServedWorkers) -> None:
    pid = served.pid()
    os.kill(pid, signal.SIGKILL)
    await served.replaced(pid)


def test_worker_that_is_killed_is_replaced_and_nothing_is_lost(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_workers(tmp_path) as served:
            clients = await served.connections()
            for number, client in enumerate(clients):
                await create(client, f"topic-{number}")
                await commit(client, number, generation=-1)
            before = await served.metric("kwire_request_seconds_count")
            end = await latest(clients[0])
            await killed(served)
            left = await survivors(clients)
            assert 0 < len(left) < len(clients)
            again = await served.connections()
            for client in (*left, *again):
                assert await committed(client) == len(clients) - 1
                assert await latest(client) >= end
            assert await create(again[0], "after") == ErrorCode.NONE
            status = await served.status()
            assert [worker["restarts"] for worker in status["workers"]] == [0, 1]
            assert all(worker["connections"] for worker in status["workers"])
            assert await served.metric("kwire_request_seconds_count") > before
            await close([*clients, *again])

    run(main)


def test_worker_that_is_told_to_stop_drains_and_is_replaced(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_workers(tmp_path) as served:
            clients, pid = await served.connections(), served.pid()
            os.kill(pid, signal.SIGTERM)
            await served.replaced(pid)
            left = await survivors(clients)
            assert 0 < len(left) < len(clients)
            for client in clients:
                if client not in left:
                    assert await client.closed() == b""
            assert served.workers.workers[0].restarts == 1
            await close(clients)

    run(main)


def test_suspended_worker_is_killed_and_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_processes, "_SILENT_MAX_S", 2.0)

    async def main() -> None:
        async with served_workers(tmp_path) as served:
            pid = served.pid()
            os.kill(pid, signal.SIGSTOP)
            await served.page("/metrics")  # the page does not wait for it
            await served.replaced(pid)
            assert served.ready.reports.counts["worker ended"] == 1

    run(main)


def test_node_accepts_the_connections_of_a_worker_that_hangs_until_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long before the worker is killed."""
    monkeypatch.setattr(worker_processes, "_TICK_S", 0.1)
    monkeypatch.setattr(worker_processes, "_SILENT_MAX_S", 1e9)

    async def main() -> None:
        async with served_workers(tmp_path) as served:
            pid = served.pid()
            os.kill(pid, signal.SIGSTOP)
            # Queued at its socket before the node has noticed, and later.
            for _ in range(2):
                clients = await served.connections()
                assert await survivors(clients) == clients
                await close(clients)
            assert served.pid() == pid
            counts = served.ready.reports.counts
            await until_async(lambda: counts["worker silent"] == 1, "the report of its silence")
            os.kill(pid, signal.SIGCONT)
            worker = served.workers.workers[0]

            async def is_back() -> bool:
                clients = await served.connections()
                assert await survivors(clients) == clients
                await served.workers.count()
                mine = worker.counts.counts.connections.total()
                await close(clients)
                return 0 < mine < len(clients)

            while not await is_back():
                pass
            assert served.workers.workers[0].restarts == 0

    run(main)


def test_connections_that_were_queued_at_a_worker_outlive_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The worker is gone before its silence is noticed.
    monkeypatch.setattr(worker_processes, "_SILENT_TICKS", 1_000_000)

    async def main() -> None:
        async with served_workers(tmp_path) as served:
            pid = served.pid()
            os.kill(pid, signal.SIGSTOP)
            clients = await served.connections()
            os.kill(pid, signal.SIGKILL)
            assert await survivors(clients) == clients
            await close(clients)

    run(main)


def test_worker_that_cannot_start_ends_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_processes, "_MODULE", "gateway.no_module")

    async def main() -> None:
        async with served_workers(tmp_path):
            raise AssertionError("it is not ready")

    with pytest.raises(BaseExceptionGroup) as raised:
        run(main)
    assert raised.group_contains(ConfigError, match="workers: worker 2 cannot start")


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGKILL])
def test_node_that_ends_leaves_no_worker(tmp_path: Path, signal_number: int) -> None:
    listeners = "PLAINTEXT://127.0.0.1:0"
    command = [sys.executable, "-m", "gateway", "serve", "--source", "sample", "--workers", "2"]
    process = subprocess.Popen(
        [*command, "--listeners", listeners, "--state-dir", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        pids = json.loads(process.stdout.readline())["workers"]
        assert len(pids) == 2
        if signal_number == signal.SIGINT:  # as from a terminal: to every process of the group
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.kill()
        _, log = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == (0 if signal_number == signal.SIGINT else -signal.SIGKILL)
    assert "Traceback" not in log and "worker ended" not in log

    async def gone() -> None:
        await until_async(lambda: not any(map(_runs, pids)))

    run(gone)


def _runs(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
