"""Draws a job's result in SVG: bars, or spans of time. It knows rows and their columns, no
Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from xml.sax.saxutils import escape

Row = Mapping[str, Any]
Drawing = Callable[[str, Sequence[Row]], str]

_WIDTH, _LEFT, _LINE, _TOP = 960, 260, 20, 40
#: The picture shows at most this many lines.
_LINES_MAX: Final = 200
_COLOURS: Final = {"active": "#2e7d32", "fenced": "#c62828", "shutting down": "#ef6c00"}


def picture(job: str, rows: Sequence[Row]) -> str:
    """The result of ``job`` as SVG; only the first 200 lines are drawn. Raises KeyError for an
    unknown job.
    """
    return _PICTURES[job](job, rows)


def bars(title: str, values: Sequence[tuple[str, float]]) -> str:
    """One bar on each line."""
    room, top = _WIDTH - _LEFT - 80, max((value for _, value in values), default=0) or 1
    lines = [
        _text(label, n)
        + _box(n, 0, value / top, "#1565c0")
        + _text(f"{value:g}", n, _LEFT + room * value / top + 4)
        for n, (label, value) in enumerate(values[:_LINES_MAX])
    ]
    return _svg(title, lines)


def spans(title: str, found: Sequence[tuple[str, datetime, datetime | None, str]]) -> str:
    """(label, since, until, state): one line for each label, with its spans; a span without an end
    is drawn to the last moment.
    """
    moments = [when for _, since, until, _ in found for when in (since, until) if when is not None]
    if not moments:
        return _svg(title, [])
    first, last = min(moments), max(moments)
    total = (last - first).total_seconds() or 1
    labels = list(dict.fromkeys(label for label, *_ in found))[:_LINES_MAX]
    lines = [_text(label, n) for n, label in enumerate(labels)]
    for label, since, until, state in found:
        if label in labels:
            start, end = ((when - first).total_seconds() / total for when in (since, until or last))
            tip = f"{label}: {state} since {since}, until {until or 'now'}"
            lines.append(_box(labels.index(label), start, end, _COLOURS.get(state, "#1565c0"), tip))
    return _svg(f"{title}, {_when(first)} to {_when(last)}", lines)


def _an_hour(job: str, rows: Sequence[Row]) -> str:
    hours = Counter(row["timestamp"].strftime("%Y-%m-%d %H:00") for row in rows)
    return bars(f"{job}: changes an hour", sorted(hours.items()))


def _column(label: Callable[[Row], str], value: str) -> Drawing:
    return lambda job, rows: bars(
        f"{job}: {value}", [(label(row), row[value] or 0) for row in rows]
    )


def _drift(job: str, rows: Sequence[Row]) -> str:
    different = [len({*row["values"].values()}) for row in rows]
    labels = [f"{row['resource']} {row['name']}" for row in rows]
    return bars(f"{job}: different values", [*zip(labels, different, strict=True)])


def _spans(
    label: Callable[[Row], str], since: str, until: str, state: Callable[[Row], str]
) -> Drawing:
    return lambda job, rows: spans(
        job, [(label(row), row[since], row[until], state(row)) for row in rows if row[since]]
    )


_PICTURES: Final = {
    "isr": _an_hour,
    "configs": _an_hour,
    "security": _an_hour,
    "leaders": _column(lambda row: _when(row["hour"]), "moves"),
    "flapping": _column(lambda row: f"broker {row['broker']}, {_when(row['hour'])}", "flaps"),
    "load": _column(lambda row: str(row["type"]), "records"),
    "topics": _spans(lambda row: str(row["name"]), "created", "deleted", lambda row: "topic"),
    "reassignments": _spans(
        lambda row: f"{row['topic']}-{row['partition']}",
        "started",
        "ended",
        lambda row: "reassignment",
    ),
    "underreplicated": _spans(
        lambda row: f"{row['topic']}-{row['partition']}",
        "since",
        "until",
        lambda row: f"{row['fewestInSync']} of {row['replicas']} in sync",
    ),
    "drift": _drift,
    "audit": _an_hour,
    "brokers": _spans(
        lambda row: f"broker {row['id']}", "since", "until", lambda row: str(row["state"])
    ),
}


def _svg(title: str, lines: Sequence[str]) -> str:
    height = _TOP + _LINE * (1 + sum(line.count('class="label"') for line in lines))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}"'
        ' font-family="sans-serif" font-size="12">'
    )
    return "\n".join(
        [head, f'<text x="8" y="20" font-size="15">{escape(title)}</text>', *lines, "</svg>\n"]
    )


def _text(text: str, line: int, x: float = 8) -> str:
    kind = ' class="label"' if x == 8 else ""
    return f'<text{kind} x="{x:.0f}" y="{_TOP + _LINE * line + 13}">{escape(text)}</text>'


def _box(line: int, start: float, end: float, colour: str, tip: str = "") -> str:
    room = _WIDTH - _LEFT - 80
    shape = (
        f'x="{_LEFT + room * start:.1f}" y="{_TOP + _LINE * line + 2}"'
        f' width="{max(1.0, room * (end - start)):.1f}" height="14"'
    )
    return f'<rect {shape} fill="{colour}"><title>{escape(tip)}</title></rect>'


def _when(moment: datetime) -> str:
    return (
        moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M")
        if moment.tzinfo
        else moment.strftime("%Y-%m-%d %H:%M")
    )
