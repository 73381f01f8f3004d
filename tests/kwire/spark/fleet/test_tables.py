"""When the tables are compacted; that statements of compaction do it is tested with Spark."""

from __future__ import annotations

import random
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the spark extra is not installed")

from kwire.spark.fleet.place import Place
from kwire.spark.fleet.tables import Tables
from kwire.spark.fleet.views import VIEWS

TOPICS, CHANGES = VIEWS["topics"], VIEWS["changes"]


class Session:
    """Remembers its statements."""

    def __init__(self) -> None:
        self.statements: list[str] = []

    def sql(self, text: str) -> None:
        self.statements.append(text)


def counted(monkeypatch: pytest.MonkeyPatch, first: int) -> tuple[Any, Tables]:
    """Tables that are compacted at the third merge, and count the first as merge ``first + 1``."""
    monkeypatch.setattr(random, "randrange", lambda _: first)
    spark: Any = Session()
    return spark, Tables(spark, Place("/data/fleet", "delta"), merges=3)


def test_partition_of_a_cluster_is_compacted_each_so_many_merges(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spark, of_job = counted(monkeypatch, 0)
    merged = []
    for number in range(7):
        of_job.merged(TOPICS, ["it's", "B"] if number != 1 else ["B"])
        of_job.compact(VIEWS.values())
        merged.append(sorted(spark.statements))
        spark.statements.clear()
    of_b = [
        f"OPTIMIZE delta.`/data/fleet/topics_{which}` WHERE cluster_id IN ('B')"
        for which in ("history", "state")
    ]
    assert merged == [
        [],
        [],
        of_b,
        [one.replace("'B'", "'it\\'s'") for one in of_b],
        [],
        of_b,
        [one.replace("'B'", "'it\\'s'") for one in of_b],
    ]


def test_first_merges_of_a_job_count_as_one_by_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    spark, of_job = counted(monkeypatch, 2)
    of_job.merged(CHANGES, ["B", "A"])
    of_job.merged(TOPICS, [])
    of_job.compact(VIEWS.values())
    assert spark.statements == [
        "OPTIMIZE delta.`/data/fleet/changes_history` WHERE cluster_id IN ('A', 'B')"
    ]


def test_number_by_chance_is_below_the_merges() -> None:
    spark: Any = Session()
    of_job = Tables(spark, Place("/data/fleet", "delta"), merges=1)
    of_job.merged(CHANGES, ["A"])
    of_job.compact([CHANGES])
    assert len(spark.statements) == 1
