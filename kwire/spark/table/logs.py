"""Reads a whole metadata log, of a server or of a directory, where it is folded. It knows no Spark.

A place in a log is the JSON of a checkpoint: the cluster, and the offset that comes next.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from kwire.spark.source.fetch import read_range
from kwire.spark.source.files import find_files, whole_batches
from kwire.spark.source.offsets import DataLossError, LogState, Position, loss_at
from kwire.spark.source.options import settings_of
from kwire.spark.source.server import ServerLog
from kwire.spark.table.directory import cluster_of, directory_rows, rows_of, start_of
from kwire.spark.table.rows import Row
from kwire.spark.table.sources import is_path

Place = dict[str, Any]


class DirectoryRows:
    """The records of a copy of a log directory, which must be there wherever they are read."""

    def __init__(self, path: str) -> None:
        self._path = path

    def end(self) -> Place:
        """The place behind the last record. Raises FileNotFoundError, OSError."""
        segments = find_files([self._path], "segments")
        return {"clusterId": cluster_of(self._path) or self._path, "offset": _end(segments[-1])}

    def check(self, since: Place) -> None:
        """Raise DataLossError if a reader that was at ``since`` cannot go on from there."""
        now = self.end()
        state = LogState(now["clusterId"], "", start_of(self._path), now["offset"])
        loss = loss_at(Position(since["clusterId"], "", -1, since["offset"]), state, lambda _: None)
        if loss is not None:
            raise DataLossError(f"{self._path}: {loss.sentence}")

    def rows(self, end: int) -> Iterator[list[Row]]:
        """The records below offset ``end``, those of the snapshot first where the log starts with
        one. Raises OSError and ValueError as :func:`directory_rows`.
        """
        for rows in directory_rows(self._path):
            yield rows if rows[-1].offset < end else [row for row in rows if row.offset < end]


class ServerRows:
    """The records of the topic at a server; ``options`` are those of ``format("kwire")``."""

    def __init__(self, bootstrap: str, options: Mapping[str, str]) -> None:
        """Raises ValueError for options that cannot be."""
        self._settings = settings_of({**options, "bootstrap.servers": bootstrap})
        self._name = bootstrap

    def end(self) -> Place:
        """The place behind the last record. Raises ServerError."""
        log = ServerLog(self._settings)
        try:
            state = log.state()
            place = log.position(state.end, state).to_json()
            return {**place, "clusterId": state.cluster_id or self._name}
        finally:
            log.close()

    def check(self, since: Place) -> None:
        """Raise DataLossError if a reader that was at ``since`` cannot go on from there, and
        ServerError.
        """
        log = ServerLog(self._settings)
        try:
            loss = loss_at(Position.of(since), log.state(), log.end_of_epoch)
        finally:
            log.close()
        if loss is not None:
            raise DataLossError(f"{self._name}: {loss.sentence}")

    def rows(self, end: int) -> Iterator[list[Row]]:
        """The records below offset ``end``, from the earliest one on. Raises ServerError,
        DataLossError.
        """
        log = ServerLog(self._settings)
        try:
            start = log.state().start
        finally:
            log.close()
        for records in read_range(self._settings, start, end):
            if len(records):
                yield rows_of(records)


def rows_at(source: str, options: Mapping[str, str]) -> DirectoryRows | ServerRows:
    """The log of ``source``: a directory, or ``host:port,...`` of a server."""
    return DirectoryRows(source) if is_path(source) else ServerRows(source, options)


def _end(segment: str) -> int:
    """The offset behind the last whole batch of a segment."""
    end = int(os.path.basename(segment)[:20])
    with open(segment, "rb") as file:
        for header in whole_batches(file):
            end = header.next_offset
    return end
