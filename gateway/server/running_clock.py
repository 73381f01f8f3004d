"""Time that counts only while this process runs: for how long others have been silent can be told
by who listened.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

#: Between two readings no more than this counts, ms: it is read far more often while the event loop
#: runs.
STEP_MAX_MS: Final = 1_000


class RunningClock:
    """Milliseconds from nowhere in particular; never back, and never forward by what this process
    slept through.

    A node that was suspended, or could not run for another reason, has heartbeats of all that time
    waiting in its sockets: it must not take for dead whoever sent them.
    """

    def __init__(self, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._now_ns = now_ns
        self._seen_ns = now_ns()
        self._ran_ns = 0

    def read(self) -> int:
        """How long this process has run."""
        now_ns = self._now_ns()
        self._ran_ns += min(now_ns - self._seen_ns, STEP_MAX_MS * 1_000_000)
        self._seen_ns = now_ns
        return self._ran_ns // 1_000_000
