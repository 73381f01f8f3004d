"""The table of a drill, as Markdown for docs/rescue.md or as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from tools.rescue_drill.cluster import Times

_TITLES: Final = (
    "Kafka",
    "Case",
    "Leader",
    "Brokers follow",
    "New topic has a record",
    "Three voters",
    "Records kept",
    "Brokers started again",
)


@dataclass
class Row:
    """The outcome of one case on one release. ``fault``: why the cluster did not come back."""

    release: str
    case: str
    title: str
    times: Times = field(default_factory=Times)
    records: int = 0
    restarted: int = 0
    fault: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the row as an object."""
        return asdict(self)


def markdown(rows: Iterable[Row]) -> str:
    """Return the table; times are in seconds after the kill."""
    lines = [_line(_TITLES), _line(["---"] * len(_TITLES))]
    for row in rows:
        times = row.times
        lines.append(
            _line(
                [
                    row.release,
                    row.title if row.fault is None else f"{row.title}: **failed**",
                    *map(
                        _seconds,
                        (times.leads, times.brokers_follow, times.produced, times.voters_back),
                    ),
                    f"{row.records} of {row.records}" if row.fault is None else "",
                    str(row.restarted),
                ]
            )
        )
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:g} s"
