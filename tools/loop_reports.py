"""Collects the reports of the event loop watchdog from the logs of server processes, so that a run
of tests can print the steps that held the event loop of a process.

A log is read to its end even after its process has ended and the file is removed, because it is
kept open. The watchdog of servers in the test's own process is not read here (tests/conftest.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, BinaryIO, Final

if TYPE_CHECKING:
    from tools.process import Process

#: The event of ``gateway.server.scheduling.loop_watchdog`` that is looked for in each line.
EVENT: Final = b"event loop held"
#: The time in such a line, in JSON or in the form for terminals.
_MILLISECONDS: Final = re.compile(r"milliseconds\"?[=:]\s*(\d+)")


class LoopReports:
    """The logs of the server processes that :meth:`watch` was called with."""

    def __init__(self) -> None:
        self._logs: list[tuple[Process, BinaryIO]] = []
        self._said: list[tuple[str, bytes]] = []

    def watch(self, process: Process) -> None:
        """Read the log of ``process``, which was just started, from what is in it now."""
        log = process.log.open("rb")
        log.seek(0, 2)
        self._logs.append((process, log))

    def read(self, name: str, said: str) -> None:
        """Read the reports in the output of a process whose standard error a test captures."""
        self._said += [(name, line.encode()) for line in said.splitlines()]

    def take(self) -> list[str]:
        """The reports since the last call, with the name of the process.

        Logs of processes that have ended are closed.
        """
        said, self._said = self._said, []
        found = _held(said)
        left = []
        for process, log in self._logs:
            running = process.running()  # before the log is read: nothing is written after it
            lines = log.readlines()
            if running and lines and not lines[-1].endswith(b"\n"):
                log.seek(-len(lines.pop()), 1)  # the line is incomplete: it is being written
            found += _held((process.name, line) for line in lines)
            if running:
                left.append((process, log))
            else:
                log.close()
        self._logs = left
        return found


def _held(lines: Iterable[tuple[str, bytes]]) -> list[str]:
    return [
        f"{name}: {line.decode(errors='replace').strip()}" for name, line in lines if EVENT in line
    ]


def milliseconds(report: str) -> int:
    """The time in a report that :meth:`LoopReports.take` returned; 0 if it has none."""
    found = _MILLISECONDS.search(report)
    return int(found[1]) if found else 0


#: The reports of all servers that tools.own_quorum and tools.gateway_process start, and of those
#: whose standard error a test reads itself.
loop_reports: Final = LoopReports()
