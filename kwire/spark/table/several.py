"""Builds the tables of several clusters as one job of Spark, with a task for each cluster
(``bring``), and keeps what happened to each (``conditions``).

The tables of a cluster are at ``ROOT/cluster_id=NAME``. NAME is the name that the caller gives, or
the id of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kwire.spark.table.bring import Task, bring
from kwire.spark.table.conditions import Conditions, Outcome
from kwire.spark.table.store import TablesError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The column of the rows of tasks: an outcome as JSON.
COLUMN: Final = "outcome"


def bring_all(spark: SparkSession, tasks: Sequence[Task]) -> list[Outcome]:
    """Run all tasks to their end, note the outcomes, and return them. Raises TablesError if all of
    them failed.
    """
    root = tasks[0].root

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for n in batch.column(0).to_pylist():
                yield outcome_batch(bring(tasks[n]))

    rows = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(run, f"{COLUMN} string")
    found = noted(root, rows)
    if all(one.condition for one in found):
        sentences = [one.condition[1] for one in found if one.condition]
        raise TablesError(f"all sources failed: {'; '.join(sentences)}")
    return found


def noted(root: str, rows: DataFrame) -> list[Outcome]:
    """Run the tasks behind ``rows``, and note their outcomes at ``root``."""
    outcomes = [Outcome.of(row[0]) for row in rows.collect()]
    Conditions.read(root).note(outcomes)
    return outcomes


def outcome_batch(outcome: Outcome) -> pa.RecordBatch:
    """An outcome as the row that the driver collects."""
    return pa.RecordBatch.from_pydict({COLUMN: [outcome.to_json()]})
