"""Reads the wall clock in Kafka's unit for timestamps, and tells these from offsets."""

from __future__ import annotations

import time
from typing import Final

#: ms since 1970 have 13 digits since 2001, and no metadata log has so many records.
_FIRST_TIME_MS: Final = 10**12


def wall_ms() -> int:
    """Milliseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1_000_000


def is_time_ms(number: int) -> bool:
    """Whether ``number``, where an offset or a time may stand, is a time in ms since 1970."""
    return number >= _FIRST_TIME_MS
