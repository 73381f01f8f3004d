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

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame

from kwire.spark.frames import Mode
from kwire.spark.source.data_source import register
from kwire.spark.source.options import settings_of
from kwire.spark.source.server import ServerLog
from kwire.spark.table.bring import Task
from kwire.spark.table.builder import Builder
from kwire.spark.table.delivery import check_library
from kwire.spark.table.directory import cluster_of
from kwire.spark.table.follow import Noted, follow
from kwire.spark.table.pieces import processes
from kwire.spark.table.places import check_root
from kwire.spark.table.read import TABLES, read_table
from kwire.spark.table.several import bring_all
from kwire.spark.table.sources import Given, sources_of
from kwire.spark.table.store import Format, TablesError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["TABLES", "TablesError", "read_table", "tables"]

_AVAILABLE_NOW: Final = {"availableNow": True}
_NO_OPTIONS: Final[Mapping[str, str]] = {}


def tables(
    spark: SparkSession,
    source: DataFrame | str | Iterable[Given] | Mapping[str, Given],
    path: str,
    *,
    format: Format = "parquet",
    checkpoint: str | None = None,
    trigger: Mapping[str, Any] = _AVAILABLE_NOW,
    max_offsets_per_trigger: int = 100_000,
    mode: Mode = "PERMISSIVE",
    client: Mapping[str, str] = _NO_OPTIONS,
) -> StreamingQuery | None:
    """Build the tables at ``path``, or bring them up to date, from ``source``.

    ``source`` is a DataFrame with ``offset``, ``timestamp`` and ``value`` (``format("kafka")``, or
    ``format("kwire")`` with ``keep=value``; ``epoch`` and ``error`` are used if there), of every
    record type; or ``host:port,...`` of a server, or a directory with a copy of a log. From a
    stream or a server a query is returned, which keeps its ``checkpoint`` in ``path`` unless told
    otherwise, fires as ``trigger`` says (until the present end of the topic if left out), and takes
    at most ``max_offsets_per_trigger`` offsets of a server at once. From a batch or a directory the
    tables are complete on return. With ``format="delta"`` or ``"iceberg"`` each is a table of
    that format at ``path/NAME``.

    ``client``: options of the connection to a server that ``source`` names as text, such as
    ``kafka.security_protocol``.

    ``source`` can also be a list of servers and directories, or a mapping of names to them
    (:mod:`kwire.spark.table.several`). The tables are complete on return, or a query follows all of
    them if there is a ``trigger``. One that fails stops only its own tables.

    Records that cannot be read or do not fit go to the table ``errors``; with ``mode="FAILFAST"``
    they fail the query. Raises ValueError for a source or format that will not do, and TablesError
    for a directory that is not as it was left, or if all sources of a list fail.
    """
    _check(format, mode)
    fail_fast, checkpoint = mode == "FAILFAST", checkpoint or f"{path}/checkpoint"
    check_root(path, several=not isinstance(source, str | DataFrame))
    if not isinstance(source, str | DataFrame):
        tasks = [Task(one, path, format, fail_fast=fail_fast) for one in sources_of(source)]
        if dict(trigger) == _AVAILABLE_NOW:
            bring_all(spark, tasks)
            return None
        rows = follow(spark, tasks, max_offsets_per_trigger)
        return _started(rows, Noted(path), checkpoint, trigger)
    cluster = None
    if isinstance(source, str) and os.path.isdir(source):
        builder = Builder(path, format, fail_fast=fail_fast, cluster=cluster_of(source))
        builder.take_directory(source, processes())
        return None
    if isinstance(source, str):
        server = {"bootstrap.servers": source, **client}
        cluster = _cluster_at(server)
        source = _opened(spark, server, max_offsets_per_trigger)
    _check_columns(source.columns)
    builder = Builder(path, format, fail_fast=fail_fast, cluster=cluster)
    if not source.isStreaming:
        builder(source, 0)
        return None
    return _started(source, builder, checkpoint, trigger)


def _started(
    rows: DataFrame,
    each: Callable[[DataFrame, int], None],
    checkpoint: str,
    trigger: Mapping[str, Any],
) -> StreamingQuery:
    writer = rows.writeStream.foreachBatch(each).option("checkpointLocation", checkpoint)
    return writer.trigger(**dict(trigger)).start()


def _cluster_at(server: Mapping[str, str]) -> str | None:
    log = ServerLog(settings_of(server))
    try:
        return log.cluster_id() or None
    finally:
        log.close()


def _check_columns(columns: Iterable[str]) -> None:
    missing = {"offset", "timestamp", "value"} - set(columns)
    if missing:
        raise ValueError(
            f'the source has no column {", ".join(sorted(missing))}; format("kwire") gives value'
            " with keep=value"
        )


def _check(format: Format, mode: str) -> None:
    if format not in ("parquet", "delta", "iceberg"):
        raise ValueError(f"format is parquet, delta or iceberg, not {format!r}")
    if mode not in ("PERMISSIVE", "FAILFAST"):
        raise ValueError(f"mode is PERMISSIVE or FAILFAST, not {mode!r}")
    check_library(format)


def _opened(spark: SparkSession, server: Mapping[str, str], limit: int) -> DataFrame:
    """The topic of a server, as a stream."""
    register(spark)
    options = {
        **server,
        "startingOffsets": "earliest",
        "keep": "value",
        "maxOffsetsPerTrigger": str(limit),
    }
    return spark.readStream.format("kwire").options(**options).load()
