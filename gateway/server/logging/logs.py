"""Writes structured logs to standard error: events are counted, rate-limited, escaped and cut.

Names, levels and fields of events are in ``gateway/server/logging/log_events.py``.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, TextIO

from gateway.base.error_text import ERROR_MAX as ERROR_MAX
from gateway.base.error_text import TEXT_MAX as TEXT_MAX
from gateway.base.error_text import escape as escape
from gateway.server.logging.log_events import EVENTS
from gateway.server.logging.log_lines import LogLines

#: Lines of one event in one period; the next line says how many more there were.
LINES_MAX: Final = 10
#: Length of a period, s.
PERIOD_S: Final = 10.0
#: Most keys that ``report_once`` remembers: peers choose them.
_ONCE_MAX: Final = 1000

#: Where every Reports of the process writes.
_lines = LogLines("debug", "console")


def configure(
    level: str, style: str, stream: TextIO | None = None, *, worker: int | None = None
) -> None:
    """Choose level, style and stream of the log for the process, as LogLines takes them, and the
    number of the worker that every line has (None: no number).
    """
    global _lines
    _lines = LogLines(level, style, stream, {} if worker is None else {"worker": worker})


def reset() -> None:
    """Undo :func:`configure`: every event goes to standard error, as text."""
    configure("debug", "console")


class Reports:
    """Counts events of ``gateway.server.logging.log_events`` and writes them to the log.

    At most LINES_MAX lines of an event are written in PERIOD_S; the next line says how many were
    ``suppressed``. ``tracing``: every request is logged (log.level=debug). Texts from a peer in
    ``fields`` have to be escaped by :func:`escape` before.
    """

    #: Raise ValueError for an event or field that is not in the table. Set in tests only: a line
    #: with an unknown name is better than none where something is wrong already.
    strict: ClassVar[bool] = False

    def __init__(
        self, *, tracing: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.tracing = tracing
        #: How often each event happened, logged or not.
        self.counts: Counter[str] = Counter()
        self._clock = clock
        # event -> (start of its period, lines wanted in it)
        self._periods: dict[str, tuple[float, int]] = {}
        self._once: set[tuple[Any, ...]] = set()

    def report(self, event: str, /, **fields: Any) -> None:
        """Count ``event``, and log it unless it was logged too often."""
        self._check(event, fields)
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
            known = EVENTS.get(event)
            _lines.write(known.level if known is not None else "warning", event, fields)

    def audit(self, event: str, /, **fields: Any) -> None:
        """Count ``event`` and log it every time: it may have to be proved later."""
        self._check(event, fields)
        self.counts[event] += 1
        _lines.write("info", event, fields)

    def report_once(self, event: str, key: tuple[Any, ...], /, **fields: Any) -> None:
        """Count ``event``, and log it the first time that it happens for ``key``."""
        key = (event, *key)
        if key in self._once or len(self._once) >= _ONCE_MAX:
            self.counts[event] += 1
            return
        self._once.add(key)
        self.report(event, **fields)

    def trace(self, event: str, /, **fields: Any) -> None:
        """Log ``event`` every time, without counting it."""
        self._check(event, fields)
        _lines.write("debug", event, fields)

    def bug(self, event: str, error: BaseException, /, **fields: Any) -> None:
        """Report an exception that no code expected, with its traceback."""
        self.report(event, error=repr(error), exc_info=error, **fields)

    def _check(self, event: str, fields: Mapping[str, object]) -> None:
        if not self.strict:
            return
        known = EVENTS.get(event)
        if known is None:
            raise ValueError(f"event {event!r} is not in gateway/server/logging/log_events.py")
        if not fields.keys() <= known.fields:
            unknown = ", ".join(sorted(fields.keys() - known.fields))
            raise ValueError(f"event {event!r} has no field {unknown} in log_events.py")
