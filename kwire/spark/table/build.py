"""Builds tables of the metadata topic: every change, the current state of each kind of entity, and
its history.

    from kwire.spark import read_table, tables
    tables(spark, "localhost:9092", "/data/metadata")
    read_table(spark, "/data/metadata", "topics").show()

The fold runs on the driver, in offset order: the topic has one partition, and the meaning of a
record depends on those before it. Each commit counts once, whichever process is killed at any
moment (``store``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame

from kwire.spark.frames import Mode
from kwire.spark.source.data_source import register
from kwire.spark.source.offsets import DataLossError
from kwire.spark.table.bring import Task
from kwire.spark.table.builder import Builder, OnGap
from kwire.spark.table.delivery import check_library
from kwire.spark.table.follow import Noted
from kwire.spark.table.follow import follow as follow_all
from kwire.spark.table.log import log_of
from kwire.spark.table.pieces import processes
from kwire.spark.table.places import check_root
from kwire.spark.table.read import TABLES, read_table
from kwire.spark.table.several import bring_all
from kwire.spark.table.sources import Given, sources_of
from kwire.spark.table.store import Format, TablesError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["TABLES", "Built", "DataLossError", "TablesError", "follow", "read_table", "tables"]

_EACH_SECOND: Final = {"processingTime": "1 second"}
_NO_OPTIONS: Final[Mapping[str, str]] = {}


@dataclass(frozen=True)
class Built:
    """The result of a run. The tables at ``path`` are those of the cluster ``cluster_id``, None if
    it is not known, before offset ``next_offset``; ``since`` is where they ended before. ``rows``
    counts the rows that were added to each of the tables that only grow: ``changes``, and
    ``errors`` for records that were ignored.
    """

    path: str
    cluster_id: str | None
    since: int
    next_offset: int
    rows: Mapping[str, int]


def tables(
    spark: SparkSession,
    source: DataFrame | str | Iterable[Given] | Mapping[str, Given],
    path: str,
    *,
    format: Format = "parquet",
    checkpoint: str | None = None,
    on_gap: OnGap = "fail",
    mode: Mode = "PERMISSIVE",
    client: Mapping[str, str] = _NO_OPTIONS,
) -> Built | None:
    """Build the tables at ``path``, or bring them up to date. They are complete on return.

    ``source`` is ``host:port,...`` of a server, or a directory with a copy of a log, which this
    process reads; or a DataFrame with ``offset``, ``timestamp`` and ``value`` (``format("kafka")``,
    or ``format("kwire")`` with ``keep=value``; ``epoch`` and ``error`` are used if there), of every
    record type. A stream is read to its present end, and keeps its ``checkpoint`` in ``path``
    unless told otherwise. With ``format="delta"`` or ``"iceberg"`` each is a table of that format
    at ``path/NAME``.

    A log that does not reach back to the end of the tables raises DataLossError. With
    ``on_gap="resync"`` the tables go on from the snapshot that a server or a directory has in
    front of its log: what was deleted meanwhile is deleted.

    ``client``: options of the connection to a server that ``source`` names as text, such as
    ``kafka.security_protocol``.

    ``source`` can also be a list of servers and directories, or a mapping of names to them
    (:mod:`kwire.spark.table.several`), with None as the result. One that fails stops only its own
    tables.

    Records that cannot be read or do not fit go to the table ``errors``; with ``mode="FAILFAST"``
    they raise FoldError. Raises ValueError for a source or format that will not do, TablesError for
    a directory that is not as it was left, a log that is another one than that of the tables, or if
    all sources of a list fail; ServerError; FileNotFoundError.
    """
    _check(format, mode, on_gap)
    fail_fast = mode == "FAILFAST"
    if not isinstance(source, str | DataFrame):
        check_root(path, several=True)
        bring_all(
            spark, [Task(one, path, format, fail_fast=fail_fast) for one in sources_of(source)]
        )
        return None
    builder = _builder(source, path, format, fail_fast, on_gap)
    since = builder.next_offset
    if isinstance(source, str):
        builder.bring(log_of(source, client), on_gap, processes())
    elif source.isStreaming:
        where = checkpoint or f"{path}/checkpoint"
        _started(source, builder, {"availableNow": True}, where).awaitTermination()
    else:
        builder(source, 0)
    return Built(path, builder.cluster, since, builder.next_offset, dict(builder.rows))


def follow(
    spark: SparkSession,
    source: DataFrame | str | Iterable[Given] | Mapping[str, Given],
    path: str,
    *,
    trigger: Mapping[str, Any] = _EACH_SECOND,
    format: Format = "parquet",
    checkpoint: str | None = None,
    on_gap: OnGap = "fail",
    mode: Mode = "PERMISSIVE",
    client: Mapping[str, str] = _NO_OPTIONS,
    max_offsets_per_trigger: int = 100_000,
) -> StreamingQuery:
    """Keep the tables at ``path`` up to date as long as the query runs, which fires as ``trigger``
    says. ``source`` is a server or a stream; the rest is as in :func:`tables`, and a server is
    brought to its end before the query starts. ``max_offsets_per_trigger`` is for a list of
    sources.
    """
    _check(format, mode, on_gap)
    fail_fast, where = mode == "FAILFAST", checkpoint or f"{path}/checkpoint"
    if not isinstance(source, str | DataFrame):
        check_root(path, several=True)
        tasks = [Task(one, path, format, fail_fast=fail_fast) for one in sources_of(source)]
        rows = follow_all(spark, tasks, max_offsets_per_trigger)
        return _started(rows, Noted(path), trigger, where)
    if os.path.isdir(source) if isinstance(source, str) else not source.isStreaming:
        raise ValueError("only a server or a stream can be followed")
    builder = _builder(source, path, format, fail_fast, on_gap)
    if not isinstance(source, str):
        return _started(source, builder, trigger, where)
    builder.bring(log_of(source, client), on_gap)
    news = _news(spark, source, client, builder.next_offset)
    return _started(news, lambda *_: builder.bring(log_of(source, client), on_gap), trigger)


def _builder(
    source: DataFrame | str, path: str, format: Format, fail_fast: bool, on_gap: OnGap
) -> Builder:
    check_root(path, several=False)
    if not isinstance(source, str):
        _check_frame(source, on_gap)
    return Builder(path, format, fail_fast=fail_fast, gap_fails=True)


def _started(
    rows: DataFrame,
    each: Callable[[DataFrame, int], None],
    trigger: Mapping[str, Any],
    checkpoint: str | None = None,
) -> StreamingQuery:
    """A query with ``each`` for each micro-batch. Without a checkpoint Spark keeps one as long as
    the query runs.
    """
    writer = rows.writeStream.foreachBatch(each)
    if checkpoint is not None:
        writer = writer.option("checkpointLocation", checkpoint)
    return writer.trigger(**dict(trigger)).start()


def _news(spark: SparkSession, server: str, client: Mapping[str, str], since: int) -> DataFrame:
    """A stream that has a micro-batch when a server has records. No job reads it: the position is
    that of the tables, and :meth:`Builder.bring` checks more than a stream can.
    """
    register(spark)
    options = {"startingOffsets": str(since), "failOnDataLoss": "false"}
    stream = spark.readStream.format("kwire").options(**client).options(**options)
    return stream.option("bootstrap.servers", server).load()


def _check_frame(source: DataFrame, on_gap: str) -> None:
    _check_columns(source.columns)
    if on_gap != "fail":
        raise ValueError(
            'on_gap="resync" needs a server or a directory as the source: a DataFrame does not tell'
            " the records of a snapshot from others"
        )


def _check_columns(columns: Iterable[str]) -> None:
    missing = {"offset", "timestamp", "value"} - set(columns)
    if missing:
        raise ValueError(
            f'the source has no column {", ".join(sorted(missing))}; format("kwire") gives value'
            " with keep=value"
        )


def _check(format: Format, mode: str, on_gap: str) -> None:
    if format not in ("parquet", "delta", "iceberg"):
        raise ValueError(f"format is parquet, delta or iceberg, not {format!r}")
    if mode not in ("PERMISSIVE", "FAILFAST"):
        raise ValueError(f"mode is PERMISSIVE or FAILFAST, not {mode!r}")
    if on_gap not in ("fail", "resync"):
        raise ValueError(f"on_gap is fail or resync, not {on_gap!r}")
    check_library(format)
