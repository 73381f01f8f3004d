"""Log events: the server reports those of its table, and the table has no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import gateway
from gateway.server.logging.log_events import EVENTS, SECTIONS
from gateway.server.logging.log_lines import LEVELS
from gateway.server.logging.logs import Reports
from gateway.sources.disk_notices import REFUSED, TAKEN
from tools.check.log_event_tables import table

ROOT = Path(gateway.__file__).parent
#: Methods whose first argument is the name of an event: of ``Reports``, and those that pass it on.
LOGGING = frozenset({"Report", "_bug", "_report", "audit", "bug", "report", "report_once", "trace"})
NAME = re.compile("[a-z][a-z ]+")
#: ``gateway.quorum.voter_registration`` passes these names on to the function that reports.
REGISTRATION = (
    "voter updated",
    "voter not updated",
    "voter not added",
    "former voter not removed",
    "voter added",
    "former voter removed",
)


def events_of(path: Path) -> Iterator[str]:
    """The names of events in a source file: constants where one is logged."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        called = node.func
        name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
        if name in LOGGING:
            for one in ast.walk(node.args[0]):
                text = one.value if isinstance(one, ast.Constant) else None
                if isinstance(text, str) and re.fullmatch("[a-z][a-z_ -]+", text):
                    yield text


def test_every_reported_event_is_in_the_table_and_every_row_is_reported() -> None:
    reported = {
        event
        for path in ROOT.rglob("*.py")
        if path.parent.name != "cli"
        for event in events_of(path)
    }
    reported |= {*REGISTRATION, REFUSED, TAKEN, "connection cut", "idle connection closed"}
    assert sorted(reported - EVENTS.keys()) == [], "not in gateway/server/logging/log_events.py"
    assert sorted(EVENTS.keys() - reported) == [], "in the table, and reported nowhere"


def test_names_are_lower_case_words_of_one_section_with_a_level_and_a_sentence() -> None:
    names = [event.name for events in SECTIONS.values() for event in events]
    assert len(names) == len(set(names)) > 60
    for event in EVENTS.values():
        assert NAME.fullmatch(event.name), event.name
        assert event.level in LEVELS
        assert event.meaning[0].isupper() or event.meaning.startswith("`")
        assert event.meaning.endswith("."), event.name


def test_a_table_groups_the_fields_of_a_connection_and_of_a_request() -> None:
    rows = [row for row in table("connections and requests").splitlines() if "`bad request`" in row]
    assert len(rows) == 1
    assert "| the connection, the request, `error`, `rule`, `software` |" in rows[0]


def test_reports_refuse_unknown_events_and_fields_where_they_are_strict() -> None:
    reports = Reports()
    with pytest.raises(ValueError, match="'no such event' is not in"):
        reports.report("no such event")
    with pytest.raises(ValueError, match="has no field number"):
        reports.report("source recovered", number=1)
    assert not reports.counts


def test_reports_log_unknown_events_where_they_are_not_strict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Reports, "strict", False)
    reports = Reports()
    reports.report("no such event", number=1)
    assert reports.counts["no such event"] == 1
