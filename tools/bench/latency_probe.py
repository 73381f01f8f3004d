"""Measures how long one client waits while other clients keep a server busy.

:func:`probe` runs this module as a process of its own, so that the work of the bench costs the
client no time. The client asks for ApiVersions on one connection, 100 times a second. A wait is the
wall time of a request less the time for which the kernel kept the client, or the server's main
thread, waiting for a processor (``/proc/PID/schedstat``): a busy machine is no slow server.
"""

from __future__ import annotations

import contextlib
import json
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kwire.messages.api_versions_request import ApiVersionsRequest
from tools.wire_client import WireClient

_PAUSE_S = 0.01
_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Waits:
    """Times that the client waited, in ms."""

    worst_ms: float
    p99_ms: float
    count: int

    def __str__(self) -> str:
        return f"another client waits {self.worst_ms:.0f} ms at worst, p99 {self.p99_ms:.0f} ms"


class Probe:
    """A running client. It measures all the time; :meth:`take` begins a new measurement."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self._child = child

    def take(self) -> Waits:
        """Return the waits since the last call. Raises EOFError if the server closed the
        connection.
        """
        assert self._child.stdin is not None and self._child.stdout is not None
        self._child.stdin.write("\n")
        self._child.stdin.flush()
        line = self._child.stdout.readline()
        if not line:
            raise EOFError("the server closed the connection of the client that is measured")
        return waits(json.loads(line))


def waits(seconds: Sequence[float]) -> Waits:
    """Summarize the waits of requests, of which there is at least one."""
    found = sorted(seconds)
    return Waits(1000 * found[-1], 1000 * found[int(0.99 * (len(found) - 1))], len(found))


@contextlib.contextmanager
def probe(address: str, pid: int) -> Iterator[Probe]:
    """Measure a client of the server process ``pid``, which listens at ``address``, for the
    duration of the block.
    """
    child = subprocess.Popen(
        [sys.executable, "-m", __name__, address, str(pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        running = Probe(child)
        running.take()
        yield running
    finally:
        with contextlib.suppress(BrokenPipeError):
            child.communicate("")
        child.wait()


def _run_delay_s(path: Path) -> float:
    """The time for which the kernel has kept a thread waiting for a processor, s."""
    try:
        return int(path.read_text().split()[1]) / 1e9
    except OSError:  # a kernel without schedstats, or a process that has ended
        return 0.0


def main(address: str, pid: str) -> None:
    """Print a line of JSON with the waits, in s, for each line of standard input, until it ends."""
    queues = Path("/proc/self/schedstat"), Path(f"/proc/{pid}/schedstat")
    request = ApiVersionsRequest(client_software_name="probe", client_software_version="1")
    found: list[float] = []
    with WireClient(address, _TIMEOUT_S) as client:
        while True:
            queued = sum(map(_run_delay_s, queues))
            began = time.monotonic()
            client.call(request, 3)
            wait = time.monotonic() - began - (sum(map(_run_delay_s, queues)) - queued)
            found.append(max(0.0, wait))
            if select.select([sys.stdin], [], [], _PAUSE_S)[0]:
                if not sys.stdin.readline():
                    return
                print(json.dumps(found), flush=True)
                found = []


if __name__ == "__main__":
    with contextlib.suppress(EOFError, OSError):
        main(*sys.argv[1:])
