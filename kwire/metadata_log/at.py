"""Parses and prints the offset or time up to which a state is built. It reads no log and asks no
server.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

#: ms since 1970 have 13 digits since 2001, and no metadata log has so many records.
_FIRST_TIME_MS: Final = 10**12
_NUMBER: Final = re.compile(r"[0-9]{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class At:
    """The end of a state: before ``offset`` (exclusive), or before the first record later than
    ``time_ms``. Neither: the end of the log.
    """

    offset: int | None = None
    time_ms: int | None = None

    def ends_before(self, offset: int, timestamp: int) -> bool:
        """True if the record at ``offset``, written at ``timestamp`` (ms), is past this end."""
        return (self.offset is not None and offset >= self.offset) or (
            self.time_ms is not None and timestamp > self.time_ms
        )


def is_time_ms(number: int) -> bool:
    """Whether ``number``, where an offset or a time may stand, is a time in ms since 1970."""
    return number >= _FIRST_TIME_MS


def parse_at(text: str) -> At:
    """Parse ``OFFSET``, ms since 1970 (13 digits or more), or ISO 8601, UTC unless it names a zone.
    Raises ValueError.
    """
    if _NUMBER.fullmatch(text):
        return at_number(int(text))
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is neither an offset, nor a time in ISO 8601 or ms since 1970"
        ) from None
    return at_time(when)


def at_number(number: int) -> At:
    """The end that an offset, or a time in ms since 1970, names."""
    return At(time_ms=number) if is_time_ms(number) else At(offset=number)


def at_time(when: datetime) -> At:
    """The end that a time names, UTC unless it has a zone."""
    return At(time_ms=int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000))


def time_text(timestamp: int) -> str:
    """Format ms since 1970 as ``2026-11-21T03:18:12.379Z``."""
    with contextlib.suppress(ValueError, OverflowError, OSError):
        return (
            datetime.fromtimestamp(timestamp / 1000, UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z")
        )
    return f"{timestamp} ms"
