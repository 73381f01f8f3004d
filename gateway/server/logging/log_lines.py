"""Sets structlog up to write log events as lines: JSON, or text for a terminal.

It does not choose, count or limit events: ``gateway.server.logging.logs`` does.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TextIO, cast


@contextlib.contextmanager
def _hidden(name: str) -> Iterator[None]:
    """Have imports of a module fail, unless it is imported already."""
    modules = cast(dict[str, Any], sys.modules)
    if name in modules:
        yield
        return
    modules[name] = None
    try:
        yield
    finally:
        del modules[name]


# structlog imports rich where it is installed, for tracebacks in colour. No line has one, and the
# import takes about as long as structlog's own.
with _hidden("rich"):
    import structlog

#: The levels of ``log.level``, the least important first.
LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
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
        is_terminal = _is_terminal(sys.stderr if stream is None else stream)
        text = style == "console" or (style == "auto" and is_terminal)
        self._log = structlog.wrap_logger(
            structlog.WriteLogger(cast(TextIO, _Stream(stream))),
            processors=_processors(text, colors=is_terminal),
            wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
            cache_logger_on_first_use=True,
        )

    def write(self, level: str, event: str, fields: Mapping[str, Any]) -> None:
        """Write one event. The field ``exc_info``, an exception, is written as its traceback.

        A line that cannot be written is dropped: a server continues when the reader of its log has
        ended.
        """
        getattr(self._log, level)(event, **self._common, **fields)


def _processors(text: bool, *, colors: bool) -> list[Any]:
    head = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if text:
        # rich would draw a traceback over fifty lines, with the values of local variables.
        plain = structlog.dev.plain_traceback
        return [*head, structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=plain)]
    return [*head, structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]


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
