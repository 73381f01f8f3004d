"""Reads the tables that ``build`` made: those of one cluster, or of several in one scan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from kwire.spark.table.arrow import SINCE, UNTIL, empty, spark_columns, table_columns
from kwire.spark.table.conditions import Conditions
from kwire.spark.table.delivery import check_library, delivered_rows
from kwire.spark.table.kinds import KINDS
from kwire.spark.table.names import APPENDED, NAMES
from kwire.spark.table.places import CLUSTER, cluster_path, clusters_at, is_of_several
from kwire.spark.table.store import Store

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

#: Names that :func:`read_table` takes.
TABLES: Final = NAMES
_COLUMN: Final = f"`{CLUSTER}` string"
#: Names the files of a table that a store has.
_Files = Callable[[Store], Iterable[str]]


def read_table(
    spark: SparkSession,
    path: str,
    name: str,
    *,
    history: bool = False,
    as_of: int | datetime | None = None,
) -> DataFrame:
    """One of ``TABLES`` as it is now: ``changes``, ``errors``, ``load``, or the current state of a
    kind, such as ``topics``. The first column is ``cluster_id``, null if it is not known.

    With ``history`` each row of a kind that ever was, with ``validToOffset`` and ``validToTime``,
    null for what still is. With ``as_of`` the rows of a kind as they were: after the record at that
    offset, or at that time (an aware datetime). The DataFrame is good for ten minutes after the
    tables go on; then ask again. Raises ValueError for an unknown name.
    """
    if name not in TABLES or (name in APPENDED and (history or as_of is not None)):
        raise ValueError(
            f"tables are {', '.join(TABLES)}; history and as_of are for those of a kind, not"
            f" {name!r}"
        )
    if isinstance(as_of, datetime) and as_of.tzinfo is None:
        raise ValueError(f"{as_of} has no time zone: give an aware datetime")
    tables = _Tables(spark, path)
    if name == "errors":
        return tables.errors()
    if name == "load":
        return _summed(tables.appended(name, table_columns(name)))
    if name in APPENDED:
        return tables.appended(name, table_columns(name))
    if not history and as_of is None:
        return tables.now(name)
    ever = tables.ever(name)
    return ever if as_of is None else _at(ever, as_of)


class _Tables:
    """The tables at a path, as they are now."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark, self._path = spark, path.rstrip("/")
        self._several = is_of_several(path)
        names = clusters_at(path) if self._several else [None]
        found = [(name, Store(cluster_path(path, name) if name else path)) for name in names]
        self._parquet = [one for one in found if one[1].manifest.kept == "parquet"]
        self._delivered = [one for one in found if one[1].manifest.kept != "parquet"]
        for _, store in self._delivered:
            check_library(store.manifest.kept)

    def appended(self, name: str, columns: Mapping[str, pa.DataType]) -> DataFrame:
        """Return the rows of a table that only grows; of a kind, those that have ended."""
        return self._all(columns, _appended(name), lambda rows: rows, name)

    def now(self, name: str) -> DataFrame:
        """Return the rows of a kind that are valid now."""
        return self._all(
            {**table_columns(name), **SINCE},
            _current(name),
            lambda rows: rows.where("validToOffset IS NULL").drop(*UNTIL),
            name,
        )

    def ever(self, name: str) -> DataFrame:
        """Return all rows of a kind, ended ones included."""
        columns = {**table_columns(name), **SINCE, **UNTIL}
        if self._delivered and not self._parquet:
            return self.appended(name, columns)
        was = self._scan(columns, _appended(name))
        now = self._scan({**table_columns(name), **SINCE}, _current(name))
        found = was.unionByName(now, allowMissingColumns=True)
        return found.unionByName(self._of_delivered(name)) if self._delivered else found

    def errors(self) -> DataFrame:
        """Return records that could not be read or do not fit, and what happened to sources."""
        rows = self.appended("errors", table_columns("errors"))
        rows = rows.withColumn("source", F.lit(None).cast("string"))
        rows = rows.select(CLUSTER, "source", *table_columns("errors"))
        if not self._several:
            return rows
        conditions = Conditions.read(self._path).table()
        return rows.unionByName(self._spark.createDataFrame(conditions))

    def _all(
        self,
        columns: Mapping[str, pa.DataType],
        files: _Files,
        of_delivered: Callable[[DataFrame], DataFrame],
        name: str,
    ) -> DataFrame:
        if not self._delivered:
            return self._scan(columns, files)
        rows = of_delivered(self._of_delivered(name))
        return rows.unionByName(self._scan(columns, files)) if self._parquet else rows

    def _of_delivered(self, name: str) -> DataFrame:
        return reduce(
            lambda one, other: one.unionByName(other),
            (
                _with_cluster(delivered_rows(self._spark, store, name), cluster, store)
                for cluster, store in self._delivered
            ),
        )

    def _scan(self, columns: Mapping[str, pa.DataType], files: _Files) -> DataFrame:
        """Read files of all clusters at once. Their directories give the column of clusters."""
        uris = [uri for _, store in self._parquet for uri in store.uris(files(store))]
        if not uris:
            rows = self._spark.createDataFrame(empty(columns))
            return rows.select(F.lit(None).cast("string").alias(CLUSTER), *rows.columns)
        if not self._several:
            rows = self._spark.read.schema(spark_columns(columns)).parquet(*uris)
            return _with_cluster(rows, *self._parquet[0])
        schema = f"{_COLUMN}, {spark_columns(columns)}"
        read = self._spark.read.schema(schema).option("basePath", self._path)
        return read.parquet(*uris).select(CLUSTER, *columns)


def _appended(name: str) -> _Files:
    """Files of a table that only grows; of a kind, those of the rows that have ended."""
    return lambda store: [file for file, _ in store.manifest.appended.get(name, [])]


def _current(name: str) -> _Files:
    """Files of the rows of a kind that are valid now."""
    entity = next(kind.entity for kind in KINDS if kind.table == name)
    return lambda store: store.manifest.current.get(entity, {}).values()


def _with_cluster(rows: DataFrame, name: str | None, store: Store) -> DataFrame:
    cluster = F.lit(name or store.manifest.cluster).cast("string")
    return rows.select(cluster.alias(CLUSTER), *rows.columns)


def _summed(load: DataFrame) -> DataFrame:
    return load.groupBy(CLUSTER, "minute", "type").agg(
        F.sum("records").alias("records"), F.sum("bytes").alias("bytes")
    )


def _at(ever: DataFrame, as_of: int | datetime) -> DataFrame:
    word, value = (
        ("Time", F.lit(as_of)) if isinstance(as_of, datetime) else ("Offset", F.lit(as_of))
    )
    since, until = F.col(f"validFrom{word}"), F.col(f"validTo{word}")
    return ever.where((since <= value) & (until.isNull() | (until > value))).drop(*UNTIL)
