"""Where a state is to come from and up to where, as users write it. Reads nothing itself, and is cheap to import."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from gateway.address import Address
    from gateway.cli.state_fold import State

#: Numbers from here on are times: ms since 1970 had 13 digits from 2001 on, and no metadata log has so many records.
_FIRST_TIME_MS: Final = 10**12
_NUMBER: Final = re.compile(r"[0-9]{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class At:
    """Up to where: before ``offset`` (exclusive), or before the first record later than ``time_ms``. Neither: to the end."""

    offset: int | None = None
    time_ms: int | None = None

    def ends_before(self, offset: int, timestamp: int) -> bool:
        """Is the record at ``offset``, written at ``timestamp`` (ms), past the state that is wanted?"""
        return (self.offset is not None and offset >= self.offset) or (self.time_ms is not None and timestamp > self.time_ms)


def parse_at(text: str) -> At:
    """``OFFSET``, ms since 1970 (13 digits or more), or ISO 8601, UTC unless it names a zone. Raises click.BadParameter."""
    if _NUMBER.fullmatch(text):
        number = int(text)
        return At(offset=number) if number < _FIRST_TIME_MS else At(time_ms=number)
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is neither an offset, nor a time in ISO 8601 or ms since 1970") from None
    return At(time_ms=int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000))


def time_text(timestamp: int) -> str:
    """ms since 1970 as ``2026-11-21T03:18:12.379Z``."""
    with contextlib.suppress(ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(timestamp / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return f"{timestamp} ms"


def parse_source(text: str) -> tuple[Path | Address, At]:
    """``PATH`` or ``HOST:PORT``, either with ``@OFFSET`` or ``@TIME``; what exists is a path. Raises click.BadParameter."""
    place, _, at = text.rpartition("@")
    if not place or os.path.exists(text):
        place, at = text, ""
    return _place(place), parse_at(at) if at else At()


def _place(text: str) -> Path | Address:
    from gateway.cli.address import parse_address

    if os.path.exists(text):
        return Path(text)
    if ":" in text and "/" not in text:
        return parse_address(text)
    raise click.BadParameter(f"{text} does not exist, and is not HOST:PORT either")


def load(place: Path | Address, at: At) -> State:
    """The state out of one path or server. Raises click.ClickException."""
    from gateway.cli.state_files import load_files
    from gateway.cli.state_server import load_server

    return load_files([place], at) if isinstance(place, Path) else load_server(place, at)
