"""Writes log events as lines: JSON, or text for a terminal.

It does not choose, count or limit events: ``gateway.server.logs`` does. structlog does the same
work, but importing it imports rich and asyncio, which takes longer than the rest of the server's
logging together (docs/decisions/0004-libraries-outside-the-core.md).
"""

from __future__ import annotations

import contextlib
import datetime
import json
import sys
import traceback
from collections.abc import Mapping
from typing import Any, Final, TextIO

#: The levels of ``log.level``, the least important first.
LEVELS: Final = {
    "debug": 10,
    "info": 20,
    "warning": 30,
    "error": 40,
}
_RESET: Final = "\x1b[0m"
_BOLD: Final = "\x1b[1m"
_DIM: Final = "\x1b[2m"
_CYAN: Final = "\x1b[36m"
_LEVEL_COLORS: Final = {
    "debug": "\x1b[32m",
    "info": "\x1b[32m",
    "warning": "\x1b[33m",
    "error": "\x1b[31m",
}
#: Columns of the name of an event in text, so that the fields of most lines begin in one column.
_EVENT_COLUMNS: Final = 30
#: A value with one of these is quoted in text.
_QUOTED: Final = frozenset(" \t=\r\n\"'")


class LogLines:
    """Writes the events of ``level`` and above to ``stream``.

    ``style``: json, console, or auto (console where ``stream`` is a terminal). ``stream`` None is
    standard error, looked up for every line.
    """

    def __init__(self, level: str, style: str, stream: TextIO | None = None) -> None:
        self._least = LEVELS[level]
        self._style = style
        self._stream = stream

    def write(self, level: str, event: str, fields: Mapping[str, Any]) -> None:
        """Write one event. The field ``exc_info``, an exception, is written as its traceback.

        A line that cannot be written is dropped: a server goes on when the reader of its log goes
        away.
        """
        if LEVELS[level] < self._least:
            return
        values = dict(fields)
        error = values.pop("exc_info", None)
        trace = None if error is None else "".join(traceback.format_exception(error)).rstrip()
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
        now = now.replace("+00:00", "Z")
        stream = sys.stderr if self._stream is None else self._stream
        is_terminal = _is_terminal(stream)
        if self._style == "console" or (self._style == "auto" and is_terminal):
            line = _text(now, level, event, values, trace, colors=is_terminal)
        else:
            line = _json(now, level, event, values, trace)
        with contextlib.suppress(OSError, ValueError):  # a broken pipe; a closed file
            stream.write(line + "\n")
            stream.flush()


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # a closed file
        return False


def _json(now: str, level: str, event: str, values: dict[str, Any], trace: str | None) -> str:
    if trace is not None:
        values["exception"] = trace
    return json.dumps({"timestamp": now, "level": level, "event": event, **values}, default=repr)


def _text(
    now: str, level: str, event: str, values: dict[str, Any], trace: str | None, *, colors: bool
) -> str:
    def painted(text: str, color: str) -> str:
        return f"{color}{text}{_RESET}" if colors else text

    fields = (f"{painted(name, _CYAN)}={_shown(values[name])}" for name in sorted(values))
    head = f"{painted(now, _DIM)} [{painted(f'{level:<9}', _LEVEL_COLORS[level])}]"
    line = " ".join([head, painted(f"{event:<{_EVENT_COLUMNS}}", _BOLD), *fields]).rstrip()
    return line if trace is None else f"{line}\n{trace}"


def _shown(value: object) -> str:
    if isinstance(value, str):
        return value if value and _QUOTED.isdisjoint(value) else repr(value)
    return repr(value)
