"""Registers ``format("kwire-changes")``: every change of one or several clusters, as Spark's own
data source in Python.

A task folds one log from its beginning, and gives the changes of its range. So it needs no state
but the log: any executor may run it, and it gives the same rows when it runs again. ``versions``
makes the tables of entities from them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import datasource as api
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from kwire.spark.source.options import check_names
from kwire.spark.table.arrow import CHANGES, changes_table, spark_columns
from kwire.spark.table.builder import without_collector
from kwire.spark.table.fold import Fold
from kwire.spark.table.logs import DirectoryRows, Place, ServerRows, rows_at
from kwire.spark.table.rows import Change, Folded, Row, Trouble

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT: Final = "kwire-changes"
_MILLIS: Final = pa.timestamp("ms", tz="UTC")
COLUMNS: Final = {
    "cluster_id": pa.string(),
    **CHANGES,
    #: The time of the record at ``effectiveOffset``.
    "effectiveTime": CHANGES["timestamp"],
}
#: The ``op`` of a record that was ignored; ``after`` says why.
ERROR: Final = "error"


def register_changes(spark: SparkSession) -> None:
    """Make ``format("kwire-changes")`` known to ``spark``."""
    spark.dataSource.register(ChangesSource)


class ChangesSource(api.DataSource):
    """The data source behind ``format("kwire-changes")``. Its option ``sources`` is a directory,
    ``host:port,...`` of a server, or a JSON list of these; the other options are those with which
    ``format("kwire")`` connects to a server.
    """

    def __init__(self, options: Any) -> None:
        self._given = {name.lower(): value for name, value in dict(options).items()}

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return spark_columns(COLUMNS)

    def reader(self, schema: Any) -> api.DataSourceReader:
        return ChangesReader(self._logs())

    def streamReader(self, schema: Any) -> api.DataSourceStreamReader:
        return ChangesStreamReader(self._logs())

    def _logs(self) -> dict[str, DirectoryRows | ServerRows]:
        options = dict(self._given)
        names = listed(options.pop("sources", ""))
        check_names(FORMAT, options, ("sources", "pollTimeoutMs"))
        return {name: rows_at(name, options) for name in names}


def listed(text: str) -> list[str]:
    """The sources in the text of the option. Raises ValueError."""
    try:
        names = json.loads(text) if text.lstrip().startswith("[") else [text]
    except ValueError:
        names = []
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError(
            f"sources is a directory, host:port of a server, or a JSON list of these, not {text!r}"
        )
    if len(set(names)) < len(names):
        raise ValueError(f"sources names a source twice: {text}")
    return names


@dataclass
class OneLog(api.InputPartition):
    """The changes with ``start`` <= effectiveOffset < ``end`` of one log, which one task reads."""

    source: str
    cluster_id: str
    start: int
    end: int


class _Reader:
    def __init__(self, logs: Mapping[str, DirectoryRows | ServerRows]) -> None:
        self._logs = logs

    def read(self, partition: api.InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, OneLog):
            return  # the one empty partition that Spark makes of an empty plan
        with without_collector():
            parts = self._logs[partition.source].rows(partition.end)
            for table in changes_of(parts, partition.start):
                clusters = pa.repeat(pa.scalar(partition.cluster_id), table.num_rows)
                yield from table.add_column(0, "cluster_id", clusters).to_batches()


class ChangesReader(_Reader, api.DataSourceReader):
    """``spark.read``: all changes that there are now."""

    def partitions(self) -> Sequence[api.InputPartition]:
        ends = {name: log.end() for name, log in self._logs.items()}
        return [OneLog(name, end["clusterId"], 0, end["offset"]) for name, end in ends.items()]


class ChangesStreamReader(_Reader, api.DataSourceStreamReader, SupportsTriggerAvailableNow):
    """``spark.readStream``: a micro-batch has what there is. A position is that of each source."""

    def __init__(self, logs: Mapping[str, DirectoryRows | ServerRows]) -> None:
        super().__init__(logs)
        self._target: dict[str, Place] | None = None

    def initialOffset(self) -> dict[str, Place]:
        return {}

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._ends()

    def latestOffset(self, start: dict[str, Place], limit: ReadLimit) -> dict[str, Place]:
        ends = self._ends() if self._target is None else self._target
        for name, end in ends.items():
            if name in start and end != start[name]:
                self._logs[name].check(start[name])
        return {**start, **ends}

    def partitions(
        self, start: dict[str, Place], end: dict[str, Place]
    ) -> Sequence[api.InputPartition]:
        ranges = [
            OneLog(name, to["clusterId"], start.get(name, {"offset": 0})["offset"], to["offset"])
            for name, to in end.items()
            if name in self._logs
        ]
        return [one for one in ranges if one.start < one.end]

    def _ends(self) -> dict[str, Place]:
        return {name: log.end() for name, log in self._logs.items()}


def changes_of(parts: Iterator[list[Row]], start: int) -> Iterator[pa.Table]:
    """Fold records from the beginning of a log, and yield the changes that came into force at
    offset ``start`` or later, and the records there that were ignored, with the columns of
    ``COLUMNS`` but the first.
    """
    fold = Fold()
    lost: list[Row] = []
    for rows, ahead in pairwise(chain(parts, [()])):
        lost += [row for row in rows if row.offset < 0]
        fold.take(rows, ahead)
        times = {row.offset: row.timestamp for row in rows}
        yield from _tables(fold.folded, start, times)
        fold.folded = Folded()
    for row in lost:
        fold.lost(row._replace(offset=fold.state.next_offset))
    yield from _tables(fold.folded, start, {})


def _tables(folded: Folded, start: int, times: Mapping[int, int]) -> Iterator[pa.Table]:
    changes = [one for one in folded.changes if one.effective_offset >= start]
    changes += [_ignored(one) for one in folded.errors if one.offset >= start]
    if changes:
        effective = [times.get(one.effective_offset, one.timestamp) for one in changes]
        moments = pa.array(effective, _MILLIS).cast(COLUMNS["effectiveTime"])
        yield changes_table(changes).append_column("effectiveTime", moments)


def _ignored(one: Trouble) -> Change:
    return Change(
        one.offset,
        one.offset,
        -1,
        None,
        one.timestamp,
        one.type or "",
        "log",
        "",
        None,
        ERROR,
        None,
        {"error": one.error},
    )
