"""Structured logs on standard error, and how peers' misdeeds get there: counted, rate-limited, escaped, cut.

Field names are stable: connection, listener, peer, api, version, correlation_id, client_id, principal, error.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, TextIO, cast

# structlog takes rich along where it is installed, a tenth of a server's start; tracebacks are plain here (see configure).
_rich = sys.modules.get("rich")
sys.modules["rich"] = None  # type: ignore[assignment]
import structlog  # noqa: E402

if _rich is None:
    del sys.modules["rich"]
else:
    sys.modules["rich"] = _rich

LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
#: Lines of one event in one period, s; what is above is counted and told with the next line.
LINES_MAX: Final = 10
PERIOD_S: Final = 10.0
#: Longest piece of a peer's text in a line, characters.
TEXT_MAX: Final = 100
#: Longest sentence of ours that may quote a peer, characters.
ERROR_MAX: Final = 400
#: Different things of which "once" is remembered: peers choose the names.
_ONCE_MAX: Final = 1000


def configure(level: str, style: str, stream: TextIO | None = None) -> None:
    """Set structlog up for the process: ``style`` is console, json, or auto: console where ``stream`` is a terminal."""
    stream = sys.stderr if stream is None else stream
    console = style == "console" or (style == "auto" and stream.isatty())
    renderer: Any
    if console:
        plain = structlog.dev.plain_traceback
        renderer = structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=plain)
    else:
        renderer = structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([] if console else [structlog.processors.format_exc_info]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(cast(TextIO, _Unfailing(stream))),
        cache_logger_on_first_use=False,
    )


class _Unfailing:
    """A stream whose reader may go away: a server does not end because nobody reads its log any more."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a broken pipe; a closed file
            self._stream.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


def escape(text: str | None, *, limit: int = TEXT_MAX) -> str | None:
    """A peer's text, safe in one line of a log: control characters escaped, cut at ``limit`` characters."""
    if text is None:
        return None
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text[:limit])
    return safe + ("…" if len(text) > limit else "")


class Reports:
    """Counts everything by name, and logs it no faster than LINES_MAX an event and period.

    ``tracing``: somebody wants to see every request (log.level=debug).
    """

    def __init__(self, *, tracing: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self.tracing = tracing
        #: How often each event happened, logged or not.
        self.counts: Counter[str] = Counter()
        self._clock = clock
        self._periods: dict[str, tuple[float, int]] = {}  # event -> (start of its period, lines wanted in it)
        self._once: set[tuple[Any, ...]] = set()
        self._log = structlog.get_logger()

    def report(self, event: str, level: str = "info", **fields: Any) -> None:
        """Count ``event`` and log it. ``fields`` from a peer are escaped by :func:`escape` before."""
        self.counts[event] += 1
        now = self._clock()
        began, wanted = self._periods.get(event, (now, 0))
        if now - began >= PERIOD_S:
            suppressed = max(0, wanted - LINES_MAX)
            if suppressed:
                fields["suppressed"] = suppressed
            began, wanted = now, 0
        self._periods[event] = (began, wanted + 1)
        if wanted < LINES_MAX:
            getattr(self._log, level)(event, **fields)

    def audit(self, event: str, **fields: Any) -> None:
        """Count ``event`` and log it, every one: for what somebody may have to prove some day."""
        self.counts[event] += 1
        self._log.info(event, **fields)

    def report_once(self, event: str, key: tuple[Any, ...], level: str = "info", **fields: Any) -> None:
        """Count ``event`` and log it if it was not yet for ``key``."""
        key = (event, *key)
        if key in self._once or len(self._once) >= _ONCE_MAX:
            self.counts[event] += 1
            return
        self._once.add(key)
        self.report(event, level, **fields)

    def trace(self, event: str, **fields: Any) -> None:
        """Log ``event`` for somebody who debugs: every one of them."""
        self._log.debug(event, **fields)

    def bug(self, event: str, error: BaseException, **fields: Any) -> None:
        """An exception that should not have happened: with its traceback."""
        self.report(event, "error", error=repr(error), exc_info=error, **fields)
