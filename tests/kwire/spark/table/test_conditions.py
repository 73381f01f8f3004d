"""Conditions of sources: a row for each change, none while one lasts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

if os.environ.get("KWIRE_INTEROP") != "require":
    pytest.importorskip("pyarrow", reason="pyarrow is not installed (the extra 'spark' has it)")

from kwire.spark.table import conditions
from kwire.spark.table.conditions import Conditions, Outcome
from kwire.spark.table.places import SOURCES
from kwire.spark.table.store import TablesError


def noted(root: Path, *outcomes: Outcome) -> list[tuple[str | None, str]]:
    for one in outcomes:
        Conditions.read(str(root)).note([Outcome.of(one.to_json())])
    rows = Conditions.read(str(root)).rows
    return [(row["cluster_id"], row["type"]) for row in rows]


def test_row_for_each_change_of_condition(tmp_path: Path) -> None:
    fine, down = Outcome("h:1", "A", 7), Outcome("h:1", "A", condition=("UNREACHABLE", "down"))
    assert noted(tmp_path, fine, fine) == []
    assert noted(tmp_path, down, down, down) == [("A", "UNREACHABLE")]
    assert Conditions.read(str(tmp_path)).present["h:1"].failures == 3
    assert Conditions.read(str(tmp_path)).sentences() == ["down"]
    assert noted(tmp_path, fine)[1:] == [("A", "RECOVERED")]
    assert Conditions.read(str(tmp_path)).sentences() == []
    table = Conditions.read(str(tmp_path)).table()
    assert table.column("error").to_pylist() == ["down", "h:1 is read again"]


def test_another_cluster_at_the_source_is_a_row_of_the_one_before(tmp_path: Path) -> None:
    unknown = Outcome("h:1", condition=("UNREACHABLE", "down"))
    rows = noted(tmp_path, Outcome("h:1", "A", 7), unknown, Outcome("h:1", "B", 3))
    assert rows == [("A", "UNREACHABLE"), ("A", "REPLACED"), ("B", "RECOVERED")]


def test_event_is_a_row_and_lasts_not(tmp_path: Path) -> None:
    event = Outcome("h:1", "A", 9, event=("TRUNCATED", "lost 3 to 7"))
    assert noted(tmp_path, event, Outcome("h:1", "A", 9)) == [("A", "TRUNCATED")]


def test_event_is_written_when_the_oldest_row_is_dropped_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditions, "_ROWS", 2)
    events = [Outcome("h:1", "A", 9, event=(kind, "lost")) for kind in ("one", "two", "three")]
    assert noted(tmp_path, *events) == [("A", "two"), ("A", "three")]


def test_file_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / SOURCES).write_text('{"format": 9}')
    with pytest.raises(TablesError, match="another version"):
        Conditions.read(str(tmp_path))
