"""Reports steps of a task that hold the event loop for too long, in processor time of its thread.

Processor time leaves out the time in which the machine ran other processes. Trio calls an
instrument around every step of every task, so the instrument has to be cheap: it reads the wall
clock, which costs 50 ns, around each step, and the clock of the thread's processor time, a system
call, only every few ms and after a long step.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import trio

if TYPE_CHECKING:
    from gateway.server.logging.logs import Reports

#: A step that takes this much processor time is reported, s.
HELD_S: Final = 0.05
#: A request that takes this long is passed to :meth:`LoopWatchdog.took`, s.
NOTED_S: Final = 0.01
#: Maximum age of the last reading of the processor time when a step begins, s. This is also the
#: maximum error of the measurement.
_READING_AGE_MAX_S: Final = 0.002


@dataclass(slots=True)
class EventLoopStats:
    """Figures for ``/metrics``: number, sum and maximum of the steps of at least ``HELD_S``."""

    held: int = 0
    held_s: float = 0.0
    longest_s: float = 0.0


class LoopWatchdog(trio.abc.Instrument):
    """A trio instrument that measures the steps of all tasks and reports the long ones."""

    def __init__(
        self,
        reports: Reports,
        *,
        wall: Callable[[], float] = time.perf_counter,
        processor: Callable[[], float] = time.thread_time,
    ) -> None:
        self.measures = EventLoopStats()
        self._reports = reports
        self._wall = wall
        self._processor = processor
        # Trio calls it first at the end of the step that added it, whose begin it has not seen.
        self._began = math.inf
        self._read_at = wall()
        self._processor_then = processor()
        self._request: dict[str, Any] = {}  # the request that took longest in this step, if any
        self._request_s = 0.0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Called by trio before a task runs."""
        self._began = now = self._wall()
        self._request_s = 0.0
        if now - self._read_at > _READING_AGE_MAX_S:
            self._read_at = now
            self._processor_then = self._processor()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Called by trio when a task waits or ends."""
        if self._wall() - self._began >= HELD_S:
            self._examine(task)

    def took(self, seconds: float, fields: dict[str, Any]) -> None:
        """Note a request that took ``seconds`` of the current step. Callers leave out requests
        shorter than ``NOTED_S``.
        """
        if seconds > self._request_s:
            self._request_s, self._request = seconds, fields

    def _examine(self, task: trio.lowlevel.Task) -> None:
        held_s = self._processor() - self._processor_then
        if held_s >= HELD_S:
            self.held(task, held_s, self._request if self._request_s else {})

    def held(self, task: trio.lowlevel.Task, seconds: float, request: dict[str, Any]) -> None:
        """Count and report a step of ``task``."""
        measures = self.measures
        measures.held += 1
        measures.held_s += seconds
        measures.longest_s = max(measures.longest_s, seconds)
        self._reports.report(
            "event loop held",
            milliseconds=round(seconds * 1000),
            task=task.name,
            **request,
        )
