"""Computes the pauses between failed requests: exponential, bounded, with jitter.

It does not know the requests. Follows Kafka's ``ExponentialBackoff``.
"""

from __future__ import annotations

from collections.abc import Callable


class Backoff:
    """Pauses of ``low`` seconds that double up to ``high``, each multiplied by 0.5 to 1.

    ``random`` returns numbers from 0 to 1.
    """

    __slots__ = ("_high", "_low", "_random", "failures")

    def __init__(self, low: float, high: float, random: Callable[[], float]) -> None:
        self._low = low
        self._high = high
        self._random = random
        self.failures = 0  #: failed requests since the last progress

    def failed(self) -> float:
        """Count one more failure; return the seconds to pause now."""
        self.failures += 1
        # The exponent is bounded, because 2.0 ** 1024 raises OverflowError.
        whole = min(self._high, self._low * 2.0 ** min(self.failures - 1, 40))
        # Jitter also at the upper bound: many observers of one leader would otherwise retry in step
        # after it was down.
        return whole * (0.5 + 0.5 * self._random())

    def progress(self) -> None:
        """Begin again with the shortest pause."""
        self.failures = 0
