"""Reads what is new of several clusters by Spark's own Kafka source, and merges it into the tables:
all clusters in one statement a table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kwire.cluster.view_records import CLUSTER_ID_HEADER, COMPLETE_HEADER
from kwire.spark.fleet import sql
from kwire.spark.fleet.plan import Anchor, Read
from kwire.spark.fleet.tables import Tables
from kwire.spark.fleet.views import View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Options = Mapping[str, str]
_THREADS: Final = 4
#: A batch reads to ends that are known, so nothing is waited for at the server: a consumer asks for
#: more ahead of its reader, and its next question would stand behind that wait, some hundred times.
_AT_ONCE: Final = {"kafka.fetch.max.wait.ms": "10"}
_RAW: Final = "kwire_raw"
_BEGUN: Final = "kwire_begun"
_BEGUN_COLUMNS: Final = (
    ("cluster_id", "STRING"),
    ("generation", "INT"),
    ("first", "BIGINT"),
    ("since", "TIMESTAMP"),
)
_ENDLESS: Final = 1 << 62
#: A header of a record as text.
_HEADER: Final = "CAST(get(filter(headers, h -> h.key = '{}'), 0).value AS STRING)"


@dataclass(frozen=True)
class Count:
    """The records of one cluster: by topic how many, the last one, and the time of the first."""

    records: Mapping[str, int]
    last: Anchor
    since: datetime
    wrong: str = ""  #: why they cannot be used


class BatchError(RuntimeError):
    """Clusters that could not be read: ``failed`` has a sentence for each, by name."""

    def __init__(self, failed: Mapping[str, str]) -> None:
        super().__init__("; ".join(failed.values()))
        self.failed = failed


class Batch:
    """The records of ``reads``, by the names of clusters; ``options`` has the connection of each.
    Of a cluster, ``counts`` has what was read, by its id. ``tables`` are those of the job.
    """

    def __init__(
        self,
        spark: SparkSession,
        tables: Tables,
        views: Sequence[View],
        reads: Mapping[str, Read],
        options: Mapping[str, Options],
    ) -> None:
        """Read. Raises BatchError if a cluster cannot be read."""
        self._spark, self._tables, self._views, self._reads = spark, tables, views, reads
        frames = {name: self._load(read, options[name]) for name, read in reads.items()}
        # Each topic of each cluster is a partition, most of a few rows, and every statement has a
        # task for each: as many as run at once are enough.
        together = reduce(DataFrame.unionByName, frames.values())
        self._rows = together.coalesce(spark.sparkContext.defaultParallelism).persist()
        try:
            self.counts = self._counted(self._rows)
        except Exception as error:
            self.close()
            failed = self._culprits(frames) or dict.fromkeys(reads, sentence(error))
            raise BatchError(failed) from None
        if wrong := {
            name: self.counts[read.row.cluster_id].wrong
            for name, read in reads.items()
            if read.row.cluster_id in self.counts and self.counts[read.row.cluster_id].wrong
        }:
            self.close()
            raise BatchError(wrong)

    def close(self) -> None:
        """Forget the records."""
        self._rows.unpersist()

    def merge(self) -> None:
        """Merge the records into the tables. Raises what Spark raises where a table fails."""
        self._make_views(self._reads)
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(self._merge, self._views))

    def not_the_same(self) -> list[str]:
        """The names of clusters that were to have the snapshot that the tables have, and do not."""
        asked = {name: read for name, read in self._reads.items() if read.only_if_same}
        if not asked:
            return []
        self._make_views(asked)
        different: set[str] = set()
        for view in self._views:
            if view.has_state:
                self._tables.make(view)
                news = sql.news(view, self._typed(view), self._table(view.tables[1]), _BEGUN)
                query = f"SELECT DISTINCT cluster_id FROM ({news}) WHERE origin <> 'change'"
                different |= {row.cluster_id for row in self._spark.sql(query).collect()}
        return [name for name, read in asked.items() if read.row.cluster_id in different]

    def _load(self, read: Read, options: Options) -> DataFrame:
        topics = [view.topic for view in self._views]
        source = self._spark.read.format("kafka").options(**{**_AT_ONCE, **options})
        source = source.option("assign", json.dumps({topic: [0] for topic in topics}))
        for name, offset in (("startingOffsets", read.start), ("endingOffsets", read.end)):
            source = source.option(name, json.dumps({topic: {"0": offset} for topic in topics}))
        rows = source.option("includeHeaders", "true").load()
        return rows.select(
            F.lit(read.row.cluster_id).alias("cluster_id"),
            F.lit(read.row.generation).alias("generation"),
            "topic",
            F.col("key").cast("string"),
            F.col("value").cast("string"),
            "offset",
            "timestamp",
            F.expr(_HEADER.format(CLUSTER_ID_HEADER)).alias("says"),
            F.expr(_HEADER.format(COMPLETE_HEADER)).alias("complete"),
        )

    def _counted(self, rows: DataFrame) -> dict[str, Count]:
        counted = (
            rows.groupBy("cluster_id", "topic")
            .agg(
                F.count("*").alias("records"),
                F.expr("max_by(struct(offset, timestamp), offset)").alias("last"),
                F.expr("min_by(timestamp, offset)").alias("since"),
                F.expr(f"count_if(complete IS NULL AND {sql.malformed(self._views)})").alias("bad"),
                F.expr("max_by(says, says <> cluster_id)").alias("says"),
            )
            .collect()
        )
        found: dict[str, list[Any]] = {}
        for row in counted:
            found.setdefault(row.cluster_id, []).append(row)
        return {cluster: _count(cluster, of) for cluster, of in found.items()}

    def _culprits(self, frames: Mapping[str, DataFrame]) -> dict[str, str]:
        """Which clusters cannot be read, and why: each is read alone."""
        failed = {}
        for name, frame in frames.items():
            try:
                self._counted(frame)
            except Exception as error:
                failed[name] = f"{name} cannot be read: {sentence(error)}"
        return failed

    def _make_views(self, reads: Mapping[str, Read]) -> None:
        """The temporary views of raw records and of clusters that are read anew."""
        ids = [read.row.cluster_id for read in reads.values()]
        of_entities = self._rows.where(self._rows.cluster_id.isin(ids)).where("complete IS NULL")
        of_entities.createOrReplaceTempView(_RAW)
        begun = [
            (
                one.row.cluster_id,
                one.row.generation,
                one.start,
                self._since_when(one.row.cluster_id),
            )
            for one in reads.values()
            if one.anew
        ]
        begun += [
            (one.gone.cluster_id, one.gone.generation, _past(one.gone.position), datetime.now(UTC))
            for one in reads.values()
            if one.gone is not None
        ]
        self._spark.sql(sql.view(_BEGUN, sql.values(_BEGUN_COLUMNS, begun)))

    def _typed(self, view: View) -> str:
        """The name of a temporary view with the records of ``view``."""
        return self._view(f"{view.name}_records", sql.records(view, _RAW))

    def _merge(self, view: View) -> None:
        since = self._since(view)
        if not since:
            return
        rows = self._typed(view)
        are_new = self._tables.make(view)
        history, *state = (self._table(name) for name in view.tables)
        if not are_new and (begun := self._begun()):
            if not state:
                query = sql.without_repeated(rows, self._repeating())
                rows = self._view(f"{view.name}_news", query)
            # To compare with the state costs several times the MERGE of a few rows.
            elif not self._spark.sql(sql.some_of(state[0], begun)).isEmpty():
                query = sql.news(view, rows, state[0], _BEGUN)
                rows = self._view(f"{view.name}_news", query)
        # Nothing can be there twice where nothing was: no MERGE has to look.
        insert = sql.insert(view, history, rows)
        self._spark.sql(insert if are_new else sql.merge_history(view, history, rows, since))
        if state:
            last = self._view(f"{view.name}_last", sql.last(view, rows))
            insert = sql.insert(view, state[0], last)
            self._spark.sql(
                insert if are_new else sql.merge_state(view, state[0], last, list(since))
            )
        self._tables.merged(view, since)

    def _view(self, name: str, query: str) -> str:
        """Make a temporary view of ``query``, and return its name."""
        self._spark.sql(sql.view(f"kwire_{name}", query))
        return f"kwire_{name}"

    def _since(self, view: View) -> dict[str, int]:
        """The clusters that the tables of ``view`` have news of, each with the lowest offset."""
        found = {}
        for read in self._reads.values():
            count = self.counts.get(read.row.cluster_id)
            if read.anew or (count is not None and view.topic in count.records):
                found[read.row.cluster_id] = read.start - 1
            if read.gone is not None:
                found[read.gone.cluster_id] = _past(read.gone.position) - 1
        return found

    def _begun(self) -> list[str]:
        """The clusters whose logs are read from the beginning, and those that are gone."""
        reads = self._reads.values()
        return [
            *(one.row.cluster_id for one in reads if one.anew),
            *(one.gone.cluster_id for one in reads if one.gone is not None),
        ]

    def _since_when(self, cluster: str) -> datetime:
        """The time of the first record of a cluster; now, if it has none."""
        count = self.counts.get(cluster)
        return datetime.now(UTC) if count is None else count.since

    def _repeating(self) -> list[str]:
        return [one.row.cluster_id for one in self._reads.values() if one.repeats]

    def _table(self, name: str) -> str:
        return self._tables.place.table(name)


def sentence(error: Exception) -> str:
    """Return what a failed job says, without its stack."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    told = (causes or lines or [type(error).__name__])[-1 if causes else 0]
    return told.removeprefix("Caused by: ")


def _count(cluster: str, rows: Sequence[Any]) -> Count:
    last = max(rows, key=lambda row: row.last.offset)
    bad = [f"{row.bad} of {row.topic}" for row in rows if row.bad]
    others = sorted({row.says for row in rows if row.says not in (None, cluster)})
    wrong = ""
    if others:
        wrong = (
            f"the server says that it is {cluster}, and its records that they are of {others[0]}"
        )
    elif bad:
        wrong = (
            f"records are not of the form of this kwire: {', '.join(sorted(bad))}; is"
            " metadata.views.schemas.enable=true at the server?"
        )
    return Count(
        {row.topic: row.records for row in rows},
        Anchor(last.topic, last.last.offset, round(last.last.timestamp.timestamp() * 1000)),
        min(rows, key=lambda row: row.since).since,
        wrong,
    )


def _past(position: int | None) -> int:
    """An offset behind all that was read."""
    return _ENDLESS if position is None else position
