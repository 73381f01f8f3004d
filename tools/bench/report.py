"""Prints rows of measurements as a table, for a terminal and for a page.

It knows nothing of the measurements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

_KNOWN = ("bench", "what", "unit", "kwire", "peer", "peer_value", "ratio", "bar")
_NUMBERS = {"kwire", "peer_value", "ratio", "bar"}
#: The columns of a section: its heading names the bench.
_COLUMNS = (*_KNOWN[1:], "holds", "notes")
_HEAD = """\
# Benchmarks

This page compares the speed and memory of kwire with those of its peers: other Python codecs,
and Kafka under the same clients. Measure it on your machine, all of it or some benches by name:

```bash
make bench
.venv/bin/python -m tools.bench codec serving --out docs/benchmarks.md
```

The ratio says how many times better kwire's value is than the peer's. The bar is the ratio to
reach; `make bench` fails if a bar does not hold. Each bench says what it was measured on.
"""
_VERDICT = {True: "yes", False: "NO", None: ""}

Row = Mapping[str, Any]


def holds(row: Row) -> bool | None:
    """Whether the row's bar holds; None without a bar."""
    if row.get("bar") is not None and row.get("ratio") is not None:
        return bool(row["ratio"] >= row["bar"])
    ok = row.get("ok")
    return None if ok is None else bool(ok)


def show(rows: Sequence[Row]) -> None:
    """Print the table to standard output, as wide as it needs to be where that is not a
    terminal.
    """
    console = Console()
    if not console.is_terminal:
        console = Console(width=240)
    table = Table()
    for column in (*_KNOWN, "holds", "notes"):
        table.add_column(
            column.replace("_", " "), justify="right" if column in _NUMBERS else "left"
        )
    for row in rows:
        table.add_row(*_cells(row), style="red" if holds(row) is False else None)
    console.print(table)


def page(before: str, rows: Sequence[Row], machine: str) -> str:
    """Return the page ``before`` with a section for each bench of ``rows``, which replaces an older
    one. Sections of other benches stay, with the machine and the commit that they were measured on.
    """
    sections = _sections(before)
    for bench in dict.fromkeys(row["bench"] for row in rows):
        sections[bench] = _section([row for row in rows if row["bench"] == bench], machine)
    return "\n".join([_HEAD, *(f"## {bench}\n\n{text}" for bench, text in sections.items())])


def _sections(text: str) -> dict[str, str]:
    """The text of each section of a page, by the name of its bench."""
    found = (part.partition("\n\n") for part in text.split("\n## ")[1:])
    return {bench: section.rstrip("\n") + "\n" for bench, _, section in found}


def _section(rows: Sequence[Row], machine: str) -> str:
    lines = [
        f"Measured on: {machine}",
        "",
        "| " + " | ".join(column.replace("_", " ") for column in _COLUMNS) + " |",
        "|" + "|".join("--:" if column in _NUMBERS else "---" for column in _COLUMNS) + "|",
    ]
    lines += [
        "| " + " | ".join(cell.replace("|", r"\|") for cell in _cells(row)[1:]) + " |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def _cells(row: Row) -> list[str]:
    notes = ", ".join(
        f"{key} {_text(value)}" for key, value in row.items() if key not in (*_KNOWN, "ok", "notes")
    )
    if row.get("notes"):
        notes = f"{row['notes']}{'; ' if notes else ''}{notes}"
    return [*(_text(row.get(column)) for column in _KNOWN), _VERDICT[holds(row)], notes]


def _text(value: Any) -> str:
    """Format a number with three significant figures, as a measurement on a shared machine is not
    more exact.
    """
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
