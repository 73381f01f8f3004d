"""Named deadlines in one heap. It reads no clock: the caller says what time it is."""

from __future__ import annotations

import heapq
from typing import NamedTuple


class Timer(NamedTuple):
    """The name of a deadline: what is due (``heartbeat``, ``join``, ``sync``, ``expiry``), of which
    group and member.
    """

    kind: str
    group_id: str = ""
    member_id: str = ""


class Timers:
    """At most one deadline a name.

    Heartbeats put a deadline off many times before it passes, so that costs a dict entry only: the
    heap keeps the old, earlier time and the entry is moved when it comes up.
    """

    def __init__(self) -> None:
        self._deadlines: dict[Timer, float] = {}
        self._heap: list[tuple[float, Timer]] = []

    def __len__(self) -> int:
        return len(self._deadlines)

    def schedule(self, timer: Timer, deadline: float) -> None:
        """Set the deadline of ``timer`` (seconds), in place of the one it had."""
        before = self._deadlines.get(timer)
        self._deadlines[timer] = deadline
        if before is None or deadline < before:
            heapq.heappush(self._heap, (deadline, timer))
        if len(self._heap) > 64 + 4 * len(self._deadlines):
            self._heap = [(when, name) for name, when in self._deadlines.items()]
            heapq.heapify(self._heap)

    def cancel(self, timer: Timer) -> None:
        """Forget the deadline of ``timer``, if it has one."""
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
        """Make the top of the heap a deadline that holds."""
        while self._heap:
            when, timer = self._heap[0]
            holds = self._deadlines.get(timer)
            if holds == when:
                return
            if (
                holds is None or holds < when
            ):  # cancelled; or set earlier since, and then it is in the heap once more
                heapq.heappop(self._heap)
            else:
                heapq.heapreplace(self._heap, (holds, timer))
