"""The planner of the stream of several clusters: what is news, and what waits. It runs without
Spark.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

if os.environ.get("KWIRE_INTEROP") != "require":
    pytest.importorskip("pyspark", reason="PySpark is not installed (the extra 'spark' has it)")

from kwire.spark.source.offsets import LogState
from kwire.spark.table.bring import Task
from kwire.spark.table.conditions import Conditions, Outcome
from kwire.spark.table.follow import ClustersReader
from kwire.spark.table.sources import Source
from tests.shared import needs_shared
from tests.waiting import until


class Poll:
    """Answers what a test says."""

    failing = False

    def __init__(self) -> None:
        self.answer: Any = (None, None)

    def begin(self, pool: Any) -> Any:
        return pool.submit(lambda: None)

    def found(self) -> Any:
        return self.answer

    def close(self) -> None:
        """There is no connection."""


@pytest.fixture
def planned(tmp_path: Path) -> tuple[ClustersReader, dict[str, Poll]]:
    names = ("a", "b")
    tasks = [Task(Source(name, {"bootstrap.servers": "h:1"}), str(tmp_path)) for name in names]
    reader = ClustersReader(tasks, limit=100)
    polls = {name: Poll() for name in names}
    reader.__dict__["_polls"] = polls
    return reader, polls


def sources(reader: ClustersReader, start: Any, end: Any) -> list[tuple[str, int | None]]:
    parts: Any = reader.partitions(start, end)
    return [(part.task.source.name, part.task.end) for part in parts]


def log(end: int, cluster: str = "A") -> LogState:
    return LogState(cluster, "T", 0, end, 1)


def test_source_without_news_has_no_task(planned: tuple[ClustersReader, dict[str, Poll]]) -> None:
    reader, polls = planned
    assert reader.initialOffset() == {}
    nothing = reader.latestOffset({})
    assert sources(reader, {}, nothing) == []
    polls["a"].answer = log(250), None
    first = reader.latestOffset({})
    assert sources(reader, {}, first) == [("a", 100)]
    polls["b"].answer = None, ("UNREACHABLE", "down")
    second = reader.latestOffset(first)
    assert sources(reader, first, second) == [("a", 200), ("b", None)]
    polls["b"].answer = None, ("UNREACHABLE", "down in other words")
    third = reader.latestOffset(second)
    assert sources(reader, second, third) == [("a", 250)]
    assert reader.latestOffset(third) == third
    polls["a"].answer = log(20, "B"), None
    assert sources(reader, third, reader.latestOffset(third)) == [("a", 20)]
    reader.stop()


def test_failed_task_waits_for_its_next_attempt(
    planned: tuple[ClustersReader, dict[str, Poll]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader, polls = planned
    polls["a"].answer = log(50), None
    first = reader.latestOffset({})
    Conditions.read(str(tmp_path)).note([Outcome("a", condition=("FAILED", "no disk"))])
    polls["a"].answer = log(60), None
    assert reader.latestOffset(first) == first
    monkeypatch.setattr("kwire.spark.table.follow._RETRY_S", (0.0, 0.0))
    again = reader.latestOffset(first)
    assert sources(reader, first, again) == [("a", 60)]


def test_source_that_failed_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that does not exist takes seconds to be given up, at each trigger."""
    tasks = [
        Task(Source("gone", {"bootstrap.servers": "127.0.0.1:1"}), str(tmp_path)),
        Task(Source("none", {"path": str(tmp_path / "none")}), str(tmp_path)),
    ]
    reader, offset = ClustersReader(tasks, 100), dict[str, Any]()

    def all_fail() -> bool:
        nonlocal offset
        offset = reader.latestOffset(offset)
        return all(poll.failing for poll in reader._polls.values())

    until(all_fail, "both sources are given up")
    offset = reader.latestOffset(offset)
    waited_for: list[Any] = []
    monkeypatch.setattr(
        "kwire.spark.table.follow.wait", lambda answers, timeout: waited_for.extend(answers)
    )
    assert reader.latestOffset(offset) == offset
    assert waited_for == []
    assert {one["condition"][0] for one in offset.values()} == {"UNREACHABLE"}
    reader.stop()


@needs_shared
def test_reader_brings_a_directory_up_to_date(logs: Any, tmp_path: Path) -> None:
    """Plan and task, one after the other, as Spark calls them."""
    copy = shutil.copytree(logs("p-one-basic") / "nodes" / "1", tmp_path / "copy")
    reader = ClustersReader([Task(Source("a", {"path": str(copy)}), str(tmp_path / "root"))], 100)
    end = reader.latestOffset({})
    [part] = reader.partitions({}, end)
    [batch] = reader.read(part)
    outcome = Outcome.of(batch.column(0)[0].as_py())
    assert outcome.condition is None and outcome.next_offset > 900
    assert reader.latestOffset(end) == end
    shutil.rmtree(copy)
    gone = reader.latestOffset(end)
    [part] = reader.partitions(end, gone)
    [batch] = reader.read(part)
    said = Outcome.of(batch.column(0)[0].as_py()).condition
    assert said is not None and said[0] == "UNREACHABLE"
    reader.stop()
