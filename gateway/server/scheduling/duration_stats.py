"""Keeps the most recent durations of an operation and computes their percentiles."""

from __future__ import annotations

import math
from collections import deque
from typing import Final

#: Number of durations that are kept.
_TIMES_MAX: Final = 1024


class DurationStats:
    """The last ``_TIMES_MAX`` durations of an operation, s."""

    def __init__(self) -> None:
        self._last: deque[float] = deque(maxlen=_TIMES_MAX)

    def add(self, seconds: float) -> None:
        """Add a duration; the oldest one is dropped if there are too many."""
        self._last.append(seconds)

    def percentile(self, share: float) -> float | None:
        """The smallest duration that ``share`` (0 to 1) of them do not exceed; None without any."""
        if not self._last:
            return None
        ordered = sorted(self._last)
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
