"""A copy of a log directory as one DataFrame from its snapshot on, as ``kwire serve`` would serve it. Knows no tables."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kwire.spark.source import register
from kwire.spark.source_files import find_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def directory_rows(spark: SparkSession, path: str) -> DataFrame:
    """The records of a log directory with ``offset``, ``timestamp``, ``value``, ``epoch`` and ``error``.

    Where the log starts behind offset 0, the records of the oldest snapshot that it goes on from come first, at the offsets
    just below the snapshot's end. Raises FileNotFoundError where there is no segment, and ValueError where there is no such
    snapshot.
    """
    register(spark)
    segments = find_files([path], "segments")
    start = _offset(segments[0])
    log = spark.read.format("kwire").options(keep="value").load(segments).drop("data")
    if not start:
        return log
    snapshot = min((file for file in _snapshots(path) if _offset(file) >= start), key=_offset, default=None)
    if snapshot is None:
        raise ValueError(f"{path}: the log starts at offset {start}, and no snapshot that covers what was before is there")
    end = _offset(snapshot)
    state = spark.read.format("kwire").options(keep="value").load(snapshot).drop("data")
    count, last = state.agg(F.count("*"), F.max("offset")).head() or (0, -1)
    if not count:
        raise ValueError(f"{snapshot}: no records; take a whole copy")
    # A snapshot counts its own records, control records too: what counts is their order.
    return state.withColumn("offset", F.col("offset") - int(last) - 1 + end).unionByName(log.where(F.col("offset") >= end))


def _snapshots(path: str) -> list[str]:
    try:
        return find_files([path], "snapshots")
    except FileNotFoundError:
        return []


def _offset(file: str) -> int:
    return int(os.path.basename(file)[:20])
