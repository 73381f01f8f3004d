"""``kwire serve`` as an observer in a process of its own: exit statuses and error texts."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from gateway.log.files.disk import Disk
from gateway.log.files.high_watermark_file import HighWatermarkFile
from tests.gateway.server.harness import run
from tests.gateway.server.loopback_quorum import LoopbackQuorum, loopback_quorum
from tests.waiting import until_async
from tools.loop_reports import loop_reports

COMMAND = (sys.executable, "-m", "gateway", "serve", "--listeners", "PLAINTEXT://127.0.0.1:0")


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


class Served:
    """A process with its log lines and its exit status."""

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self.out = self.err = ""

    async def ready(self) -> Any:
        await until_async(lambda: "\n" in self.out or self.process.returncode is not None)
        assert "\n" in self.out, self.err
        return json.loads(self.out.splitlines()[0])

    async def ended(self) -> int:
        """Wait for the exit status. All log lines are read then."""
        with trio.fail_after(30):
            return await self.process.wait()

    async def collect(self, stream: Any, name: str) -> None:
        async for data in stream:
            setattr(self, name, getattr(self, name) + data.decode())


@contextlib.asynccontextmanager
async def process(quorum: LoopbackQuorum, data_dir: Path, *more: str) -> AsyncIterator[Served]:
    bootstrap = ",".join(map(str, quorum.bootstrap))
    command = [*COMMAND, "--bootstrap-controller", bootstrap, "--data-dir", str(data_dir), *more]
    async with trio.open_nursery() as nursery:
        started = await trio.lowlevel.open_process(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        served = Served(started)
        nursery.start_soon(served.collect, started.stdout, "out")
        nursery.start_soon(served.collect, started.stderr, "err")
        try:
            yield served
        finally:
            if started.returncode is None:
                started.kill()
            loop_reports.read("kwire serve", served.err)


def kept(data_dir: Path) -> int:
    """The stored high watermark."""
    return HighWatermarkFile(data_dir, Disk(), []).offset


def test_signal_exits_with_0_and_the_next_start_continues(data_dir: Path) -> None:
    async def main() -> None:
        async with loopback_quorum() as quorum:
            quorum.write(3)
            for number in (signal.SIGTERM, signal.SIGINT):
                async with process(quorum, data_dir) as served:
                    ready = await served.ready()
                    assert ready["source"] == "quorum"
                    if number == signal.SIGINT:
                        assert ready["high_watermark"] == quorum.committed_end
                    await until_async(lambda: kept(data_dir) == quorum.committed_end)
                    served.process.send_signal(number)
                    assert await served.ended() == 0
                assert "Traceback" not in served.err

    run(main)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (
            ("--cluster-id", "another-cluster-1234567"),
            "does not belong to cluster another-cluster-1234567",
        ),
        (("--replica-id", "3"), "replica.id 3 is a voter of the quorum (voters: 1, 2, 3)"),
    ],
)
def test_quorum_that_cannot_be_followed_exits_with_1_before_ready(
    data_dir: Path, flags: tuple[str, ...], told: str
) -> None:
    async def main() -> None:
        async with loopback_quorum() as quorum:
            async with process(quorum, data_dir, *flags) as served:
                assert await served.ended() == 1
            assert served.out == ""
            (line,) = [line for line in served.err.splitlines() if line.startswith("kwire serve: ")]
            assert told in line and not line.startswith("kwire serve: controller.quorum")
            assert "Traceback" not in served.err

    run(main)


def test_damaged_log_exits_with_2_and_advice(data_dir: Path) -> None:
    async def main() -> None:
        async with loopback_quorum() as quorum:
            quorum.write(3)
            async with process(quorum, data_dir) as served:
                await until_async(lambda: kept(data_dir) == quorum.committed_end)
                await served.ready()
                served.process.send_signal(signal.SIGTERM)
                assert await served.ended() == 0
            segment = data_dir / "__cluster_metadata-0" / "00000000000000000000.log"
            segment.write_bytes(segment.read_bytes()[:-1])
            async with process(quorum, data_dir) as served:
                assert await served.ended() == 2
            assert f"kwire serve: data.dir: {segment} at byte " in served.err
            assert (
                "remove the whole data directory: it is fetched anew from the quorum" in served.err
            )

    run(main)


def test_quorum_that_lost_committed_records_exits_with_1(data_dir: Path) -> None:
    async def main() -> None:
        async with loopback_quorum() as quorum:
            quorum.write(3)
            quorum.write(2)
            async with process(quorum, data_dir) as served:
                await until_async(lambda: kept(data_dir) == quorum.committed_end)
                await served.ready()
                await quorum.down()
                for voter in quorum.voters.values():  # restored from an old backup
                    voter.batches = voter.batches[:2]
                quorum.committed = quorum.committed[:2]
                await quorum.up()
                quorum.lead(2)
                assert await served.ended() == 1
            assert "kwire serve: Committed records would be lost: leader 2" in served.err
            assert "Traceback" not in served.err

    run(main)
