"""Writes log events as lines: JSON, or text for a terminal.

It does not choose, count or limit events: ``gateway.server.logging.logs`` does. It uses the
standard library alone, as a package for logs would take a fifth of the time of a start.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
import sys
import traceback
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TextIO

#: The levels of ``log.level``, the least important first.
LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_LEVEL_WIDTH: Final = 9
_EVENT_WIDTH: Final = 30
#: Text with one of these is quoted in a line of text.
_QUOTED: Final = frozenset(" \t=\r\n\"'")
_RESET, _BRIGHT, _DIM = "\x1b[0m", "\x1b[1m", "\x1b[2m"
_RED, _GREEN, _YELLOW = "\x1b[31m", "\x1b[32m", "\x1b[33m"
_MAGENTA, _CYAN = "\x1b[35m", "\x1b[36m"
_COLORS: Final = {
    "debug": _GREEN + _BRIGHT,
    "info": _GREEN + _BRIGHT,
    "warning": _YELLOW + _BRIGHT,
    "error": _RED + _BRIGHT,
}


class LogLines:
    """Writes the events of ``level`` and above to ``stream``.

    ``style``: json, console, or auto (console where ``stream`` is a terminal). ``stream`` None is
    standard error, looked up for every line. ``common``: fields of every line.
    """

    def __init__(
        self,
        level: str,
        style: str,
        stream: TextIO | None = None,
        common: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._common = common
        self._least = LEVELS[level]
        self._stream = _Stream(stream)
        self._colors = _is_terminal(sys.stderr if stream is None else stream)
        self._as_text = style == "console" or (style == "auto" and self._colors)

    def write(self, level: str, event: str, fields: Mapping[str, Any]) -> None:
        """Write one event. The field ``exc_info``, an exception, is written as its traceback.

        A line that cannot be written is dropped: a server continues when the reader of its log has
        ended.
        """
        if LEVELS[level] < self._least:
            return
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
        timestamp = now.replace("+00:00", "Z")
        shown = {**self._common, **fields}
        error = shown.pop("exc_info", None)
        failure = "" if error is None else "".join(traceback.format_exception(error)).rstrip("\n")
        if self._as_text:
            line = _text(timestamp, level, event, shown, _paint if self._colors else _plain)
            self._stream.write(f"{line}\n{failure}\n" if failure else f"{line}\n")
        else:
            shown |= {"event": event, "level": level, "timestamp": timestamp}
            shown |= {"exception": failure} if failure else {}
            self._stream.write(json.dumps(shown, default=repr) + "\n")
        self._stream.flush()


def _text(
    timestamp: str,
    level: str,
    event: str,
    fields: Mapping[str, Any],
    paint: Callable[[str, str], str],
) -> str:
    """An event in columns, and its fields sorted by name."""
    head = f"{paint(_DIM, timestamp)} [{paint(_COLORS[level], level.ljust(_LEVEL_WIDTH))}]"
    pairs = [
        f"{paint(_CYAN, name)}={paint(_MAGENTA, _shown(fields[name]))}" for name in sorted(fields)
    ]
    return " ".join([head, paint(_BRIGHT, event.ljust(_EVENT_WIDTH)), *pairs])


def _shown(value: Any) -> str:
    """Text as it is where it is one word, else the ``repr`` of the value."""
    is_word = isinstance(value, str) and _QUOTED.isdisjoint(value)
    return value if is_word else repr(value)


def _paint(style: str, text: str) -> str:
    return f"{style}{text}{_RESET}"


def _plain(style: str, text: str) -> str:
    return text


class _Stream:
    """A stream that drops text when it cannot be written; None is standard error."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a broken pipe; a closed file
            (sys.stderr if self._stream is None else self._stream).write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            (sys.stderr if self._stream is None else self._stream).flush()


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # a closed file
        return False
