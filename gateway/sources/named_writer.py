"""Snapshots of one directory that two write, each in a thread: the one a leader gives, and our own. One name, one writer."""

from __future__ import annotations

import threading
from collections.abc import Callable

from gateway.log.errors import LogError
from gateway.log.local_log import SnapshotWriter
from gateway.snapshot_id import SnapshotId


class SnapshotBusy(LogError):
    """The same snapshot is being written already; it can be tried again."""


class Names:
    """The snapshots that are being written, by anybody: two with the same name would be one file."""

    def __init__(self) -> None:
        self._taken: set[SnapshotId] = set()
        self._lock = threading.Lock()

    def take(self, name: SnapshotId) -> None:
        """Raises SnapshotBusy."""
        with self._lock:
            if name in self._taken:
                raise SnapshotBusy(f"{name.file_name} is being written already; it is tried again")
            self._taken.add(name)

    def give_back(self, name: SnapshotId) -> None:
        """Somebody else may write it now."""
        with self._lock:
            self._taken.remove(name)


class NamedWriter:
    """A ``SnapshotWriter`` whose name is nobody else's until it is complete or abandoned."""

    def __init__(self, names: Names, snapshot_id: SnapshotId, new_writer: Callable[[SnapshotId], SnapshotWriter]) -> None:
        """Raises SnapshotBusy, and what ``new_writer`` does."""
        names.take(snapshot_id)
        self.snapshot_id = snapshot_id
        self._names = names
        self._held = True
        try:
            self._writer = new_writer(snapshot_id)
        except BaseException:
            self._give_back()
            raise

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._writer.size

    def write(self, position: int, data: bytes | memoryview) -> None:
        """As ``SnapshotWriter.write``."""
        self._writer.write(position, data)

    def freeze(self) -> None:
        """As ``SnapshotWriter.freeze``; what fails must be abandoned."""
        self._writer.freeze()
        self._give_back()

    def abandon(self) -> None:
        """As ``SnapshotWriter.abandon``; after ``freeze`` and a second time the name may be somebody else's, and is let alone."""
        if self._held:
            try:
                self._writer.abandon()
            finally:
                self._give_back()

    def _give_back(self) -> None:
        self._held = False
        self._names.give_back(self.snapshot_id)
