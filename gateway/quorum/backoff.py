"""How long to rest between fruitless requests: exponential, bounded, with dice. Knows nothing of
what was asked.
"""

from __future__ import annotations

from collections.abc import Callable


class Backoff:
    """Pauses of ``low`` seconds that double up to ``high``; each is cut by chance to between a half
    and the whole.

    ``random`` gives numbers from 0 to 1. (``ExponentialBackoff`` of Kafka; chance keeps many
    observers from asking in step.)
    """

    __slots__ = ("_high", "_low", "_random", "failures")

    def __init__(self, low: float, high: float, random: Callable[[], float]) -> None:
        self._low = low
        self._high = high
        self._random = random
        self.failures = 0  #: fruitless requests since the last progress

    def failed(self) -> float:
        """Count one more; seconds to rest now."""
        self.failures += 1
        whole = min(self._high, self._low * 2.0 ** min(self.failures - 1, 40))
        return whole * (0.5 + 0.5 * self._random())

    def progress(self) -> None:
        """The next failure is the first again."""
        self.failures = 0
