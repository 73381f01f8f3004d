"""Keeps the tables of all clusters: in each round Spark reads what is new of every cluster, and
merges it into the tables, all clusters in one statement a table.

What was read is remembered in the table ``clusters`` behind the merges, so a job that is killed at
any moment reads some records again, which changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kwire.spark.fleet import sql
from kwire.spark.fleet.batch import Batch, BatchError, Count
from kwire.spark.fleet.place import CLUSTERS, CLUSTERS_COLUMNS, Place
from kwire.spark.fleet.plan import (
    Anchor,
    Condition,
    Found,
    OnGap,
    Outcome,
    Read,
    Remembered,
    not_the_same,
    plan,
)
from kwire.spark.fleet.probe import ask
from kwire.spark.fleet.tables import MERGES, Tables
from kwire.spark.fleet.views import CLUSTER_ID, View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Options = Mapping[str, str]


class Rounds:
    """A job: the tables at ``place`` of the clusters that ``clusters`` names, each with the options
    of its connection.
    """

    def __init__(
        self,
        spark: SparkSession,
        clusters: Mapping[str, Options],
        place: Place,
        views: Sequence[View],
        on_gap: OnGap,
        merges: int = MERGES,
    ) -> None:
        """Make the tables, unless they are there. Each ``merges`` merges of a cluster its part is
        compacted. Raises FleetError.
        """
        self._spark, self._clusters, self._place = spark, clusters, place
        self._views, self._on_gap = views, on_gap
        self._tables = Tables(spark, place, merges)
        place.prepare(spark)
        place.make(spark)
        rows = spark.table(place.table(CLUSTERS)).collect()
        self._known = {row.cluster_id: _remembered(row) for row in rows}

    def round(self, *, save: bool = True) -> list[Outcome]:
        """Bring the tables up to the present end of every log. A cluster that cannot be read stops
        only itself. Without ``save`` a position that nothing was read for is not written.
        """
        found = self._ask()
        reads, stopped = self._plan(found)
        self._remember([one.row for one in reads.values() if one.begins])
        done, failed = self._merge(reads)
        rows, records = dict(stopped), {}
        for name, read in reads.items():
            if name in failed:
                rows[name] = failed[name]
                continue
            rows[name] = replace(read.row, position=read.end)
            if count := done.get(read.row.cluster_id):
                records[name] = sum(count.records.values())
                rows[name] = replace(rows[name], anchor=count.last)
        gone = [
            replace(
                read.gone,
                condition=Condition.GONE,
                message=f"{name} is the cluster {read.row.cluster_id} now",
            )
            for name, read in reads.items()
            if read.gone is not None and name not in failed
        ]
        self._remember(
            [one for one in (*gone, *rows.values()) if one.cluster_id and self._is_news(one, save)]
        )
        self._tables.compact(self._views)
        return [
            Outcome(name, row.cluster_id, row.condition, row.message, records.get(name, 0))
            for name, row in ((name, rows[name]) for name in self._clusters)
        ]

    def _is_news(self, row: Remembered, save: bool) -> bool:
        before = self._known.get(row.cluster_id)
        if before is None or save:
            return before != row
        return replace(before, position=row.position) != row

    def _ask(self) -> dict[str, Found | str]:
        """The answer of each server, or a sentence why there is none."""
        anchors = {row.cluster_id: row.anchor for row in self._known.values()}
        views = [one.name for one in self._views]

        def one(name: str) -> Found | str:
            try:
                return ask(self._clusters[name], anchors, views)
            except (OSError, RuntimeError, ValueError) as error:
                return str(error)

        with ThreadPoolExecutor(min(32, len(self._clusters))) as pool:
            return dict(zip(self._clusters, pool.map(one, self._clusters), strict=True))

    def _plan(
        self, found: Mapping[str, Found | str]
    ) -> tuple[dict[str, Read], dict[str, Remembered]]:
        """The clusters that are to be read, and the rows of those that stop."""
        named = {
            row.name: row for row in self._known.values() if row.condition is not Condition.GONE
        }
        views = frozenset(one.name for one in self._views)
        answering = {one.cluster_id for one in found.values() if isinstance(one, Found)}
        reads: dict[str, Read] = {}
        stopped: dict[str, Remembered] = {}
        taken: dict[str, str] = {}
        for name, said in found.items():
            row = named.get(name, Remembered("", name))
            if isinstance(said, str):
                stopped[name] = replace(row, condition=Condition.UNREACHABLE, message=said)
            elif said.cluster_id in taken:
                stopped[name] = replace(
                    Remembered("", name),
                    condition=Condition.DUPLICATE,
                    message=f"{taken[said.cluster_id]} and {name} are one cluster,"
                    f" {said.cluster_id}: leave one of them out",
                )
            else:
                taken[said.cluster_id] = name
                before = None if row.cluster_id in answering or not row.cluster_id else row
                what = plan(
                    name, said, self._known.get(said.cluster_id), before, self._on_gap, views
                )
                if isinstance(what, Read):
                    reads[name] = what
                else:
                    stopped[name] = what.row
        return reads, stopped

    def _merge(self, reads: Mapping[str, Read]) -> tuple[dict[str, Count], dict[str, Remembered]]:
        """Read and merge. Return by cluster what was read, and by name the rows of clusters that
        could not be read.
        """
        wanted = {name: one for name, one in reads.items() if one.start < one.end}
        failed: dict[str, Remembered] = {}
        while wanted:
            try:
                batch = Batch(self._spark, self._tables, self._views, wanted, self._clusters)
            except BatchError as error:
                for name, said in error.failed.items():
                    failed[name] = self._failed(wanted.pop(name), said)
                continue
            try:
                if different := batch.not_the_same():
                    for name in different:
                        before = self._known[wanted.pop(name).row.cluster_id]
                        failed[name] = not_the_same(before)
                    continue
                batch.merge()
                return batch.counts, failed
            finally:
                batch.close()
        return {}, failed

    def _failed(self, read: Read, said: str) -> Remembered:
        before = self._known.get(read.row.cluster_id, read.row)
        return replace(before, condition=Condition.FAILED, message=said)

    def _remember(self, rows: Sequence[Remembered]) -> None:
        """Write rows of the table of clusters."""
        if not rows:
            return
        written = f"({sql.values(CLUSTERS_COLUMNS, [_values(row) for row in rows])})"
        names = [name for name, _ in CLUSTERS_COLUMNS]
        table = self._place.table(CLUSTERS)
        self._spark.sql(sql.merge_rows(table, written, names, [CLUSTER_ID[0]]))
        self._known |= {row.cluster_id: row for row in rows}


def _remembered(row: Any) -> Remembered:
    anchor = None
    if row.anchor_topic is not None:
        anchor = Anchor(row.anchor_topic, row.anchor_offset, row.anchor_timestamp_ms)
    return Remembered(
        row.cluster_id,
        row.name,
        row.generation,
        row.position,
        anchor,
        Condition(row.condition),
        row.message,
        frozenset(row.views.split(",")),
    )


def _values(row: Remembered) -> tuple[sql.Value, ...]:
    at = row.anchor
    return (
        row.cluster_id,
        row.name,
        row.generation,
        row.position,
        *((None, None, None) if at is None else (at.topic, at.offset, at.timestamp_ms)),
        str(row.condition),
        row.message,
        ",".join(sorted(row.views)),
        datetime.now(UTC),
    )
