"""Decides when an observer's next request may go out, so that nothing that other nodes send makes
it spin.

A voter knows its peers, and a pause for each of them is enough (``peers``). An observer asks
addresses that responses name: a resigned leader that names itself, a voter that names a dead
leader, a liar that names a new one each time. Every fruitless request makes the next pause longer,
for all addresses, and only progress makes it short again. Kafka's RequestManager backs off by node
alone.
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
        """The log or the high watermark moved, or the leader waited for news as long as it may."""
        self._backoff.progress()
        self._named = 0
        self.not_before = -math.inf

    def back_off(self, now: float) -> None:
        """The last request brought nothing: pause."""
        self.not_before = max(self.not_before, now + self._backoff.failed())

    def leader_named(self, now: float) -> None:
        """A leader not known before was named: it is asked at once, a few times."""
        self._named += 1
        if self._named <= _NAMED_AT_ONCE:
            self._backoff.progress()
            self.not_before = now
        else:
            self.back_off(now)
