"""Keeps named deadlines in one heap. It reads no clock: the caller passes the time."""

from __future__ import annotations

import heapq
from typing import NamedTuple


class Timer(NamedTuple):
    """The name of a deadline: its kind (``heartbeat``, ``join``, ``sync``, ``expiry``), group and
    member.
    """

    kind: str
    group_id: str = ""
    member_id: str = ""


class Timers:
    """At most one deadline for each name.

    Heartbeats postpone a deadline many times before it passes. That costs one dict entry: the heap
    keeps the earlier time, and the entry is moved when it reaches the top.
    """

    def __init__(self) -> None:
        self._deadlines: dict[Timer, float] = {}
        self._heap: list[tuple[float, Timer]] = []

    def __len__(self) -> int:
        return len(self._deadlines)

    def schedule(self, timer: Timer, deadline: float) -> None:
        """Set the deadline of ``timer`` (seconds), and replace its earlier one."""
        before = self._deadlines.get(timer)
        self._deadlines[timer] = deadline
        if before is None or deadline < before:
            heapq.heappush(self._heap, (deadline, timer))
        if len(self._heap) > 64 + 4 * len(self._deadlines):
            self._heap = [(when, name) for name, when in self._deadlines.items()]
            heapq.heapify(self._heap)

    def __contains__(self, timer: Timer) -> bool:
        return timer in self._deadlines

    def cancel(self, timer: Timer) -> None:
        """Remove the deadline of ``timer``, if it has one."""
        self._deadlines.pop(timer, None)

    def next_deadline(self) -> float | None:
        """The earliest deadline, or None."""
        self._settle()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> Timer | None:
        """Remove and return the earliest timer whose deadline is ``now`` or before, or None."""
        self._settle()
        if not self._heap or self._heap[0][0] > now:
            return None
        _, timer = heapq.heappop(self._heap)
        del self._deadlines[timer]
        return timer

    def _settle(self) -> None:
        """Remove stale entries from the top of the heap."""
        while self._heap:
            when, timer = self._heap[0]
            holds = self._deadlines.get(timer)
            if holds == when:
                return
            if (
                holds is None or holds < when
            ):  # cancelled, or set to an earlier time, which has an entry of its own
                heapq.heappop(self._heap)
            else:
                heapq.heapreplace(self._heap, (holds, timer))
