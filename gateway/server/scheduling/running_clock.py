"""Measures the time during which this process ran. The clock does not advance while the process is
suspended, so that brokers are not fenced because of a pause of the controller.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

#: Longest time between two readings that counts, ms. The event loop reads the clock far more often,
#: so a longer gap means that the process did not run.
STEP_MAX_MS: Final = 1_000


class RunningClock:
    """A monotonic clock in ms, from an arbitrary start.

    A controller that was suspended, or starved of processor time, has heartbeats of that time
    waiting in its sockets: it must not fence the brokers that sent them (``BrokerHeartbeatTracker``
    uses ``Time.nanoseconds``, which does advance).
    """

    def __init__(self, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._now_ns = now_ns
        self._seen_ns = now_ns()
        self._ran_ns = 0

    def read(self) -> int:
        """The time that this process has run, ms."""
        now_ns = self._now_ns()
        self._ran_ns += min(now_ns - self._seen_ns, STEP_MAX_MS * 1_000_000)
        self._seen_ns = now_ns
        return self._ran_ns // 1_000_000
