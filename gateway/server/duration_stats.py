"""How long things took lately, for percentiles. Knows nothing of what they are."""

from __future__ import annotations

import math
from collections import deque
from typing import Final

#: Times that percentiles are of: the last so many.
_TIMES_MAX: Final = 1024


class DurationStats:
    """How long something took, s: the last of it."""

    def __init__(self) -> None:
        self._last: deque[float] = deque(maxlen=_TIMES_MAX)

    def add(self, seconds: float) -> None:
        """One more."""
        self._last.append(seconds)

    def percentile(self, share: float) -> float | None:
        """The time within which ``share`` (0 to 1) of them were over; None where there is none."""
        if not self._last:
            return None
        ordered = sorted(self._last)
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
