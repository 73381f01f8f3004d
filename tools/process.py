"""Runs child processes: output goes to a file, and each is stopped by its own id. It knows nothing
of the programs.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

#: How many times as long as alone a test or tool may take, because others run beside it.
PATIENCE: Final = float(os.environ.get("KWIRE_PATIENCE", "1"))
#: How long a process may take to do what is waited for, s: far more than a busy machine needs.
PATIENCE_S: Final = 60 * PATIENCE
#: The weight of a thread is divided by 1.25 as often as this says.
_NICE: Final = 5
#: Lasting ports that a process claims at a time.
_CLAIMED: Final = 50
_GIVING = threading.Lock()
_UNGIVEN: list[int] = []
_CLAIMS: list[socket.socket] = []


class ProcessError(Exception):
    """A child ended, or was not ready in time; the text ends with its last output."""


class Process:
    """One child whose standard output and error go to ``log``."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
            )

    @property
    def pid(self) -> int:
        return self._child.pid

    def running(self) -> bool:
        return self._child.poll() is None

    def output_end(self, limit: int = 4000) -> str:
        """Return the end of the child's output so far."""
        return self.log.read_text(errors="replace")[-limit:]

    def wait_until(
        self, ready: Callable[[], bool], timeout_s: float, interval_s: float = 0.1
    ) -> None:
        """Return when ``ready()`` holds. Raises ProcessError when the child ends before that, or
        time is up.
        """
        deadline = time.monotonic() + timeout_s
        while not ready():
            if not self.running():
                raise ProcessError(
                    f"{self.name} ended with {self._child.returncode}:\n{self.output_end()}"
                )
            if time.monotonic() > deadline:
                raise ProcessError(
                    f"{self.name} was not ready after {timeout_s:.0f} s:\n{self.output_end()}"
                )
            time.sleep(interval_s)

    def stop(self, timeout_s: float = 20) -> int:
        """SIGTERM, then SIGKILL after ``timeout_s``; the exit status (negative: the signal that
        ended it).
        """
        if self.running():
            self.resume()
            self._child.send_signal(signal.SIGTERM)
            try:
                self._child.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self._child.kill()
        return self._child.wait()

    def kill(self) -> None:
        """Kill the child, as a crash would."""
        self._child.kill()
        self._child.wait()

    def pause(self) -> None:
        """Pause the child: its sockets stay open and it answers nothing, as on a machine that
        hangs.
        """
        self._child.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume the child after :meth:`pause`."""
        self._child.send_signal(signal.SIGCONT)


def run_behind_others() -> None:
    """Give this thread, and the processes that it starts, a third of the share of others of a
    processor that is wanted by more than one. Linux alone knows a priority of one thread:
    elsewhere nothing changes.
    """
    if sys.platform == "linux":
        os.nice(_NICE)


def free_ports(count: int) -> list[int]:
    """``count`` ports of 127.0.0.1 that no process listens on now, picked by the system.

    They are free again when this returns, so another process may take one first: callers try again
    with others.
    """
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def lasting_ports(count: int) -> list[int]:
    """``count`` ports of 127.0.0.1 for servers that are stopped and started again at the same
    address.

    They lie outside of the range from which Linux picks the near end of a connection: so no
    connection takes the port of a stopped server, and a client that repeatedly tries to connect
    cannot connect to itself. No port is returned twice, here or in another process while this one
    lives, because its server may be stopped for a while, or not be started yet.
    """
    found: list[int] = []
    with _GIVING:
        while len(found) < count:
            if not _UNGIVEN:
                _UNGIVEN.extend(_claimed_ports())
            port = _UNGIVEN.pop()
            with contextlib.suppress(OSError), socket.socket() as one:
                one.bind(("127.0.0.1", port))
                found.append(port)
    return found


def _claimed_ports() -> range:
    """Claim ports that no process has claimed. A claim is a Unix socket of an abstract name, which
    ends with the process, and which other processes meet where they meet its ports: in one network
    namespace. Raises ProcessError.
    """
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    firsts = range(10_000, low - _CLAIMED + 1, _CLAIMED)
    for first in random.sample(firsts, len(firsts)):
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0kwire lasting ports {first}")
        except OSError:
            claim.close()
            continue
        _CLAIMS.append(claim)
        return range(first, first + _CLAIMED)
    raise ProcessError(f"all ports between 10000 and {low} are claimed by processes that live")


def accepts(host: str, port: int) -> bool:
    """True if a process listens there."""
    try:
        with socket.create_connection((host, port), timeout=1):
            return True
    except OSError:
        return False


def cpu_seconds(pid: int) -> float:
    """User and system time that the process has used, from /proc (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main_thread_seconds(pid: int) -> float:
    """Processor time that the main thread has used, from /proc (Linux with schedstats): that of the
    event loop, without the threads beside it.
    """
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def memory_mib(pid: int, key: str = "VmRSS") -> float:
    """Resident memory of the process in MiB now (``VmRSS``), or at its highest (``VmHWM``), from
    /proc (Linux).
    """
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) / 1024
    raise ProcessError(f"no {key} for process {pid}")
