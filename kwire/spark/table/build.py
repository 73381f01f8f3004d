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
from kwire.spark.table.builder import Builder, OnGap
from kwire.spark.table.log import log_of
from kwire.spark.table.pieces import processes
from kwire.spark.table.places import FLEET
from kwire.spark.table.read import TABLES, read_table
from kwire.spark.table.store import TablesError

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
    source: DataFrame | str,
    path: str,
    *,
    checkpoint: str | None = None,
    on_gap: OnGap = "fail",
    mode: Mode = "PERMISSIVE",
    client: Mapping[str, str] = _NO_OPTIONS,
    format: str = "parquet",
) -> Built:
    """Build the tables of one log at ``path``, a directory, or bring them up to date. They are
    complete on return.

    ``source`` is ``host:port,...`` of a server, or a directory with a copy of a log, which this
    process reads; or a DataFrame with ``offset``, ``timestamp`` and ``value`` (``format("kafka")``,
    or ``format("kwire")`` with ``keep=value``; ``epoch`` and ``error`` are used if there), of every
    record type. A stream is read to its present end, and keeps its ``checkpoint`` in ``path``
    unless told otherwise.

    A log that does not reach back to the end of the tables raises DataLossError. With
    ``on_gap="resync"`` the tables go on from the snapshot that a server or a directory has in
    front of its log: what was deleted meanwhile is deleted.

    ``client``: options of the connection to a server that ``source`` names as text, such as
    ``kafka.security_protocol``.

    Records that cannot be read or do not fit go to the table ``errors``; with ``mode="FAILFAST"``
    they raise FoldError. Raises ValueError for a source, path or format that will not do,
    TablesError for a directory that is not as it was left, or a log that is another one than that
    of the tables; ServerError; FileNotFoundError.
    """
    builder = _builder(source, path, mode, on_gap, format)
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
    source: DataFrame | str,
    path: str,
    *,
    trigger: Mapping[str, Any] = _EACH_SECOND,
    checkpoint: str | None = None,
    on_gap: OnGap = "fail",
    mode: Mode = "PERMISSIVE",
    client: Mapping[str, str] = _NO_OPTIONS,
) -> StreamingQuery:
    """Keep the tables at ``path`` up to date as long as the query runs, which fires as ``trigger``
    says. ``source`` is a server or a stream; the rest is as in :func:`tables`, and a server is
    brought to its end before the query starts.
    """
    if os.path.isdir(source) if isinstance(source, str) else _is_batch(source):
        raise ValueError("only a server or a stream can be followed")
    builder = _builder(source, path, mode, on_gap)
    if not isinstance(source, str):
        return _started(source, builder, trigger, checkpoint or f"{path}/checkpoint")
    builder.bring(log_of(source, client), on_gap)
    news = _news(spark, source, client, builder.next_offset)
    return _started(news, lambda *_: builder.bring(log_of(source, client), on_gap), trigger)


def _is_batch(source: object) -> bool:
    return isinstance(source, DataFrame) and not source.isStreaming


def _builder(
    source: DataFrame | str, path: str, mode: str, on_gap: str, format: str = "parquet"
) -> Builder:
    """The state of the tables, after the arguments are checked. Raises ValueError."""
    if not isinstance(source, str | DataFrame):
        raise ValueError(f"these tables are of one log: several clusters are kept by {FLEET}")
    if format != "parquet":
        raise ValueError(f"these tables are Parquet files: {format} tables are kept by {FLEET}")
    if mode not in ("PERMISSIVE", "FAILFAST"):
        raise ValueError(f"mode is PERMISSIVE or FAILFAST, not {mode!r}")
    if on_gap not in ("fail", "resync"):
        raise ValueError(f"on_gap is fail or resync, not {on_gap!r}")
    if not isinstance(source, str):
        _check_frame(source, on_gap)
    return Builder(path, fail_fast=mode == "FAILFAST")


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
