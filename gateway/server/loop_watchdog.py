"""Notices steps that hold the event loop: how long a task runs before others may, in processor time
of the loop's thread.

A machine that is busy with other things does not count. Trio's instruments are called around every
step of every task, so they are cheap: the wall clock, which costs 50 ns, is read around each step,
and the clock of the thread's processor time, a system call, only every few ms and when a step took
long.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import trio

if TYPE_CHECKING:
    from gateway.server.logs import Reports

#: A step that takes so much processor time is reported, s.
HELD_S: Final = 0.05
#: A request that takes so long is told to the watchdog, s.
NOTED_S: Final = 0.01
#: How old the last look at the processor time may be when a step begins, s: the error of what is
#: measured.
_LOOK_S: Final = 0.002


@dataclass(slots=True)
class Measures:
    """What ``/metrics`` tells. Only steps of at least ``HELD_S`` are counted; ``longest_s`` is the
    longest of them.
    """

    held: int = 0
    held_s: float = 0.0
    longest_s: float = 0.0


class LoopWatchdog(trio.abc.Instrument):
    """Measures the steps of all tasks of the trio run that it is added to, and reports those that
    take long.
    """

    def __init__(
        self,
        reports: Reports,
        *,
        wall: Callable[[], float] = time.perf_counter,
        processor: Callable[[], float] = time.thread_time,
    ) -> None:
        self.measures = Measures()
        self._reports = reports
        self._wall = wall
        self._processor = processor
        self._began = self._looked_at = wall()
        self._processor_then = processor()
        self._request: dict[str, Any] = {}  # what took longest in this step, where that is known
        self._request_s = 0.0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Trio calls it before a task runs."""
        self._began = now = self._wall()
        self._request_s = 0.0
        if now - self._looked_at > _LOOK_S:
            self._looked_at = now
            self._processor_then = self._processor()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Trio calls it when a task waits, or is done."""
        if self._wall() - self._began >= HELD_S:
            self._examine(task)

    def took(self, seconds: float, fields: dict[str, Any]) -> None:
        """A request took ``seconds`` of the step that runs now. Only those of at least ``NOTED_S``
        are worth a call.
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
