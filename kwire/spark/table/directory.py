"""Reads a copy of a log directory as one DataFrame from its snapshot on, as ``kwire serve`` would
serve it. It knows no tables.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kwire.records import BATCH_OVERHEAD, read_header
from kwire.spark.source.data_source import register
from kwire.spark.source.files import find_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def directory_rows(spark: SparkSession, path: str, since: int = 0) -> DataFrame:
    """The records of a log directory from offset ``since`` on, and their ``timestamp``, ``value``,
    ``epoch``, ``error``.

    If the log starts after that offset, the records of the oldest snapshot that the log continues
    come first, at the offsets just below the snapshot's end, as in ``kwire serve``. Raises
    FileNotFoundError where there is no segment, and ValueError where there is no such snapshot, or
    its records do not fit between ``since`` and the log.
    """
    register(spark)
    segments = find_files([path], "segments")
    start = _offset(segments[0])
    log = spark.read.format("kwire").options(keep="value").load(segments).drop("data")
    if start <= since:
        return log.where(F.col("offset").isNull() | (F.col("offset") >= since))
    snapshot = min(
        (file for file in _snapshots(path) if _offset(file) >= start), key=_offset, default=None
    )
    if snapshot is None:
        raise ValueError(
            f"{path}: the log starts at offset {start}, and no snapshot that covers what was before"
            " is there"
        )
    end = _offset(snapshot)
    first = end - _next_offset(snapshot)
    if first < since:
        raise ValueError(
            f"{path}: the log starts at offset {start}, and {since} is wanted; build the tables"
            " anew"
        )
    state = spark.read.format("kwire").options(keep="value").load(snapshot).drop("data")
    # A snapshot counts its own records.
    return state.withColumn("offset", F.col("offset") + first).unionByName(
        log.where(F.col("offset").isNull() | (F.col("offset") >= end))
    )


def _next_offset(snapshot: str) -> int:
    """The offset after the last record of a snapshot, control records included. Raises DecodeError,
    OSError.
    """
    found = at = 0
    with open(snapshot, "rb") as file:
        while head := file.read(BATCH_OVERHEAD):
            header = read_header(head)
            found, at = header.next_offset, at + header.size
            file.seek(at)
    return found


def _snapshots(path: str) -> list[str]:
    try:
        return find_files([path], "snapshots")
    except FileNotFoundError:
        return []


def _offset(file: str) -> int:
    return int(os.path.basename(file)[:20])
