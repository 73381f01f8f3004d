"""Starts servers to compare with: ``with kfake(program) as server:``.

Each keeps its state in memory, picks its own port and starts in less than a second.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tools.process import Process

_START_TIMEOUT_S: Final = 30.0


class Peer:
    """A running server. ``bootstrap`` is the ``host:port`` of its broker."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.bootstrap = ""
        process.wait_until(self._is_ready, _START_TIMEOUT_S, interval_s=0.02)

    def _is_ready(self) -> bool:
        self.bootstrap = address_in(self._process.output_end())
        return bool(self.bootstrap)

    def running(self) -> bool:
        """False if the server ended by itself."""
        return self._process.running()

    @property
    def pid(self) -> int:
        return self._process.pid

    def why_it_ended(self) -> str:
        """Return the line in which a server that ended said why, else its signal or status."""
        status = self._process.stop()
        ended = signal.Signals(-status).name if status < 0 else f"status {status}"
        return reason_in(self._process.output_end()) or ended


def kfake(program: Path, *topics: str) -> contextlib.AbstractContextManager[Peer]:
    """The fake cluster of franz-go, built by ``tools.other_servers.build``, with empty topics."""
    return _peer("kfake", [str(program), *topics])


def mock_cluster(*topics: str) -> contextlib.AbstractContextManager[Peer]:
    """librdkafka's mock cluster, as confluent-kafka has it, with empty topics.

    Without topics it has one with records, as it has no CreateTopics.
    """
    return _peer(
        "mock cluster", [sys.executable, "-m", "tools.other_servers.mock_cluster", *topics]
    )


def empty_server(loop: str, response: bytes) -> contextlib.AbstractContextManager[Peer]:
    """Run :mod:`tools.other_servers.empty_server`, which answers every frame with ``response``."""
    command = [sys.executable, "-m", "tools.other_servers.empty_server", loop, response.hex()]
    return _peer("empty server", command)


@contextlib.contextmanager
def _peer(name: str, command: Sequence[str]) -> Iterator[Peer]:
    with tempfile.TemporaryDirectory(prefix="peer-") as directory:
        process = Process(name, command, Path(directory) / "output")
        try:
            yield Peer(process)
        finally:
            process.stop(timeout_s=2)


def address_in(output: str) -> str:
    """Return the first line of the form ``127.0.0.1:PORT``, an empty string if there is none."""
    lines = output.split("\n")[:-1]  # the last one may be unfinished
    return next((line for line in lines if line.startswith("127.0.0.1:")), "")


def reason_in(output: str) -> str:
    """Return the line of Go's runtime or of the C library that says why a process ended."""
    signs = ("panic: ", "fatal error: ", "Assertion")
    return next((line for line in output.splitlines() if any(sign in line for sign in signs)), "")
