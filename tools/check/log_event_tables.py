"""Writes the tables of log events in docs/operations.md from ``gateway.server.logging.log_events``.

A table stands between ``<!-- log events: SECTION -->`` and ``<!-- end -->``. The text around the
tables is left alone.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.server.logging.log_events import CONNECTION, REQUEST, SECTIONS, LogEvent

PAGE: Final = "docs/operations.md"
_TABLE: Final = re.compile(r"<!-- log events: (?P<section>.+?) -->\n.*?<!-- end -->", re.DOTALL)


class UnknownSectionError(ValueError):
    """The page does not have exactly the sections of ``SECTIONS``; the text names them."""


def written(page: str) -> str:
    """``page`` with its tables as they should be. Raises UnknownSectionError."""
    found = [one["section"] for one in _TABLE.finditer(page)]
    if sorted(found) != sorted(SECTIONS):
        raise UnknownSectionError(f"tables of {found}, log_events.py has {list(SECTIONS)}")

    def filled(one: re.Match[str]) -> str:
        section = one["section"]
        return f"<!-- log events: {section} -->\n\n{table(section)}\n\n<!-- end -->"

    return _TABLE.sub(filled, page)


def table(section: str) -> str:
    """The Markdown table of a section of ``SECTIONS``, without a newline at its end."""
    rows = (
        f"| `{one.name}` | {one.level} | {_fields(one)} | {one.meaning} |"
        for one in SECTIONS[section]
    )
    return "\n".join(["| event | level | fields | meaning |", "|---|---|---|---|", *rows])


def _fields(event: LogEvent) -> str:
    # A traceback is not a field that a reader of the log selects by.
    left = event.fields - {"exc_info"}
    shown = []
    for text, group in (("the connection", CONNECTION), ("the request", REQUEST)):
        names = frozenset(group.split())
        if names <= left:
            shown.append(text)
            left -= names
    return ", ".join([*shown, *(f"`{name}`" for name in sorted(left))])
