"""When the next request may go out, so that nothing that others do makes an observer spin. Knows nothing of requests.

A resigned leader that names itself, a voter that names a dead one, a liar that names a new one each time: every fruitless
request makes the next pause longer, and only progress makes it short again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from gateway.quorum.backoff import Backoff

#: Leaders named since the last progress that are asked without a pause. An election names one.
_NAMED_AT_ONCE: Final = 3


class Pacing:
    """``not_before``: the moment (monotonic seconds) of the next request."""

    __slots__ = ("_backoff", "_named", "not_before")

    def __init__(self, backoff_min_s: float, backoff_max_s: float, dice: Callable[[], float]) -> None:
        self._backoff = Backoff(backoff_min_s, backoff_max_s, dice)
        self._named = 0
        self.not_before = -math.inf

    @property
    def failures(self) -> int:
        """Fruitless requests since the last progress."""
        return self._backoff.failures

    def progress(self) -> None:
        """The log, the high watermark or the leader's patience moved on."""
        self._backoff.progress()
        self._named = 0

    def fruitless(self, now: float, at_least: float = 0.0) -> None:
        """The last request brought nothing: rest, at least so many seconds."""
        self.not_before = max(self.not_before, now + max(self._backoff.failed(), at_least))

    def leader_named(self, now: float) -> None:
        """A leader not known before was named: worth asking at once, but not for ever."""
        self._named += 1
        if self._named <= _NAMED_AT_ONCE:
            self._backoff.progress()
        else:
            self.fruitless(now)
