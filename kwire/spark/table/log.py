"""Reads one metadata log for the tables: a directory with a copy of it, or the topic at a server.
It knows neither Spark nor the tables.

Both may begin with the records of a snapshot: ``kwire serve`` puts them in front of its log, at
offsets that other records had. A reader that stopped before their end has missed records.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from typing import Final, Protocol

from kwire.spark.source.fetch import read_range, snapshot_end
from kwire.spark.source.offsets import DataLossError
from kwire.spark.source.options import Settings, settings_of
from kwire.spark.source.server import ServerLog
from kwire.spark.table.directory import cluster_of, covering, directory_rows, rows_of, start_of
from kwire.spark.table.rows import Row

OFFSET_MAX: Final = (1 << 63) - 1
#: A server that is not there is told after this time (ms), unless the options give another.
_CLIENT: Final = {"kafka.bootstrap_timeout_ms": "2000"}


class Log(Protocol):
    """A log as it was when it was opened: its first offset, and the id of its cluster, None if that
    is not known.
    """

    name: str
    start: int
    cluster_id: str | None

    def whole_from(self) -> int:
        """From this offset on the log has every record."""
        ...

    def snapshot_end(self) -> int | None:
        """The offset behind the snapshot that the log begins with, None if there is none."""
        ...

    def rows(self, since: int, until: int = OFFSET_MAX) -> Generator[list[Row], None, None]:
        """The records with ``since`` <= offset < ``until``, maybe some behind these, some thousands
        at a time. Those of the snapshot are first if the log begins behind ``since``.
        """
        ...


class DirectoryLog:
    """The copy of a log directory. ``start`` is that of its first segment."""

    def __init__(self, path: str) -> None:
        """Raises FileNotFoundError where there is no segment."""
        self.name = path
        self.start, self.cluster_id = start_of(path), cluster_of(path)

    def whole_from(self) -> int:
        """As :meth:`Log.whole_from`."""
        return self.start

    def snapshot_end(self) -> int | None:
        """The offset behind the oldest snapshot that the segments continue."""
        return covering(self.name, self.start)

    def rows(self, since: int, until: int = OFFSET_MAX) -> Generator[list[Row], None, None]:
        """As :meth:`Log.rows`. Raises ValueError where the snapshot is not there, OSError."""
        for rows in directory_rows(self.name, 0 if since < self.start else since):
            yield rows
            if rows[-1].offset >= until:
                break


class ServedLog:
    """The topic at ``host:port,...``. ``start`` is that of the snapshot in front of the log, if the
    server puts one there.
    """

    def __init__(self, name: str, client: Mapping[str, str]) -> None:
        """``client``: options of the connection. Raises ValueError for those that cannot be, and
        ServerError.
        """
        given = {one.lower() for one in client}
        defaults = {one: value for one, value in _CLIENT.items() if one not in given}
        self._settings: Settings = settings_of({**defaults, **client, "bootstrap.servers": name})
        self.name = name
        self.start, self._end, self.cluster_id = self._state()

    def whole_from(self) -> int:
        """As :meth:`Log.whole_from`. Raises ServerError."""
        return self.snapshot_end() or self.start

    def snapshot_end(self) -> int | None:
        """As :meth:`Log.snapshot_end`. Raises ServerError."""
        return snapshot_end(self._settings, self.start) if 0 < self.start < self._end else None

    def rows(self, since: int, until: int = OFFSET_MAX) -> Generator[list[Row], None, None]:
        """As :meth:`Log.rows`, up to the end that the log had. Raises ServerError, and
        DataLossError if the log's start moves past the position of the reader meanwhile.
        """
        since = max(since, self.start)
        for columns in read_range(self._settings, since, min(until, self._end)):
            if len(columns):
                yield rows_of(columns)
        start = self._state()[0]
        end = snapshot_end(self._settings, start) if start > self.start else None
        if end is not None and since < end:
            raise DataLossError(
                f"{self.name}: the log began to start at offset {start} while records from {since}"
                " on were read; run it again"
            )

    def _state(self) -> tuple[int, int, str | None]:
        log = ServerLog(self._settings)
        try:
            state = log.state()
        finally:
            log.close()
        return state.start, state.end, state.cluster_id or None


def log_of(source: str, client: Mapping[str, str]) -> DirectoryLog | ServedLog:
    """The log of a directory, or of ``host:port,...``."""
    return DirectoryLog(source) if os.path.isdir(source) else ServedLog(source, client)
