"""Reads the tables that ``build`` made."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from kwire.spark.table.arrow import SINCE, UNTIL, empty, spark_columns, table_columns
from kwire.spark.table.kinds import KINDS
from kwire.spark.table.layers import GONE, KEY, MARKS
from kwire.spark.table.names import APPENDED, NAMES
from kwire.spark.table.places import CLUSTER
from kwire.spark.table.store import MANIFEST, Store
from kwire.spark.words import or_guess

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

#: Names that :func:`read_table` takes.
TABLES: Final = NAMES


def read_table(
    spark: SparkSession,
    path: str,
    name: str,
    *,
    history: bool = False,
    as_of: int | datetime | str | None = None,
) -> DataFrame:
    """One of ``TABLES`` as it is now: ``changes``, ``errors``, ``load``, or the current state of a
    kind, such as ``topics``. The first column is ``cluster_id``, null if it is not known.

    With ``history`` each row of a kind that ever was, with ``validToOffset`` and ``validToTime``,
    null for what still is. With ``as_of`` the rows of a kind as they were: after the record at that
    offset, or at that time (an aware datetime, or ISO 8601 text with a zone). The DataFrame is good
    for ten minutes after the tables go on; then ask again. Raises ValueError for an unknown name or
    moment, FileNotFoundError where there are no tables, TablesError.
    """
    if name not in TABLES:
        raise ValueError(f"there is no table {name!r}{or_guess(name, TABLES)}")
    if name in APPENDED and (history or as_of is not None):
        raise ValueError(f"history and as_of are for the tables of entities, not for {name}")
    moment = None if as_of is None else _moment(as_of)
    store = Store(path)
    if not os.path.exists(f"{store.root}/{MANIFEST}"):
        raise FileNotFoundError(f"{path}: there are no tables; kwire.spark.tables builds them")
    tables = _Tables(spark, store)
    if name == "load":
        return _summed(tables.appended(name, table_columns(name)))
    if name in APPENDED:
        return tables.appended(name, table_columns(name))
    if not history and moment is None:
        return tables.now(name)
    ever = tables.ever(name)
    return ever if moment is None else _at(ever, moment)


class _Tables:
    """The tables of a store, as they are now."""

    def __init__(self, spark: SparkSession, store: Store) -> None:
        self._spark, self._store = spark, store

    def appended(self, name: str, columns: Mapping[str, pa.DataType]) -> DataFrame:
        """Return the rows of a table that only grows; of a kind, those that have ended."""
        return self._scan(
            columns, [file for file, _ in self._store.manifest.appended.get(name, [])]
        )

    def now(self, name: str) -> DataFrame:
        """Return the rows of a kind that are valid now."""
        entity = next(kind.entity for kind in KINDS if kind.table == name)
        layers = self._store.manifest.current.get(entity, [])
        columns, files = {**table_columns(name), **SINCE}, [layer.file for layer in layers]
        if not any(layer.marks for layer in layers):
            return self._scan(columns, files)
        rows = self._scan({**columns, **MARKS}, files)
        same = [KEY, next(iter(SINCE))]
        ended = F.broadcast(rows.where(GONE).select(*same))
        living = rows.where(f"{GONE} IS NULL").join(ended, same, "left_anti")
        return living.select(CLUSTER, *columns)

    def ever(self, name: str) -> DataFrame:
        """Return all rows of a kind, ended ones included."""
        was = self.appended(name, {**table_columns(name), **SINCE, **UNTIL})
        return was.unionByName(self.now(name), allowMissingColumns=True)

    def _scan(self, columns: Mapping[str, pa.DataType], files: Iterable[str]) -> DataFrame:
        paths = self._store.paths(files)
        if paths:
            rows = self._spark.read.schema(spark_columns(columns)).parquet(*paths)
        else:
            rows = self._spark.createDataFrame(empty(columns))
        cluster = F.lit(self._store.manifest.cluster).cast("string")
        return rows.select(cluster.alias(CLUSTER), *rows.columns)


def _summed(load: DataFrame) -> DataFrame:
    return load.groupBy(CLUSTER, "minute", "type").agg(
        F.sum("records").alias("records"), F.sum("bytes").alias("bytes")
    )


def _moment(as_of: int | datetime | str) -> int | datetime:
    """An offset, or a time with its zone. Raises ValueError."""
    found: object = as_of
    if isinstance(as_of, str):
        try:
            found = datetime.fromisoformat(as_of)
        except ValueError:
            found = None
    if type(found) is int:
        return found
    if isinstance(found, datetime) and found.tzinfo is not None:
        return found
    raise ValueError(
        "as_of is an offset, or a time with its zone, such as '2026-11-21T10:00:00Z', not"
        f" {as_of!r}"
    )


def _at(ever: DataFrame, as_of: int | datetime) -> DataFrame:
    word = "Time" if isinstance(as_of, datetime) else "Offset"
    since, until, value = F.col(f"validFrom{word}"), F.col(f"validTo{word}"), F.lit(as_of)
    return ever.where((since <= value) & (until.isNull() | (until > value))).drop(*UNTIL)
