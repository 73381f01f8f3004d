"""Builds tables of the metadata topic: every change, the current state of each kind of entity, and
its history.

    from kwire.spark import read_table, tables
    tables(spark, "localhost:9092", "/data/metadata").awaitTermination()
    read_table(spark, "/data/metadata", "topics").show()

The fold runs on the driver, in offset order: the topic has one partition, and the meaning of a
record depends on those before it. Each commit counts once, whichever process is killed at any
moment (``store``).
"""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Final

from kwire.spark.frames import Mode
from kwire.spark.source.data_source import register
from kwire.spark.table.arrow import SINCE, UNTIL, empty, spark_columns, table_columns
from kwire.spark.table.delta import Delivery, check_delta, delta_rows
from kwire.spark.table.directory import directory_rows
from kwire.spark.table.fold import Fold
from kwire.spark.table.kinds import KINDS
from kwire.spark.table.rows import Folded, Row
from kwire.spark.table.store import Format, Store, TablesError

try:
    from pyspark.sql import functions as F
except ImportError as error:  # pragma: no cover - the extra is installed wherever the tests run
    raise ImportError("kwire.spark needs PySpark: pip install 'kwire[spark]'") from error

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["TABLES", "TablesError", "read_table", "tables"]

#: Names that :func:`read_table` takes.
TABLES: Final = ("changes", "errors", "load", *(kind.table for kind in KINDS))
_ONLY_APPENDED: Final = ("changes", "errors", "load")
#: So many changes of a batch are written together: some 100 MB.
_CHANGES_AT_ONCE: Final = 100_000
_ROWS_AT_ONCE: Final = 20_000
_AVAILABLE_NOW: Final = {"availableNow": True}


def tables(
    spark: SparkSession,
    source: DataFrame | str,
    path: str,
    *,
    format: Format = "parquet",
    checkpoint: str | None = None,
    trigger: Mapping[str, Any] = _AVAILABLE_NOW,
    max_offsets_per_trigger: int = 100_000,
    mode: Mode = "PERMISSIVE",
) -> StreamingQuery | None:
    """Build the tables at ``path``, or bring them up to date, from ``source``.

    ``source`` is a DataFrame with ``offset``, ``timestamp`` and ``value`` (``format("kafka")``, or
    ``format("kwire")`` with ``keep=value``; ``epoch`` and ``error`` are used if there), of every
    record type; or ``host:port,...`` of a server, or a directory with a copy of a log. From a
    stream or a server a query is started and returned, which keeps its ``checkpoint`` in ``path``
    unless told otherwise, fires as ``trigger`` says (DataStreamWriter.trigger; until the present
    end of the topic if left out), and, from a server, takes at most ``max_offsets_per_trigger``
    offsets at once. From a batch or a directory the tables are complete on return. With
    ``format="delta"`` each is a Delta table at ``path/NAME``, which any PySpark writes, without
    jars (:mod:`kwire.spark.table.delta`).

    Records that cannot be read or do not fit go to the table ``errors``; with ``mode="FAILFAST"``
    they fail the query. Raises ValueError for a source or format that will not do, and TablesError
    for a directory that is not as it was left.
    """
    _check(format, mode)
    builder = _Builder(path, format, fail_fast=mode == "FAILFAST")
    if isinstance(source, str):
        if os.path.isdir(source):
            builder.take(directory_rows(source, builder.next_offset))
            return None
        source = _opened(spark, source, max_offsets_per_trigger)
    missing = {"offset", "timestamp", "value"} - set(source.columns)
    if missing:
        raise ValueError(
            f'the source has no column {", ".join(sorted(missing))}; format("kwire") gives value'
            " with keep=value"
        )
    if not source.isStreaming:
        builder(source, 0)
        return None
    writer = source.writeStream.foreachBatch(builder).option(
        "checkpointLocation", checkpoint or f"{path}/checkpoint"
    )
    return writer.trigger(**dict(trigger)).start()


def read_table(
    spark: SparkSession,
    path: str,
    name: str,
    *,
    history: bool = False,
    as_of: int | datetime | None = None,
) -> DataFrame:
    """One of ``TABLES`` as it is now: ``changes``, ``errors``, ``load``, or the current state of a
    kind, such as ``topics``.

    With ``history`` each row of a kind that ever was, with ``validToOffset`` and ``validToTime``,
    null for what still is. With ``as_of`` the rows of a kind as they were: after the record at that
    offset, or at that time (an aware datetime). The DataFrame is good for ten minutes after the
    tables go on; then ask again. Raises ValueError for an unknown name.
    """
    if name not in TABLES or (name in _ONLY_APPENDED and (history or as_of is not None)):
        raise ValueError(
            f"tables are {', '.join(TABLES)}; history and as_of are for those of a kind, not"
            f" {name!r}"
        )
    if isinstance(as_of, datetime) and as_of.tzinfo is None:
        raise ValueError(f"{as_of} has no time zone: give an aware datetime")
    store = Store(path)
    if store.manifest.kept == "delta":
        check_delta()
    if name in _ONLY_APPENDED:
        rows = _appended(spark, store, name, table_columns(name))
        return (
            rows.groupBy("minute", "type").agg(
                F.sum("records").alias("records"), F.sum("bytes").alias("bytes")
            )
            if name == "load"
            else rows
        )
    if not history and as_of is None:
        return _now(spark, store, name)
    ever = _ever(spark, store, name)
    return ever if as_of is None else _at(ever, as_of)


