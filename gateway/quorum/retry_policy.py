"""Decides when an observer's next request may go out, so that no response makes it send requests
without a pause.

A voter knows its peers, and a pause for each of them is enough (``peers``). An observer asks the
addresses that responses name: those of a resigned leader that names itself, of a voter that names a
dead leader, or of a hostile node that names a new leader each time. Every request without progress
makes the next pause longer, for all addresses, and only progress makes it short again. Kafka's
``RequestManager`` backs off by node alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from gateway.quorum.backoff import Backoff

#: Leaders named since the last progress that are asked without a pause. An election names one.
_NAMED_AT_ONCE: Final = 3


class RetryPolicy:
    """``not_before``: the moment (monotonic seconds) of the next request."""

    __slots__ = ("_backoff", "_named", "not_before")

    def __init__(self, backoff_s: float, backoff_max_s: float, random: Callable[[], float]) -> None:
        self._backoff = Backoff(backoff_s, backoff_max_s, random)
        self._named = 0
        self.not_before = -math.inf

    def progress(self) -> None:
        """Note progress of the log or of the high watermark, or that a leader answered only after
        its wait.
        """
        self._backoff.progress()
        self._named = 0
        self.not_before = -math.inf

    def back_off(self, now: float) -> None:
        """Pause, because the last request made no progress."""
        self.not_before = max(self.not_before, now + self._backoff.failed())

    def leader_named(self, now: float) -> None:
        """Ask a newly named leader at once; after a few without progress, pause too."""
        self._named += 1
        # Real Kafka nodes that ask a resigned leader are sent back to it by its own response, and
        # repeat the Fetch up to 1900 times in one failover.
        if self._named <= _NAMED_AT_ONCE:
            self._backoff.progress()
            self.not_before = now
        else:
            self.back_off(now)
