"""docs/operations.md: every event that the server may log stands in a table, and nothing else does."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import gateway

ROOT = Path(gateway.__file__).parent
#: Who takes the name of an event first: ``Reports``, structlog's loggers, and what the observer of a quorum tells.
LOGGING = frozenset({"audit", "bug", "debug", "error", "exception", "info", "report", "report_once", "trace", "warning"})
#: Others tell sentences by the same word.
NAME = re.compile("[a-z][a-z_ -]+")
TELLING = frozenset({"Tell", "_report", "_tell", "tell"})


def events_of(path: Path) -> Iterator[str]:
    """The names of events in a source file: constants where one is logged."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and node.args and _logs(node.func):
            named = [one.value for one in ast.walk(node.args[0]) if isinstance(one, ast.Constant)]
            yield from (name for name in named if isinstance(name, str) and NAME.fullmatch(name))


def _logs(called: ast.expr) -> bool:
    if isinstance(called, ast.Name):
        return called.id in TELLING
    return isinstance(called, ast.Attribute) and called.attr in LOGGING | TELLING


def documented() -> set[str]:
    """The names in the first column of the tables of events."""
    text = (ROOT.parent / "docs" / "operations.md").read_text(encoding="utf-8")
    tables = [after.partition("\n\n")[0] for after in text.split("| event | level | |\n")[1:]]
    return {name for table in tables for row in table.splitlines()[1:] for name in re.findall("`([^`]+)`", row.split("|")[1])}


def test_every_event_is_in_a_table_and_no_other() -> None:
    logged = {event for path in ROOT.rglob("*.py") if path.parent.name != "cli" for event in events_of(path)}
    assert len(logged) > 30
    assert sorted(logged - documented()) == [], "not in docs/operations.md"
    assert sorted(documented() - logged) == [], "in docs/operations.md, and logged nowhere"