def _now(spark: SparkSession, store: Store, name: str) -> DataFrame:
    """Return the rows of a kind that are valid now."""
    if store.manifest.kept == "delta":
        return delta_rows(spark, store, name).where("validToOffset IS NULL").drop(*UNTIL)
    entity = next(kind.entity for kind in KINDS if kind.table == name)
    files = store.manifest.current.get(entity, {}).values()
    return _read(spark, store, files, {**table_columns(name), **SINCE})


def _ever(spark: SparkSession, store: Store, name: str) -> DataFrame:
    """Return all rows of a kind, ended ones included."""
    if store.manifest.kept == "delta":
        return delta_rows(spark, store, name)
    was = _appended(spark, store, name, {**table_columns(name), **SINCE, **UNTIL})
    return was.unionByName(_now(spark, store, name), allowMissingColumns=True)


def _appended(
    spark: SparkSession, store: Store, name: str, columns: Mapping[str, pa.DataType]
) -> DataFrame:
    if store.manifest.kept == "delta":
        return delta_rows(spark, store, name)
    return _read(spark, store, [file for file, _ in store.manifest.appended.get(name, [])], columns)


def _at(ever: DataFrame, as_of: int | datetime) -> DataFrame:
    word, value = (
        ("Time", F.lit(as_of)) if isinstance(as_of, datetime) else ("Offset", F.lit(as_of))
    )
    since, until = F.col(f"validFrom{word}"), F.col(f"validTo{word}")
    return ever.where((since <= value) & (until.isNull() | (until > value))).drop(*UNTIL)


def _read(
    spark: SparkSession, store: Store, files: Any, columns: Mapping[str, pa.DataType]
) -> DataFrame:
    uris = store.uris(files)
    if not uris:
        return spark.createDataFrame(empty(columns))
    return spark.read.schema(spark_columns(columns)).parquet(*uris)


def _check(format: str, mode: str) -> None:
    if format not in ("parquet", "delta"):
        raise ValueError(f"format is parquet or delta, not {format!r}")
    if mode not in ("PERMISSIVE", "FAILFAST"):
        raise ValueError(f"mode is PERMISSIVE or FAILFAST, not {mode!r}")
    if format == "delta":
        check_delta()


def _opened(spark: SparkSession, source: str, limit: int) -> DataFrame:
    """The topic of the server at an address, as a stream."""
    register(spark)
    options = {
        "bootstrap.servers": source,
        "startingOffsets": "earliest",
        "keep": "value",
        "maxOffsetsPerTrigger": str(limit),
    }
    return spark.readStream.format("kwire").options(**options).load()


class _Builder:
    """The function of foreachBatch. A micro-batch that runs again adds nothing twice."""

    def __init__(self, path: str, format: Format, *, fail_fast: bool) -> None:
        self._store = Store(path, format)
        self._fold = Fold(self._store.load(), fail_fast=fail_fast)
        self._delivery = Delivery(self._store) if format == "delta" else None

    @property
    def next_offset(self) -> int:
        """The tables hold every record below this offset."""
        return self._fold.state.next_offset

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        also = [name for name in ("epoch", "error") if name in batch.columns]
        new = F.col("offset").isNull() | (F.col("offset") >= self.next_offset)
        read = batch.where(new).select("offset", "timestamp", "value", *also).toArrow()
        self.take(_rows(read.sort_by("offset")))

    def take(self, parts: Iterable[Sequence[Row]]) -> None:
        """Fold rows in offset order, and commit them at once. Rows without an offset, which are
        unreadable places of a file, count as errors behind the others.
        """
        with _without_collector():
            self._take(parts)

    def _take(self, parts: Iterable[Sequence[Row]]) -> None:
        lost: list[Row] = []
        before = self.next_offset
        for rows, ahead in pairwise(chain(parts, [()])):
            lost += [row for row in rows if row.offset < 0]
            self._fold.take(rows, ahead)
            if len(self._fold.folded.changes) >= _CHANGES_AT_ONCE:
                self._store.add(self._fold.folded)
                self._fold.folded = Folded()
        if self.next_offset > before:
            for row in lost:
                self._fold.lost(row._replace(offset=self.next_offset))
            self._store.commit(self._fold.state, self._fold.folded)
            self._fold.folded = Folded()
            if self._delivery is not None:
                self._delivery.deliver()


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Pause the garbage collector: the fold makes no cycles, and many objects that stay, which the
    collector would visit again and again.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _rows(read: pa.Table) -> Iterator[list[Row]]:
    """Yield the rows of ``read``, some thousands at a time."""
    import pyarrow as pa

    for batch in read.combine_chunks().to_batches(max_chunksize=_ROWS_AT_ONCE):
        times = batch.column("timestamp").cast(pa.timestamp("ms", tz="UTC"), safe=False)
        columns = {
            name: batch.column(name).to_pylist()
            for name in batch.schema.names
            if name != "timestamp"
        }
        epochs, errors = (
            columns.get(name) or [None] * batch.num_rows for name in ("epoch", "error")
        )
        # The value says itself whether it can be read; without one the source knows why.
        yield [
            Row(
                -1 if offset is None else offset,
                time or 0,
                value,
                epoch,
                error if value is None else None,
            )
            for offset, time, value, epoch, error in zip(
                columns["offset"],
                times.cast(pa.int64()).to_pylist(),
                columns["value"],
                epochs,
                errors,
                strict=True,
            )
        ]
