"""Gives each snapshot name one writer: the download from a leader, or this node's own snapshots.

Both write to the same directory, each in a thread, and the same name would be the same ``.part``
file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from gateway.log.files.errors import LogError
from gateway.log.metadata.local_log import SnapshotWriter
from kwire.metadata_log.snapshot_id import SnapshotId


class SnapshotBusy(LogError):
    """The same snapshot is being written already; the caller can try again."""


class SnapshotLocks:
    """The names of the snapshots that are being written."""

    def __init__(self) -> None:
        self._taken: set[SnapshotId] = set()
        self._lock = threading.Lock()

    def take(self, name: SnapshotId) -> None:
        """Reserve a name. Raises SnapshotBusy."""
        with self._lock:
            if name in self._taken:
                raise SnapshotBusy(f"{name.file_name} is being written already; it is tried again")
            self._taken.add(name)

    def give_back(self, name: SnapshotId) -> None:
        """Release a name."""
        with self._lock:
            self._taken.remove(name)


class LockedSnapshotWriter:
    """A ``SnapshotWriter`` that holds its name until the snapshot is complete or abandoned."""

    def __init__(
        self,
        names: SnapshotLocks,
        snapshot_id: SnapshotId,
        new_writer: Callable[[SnapshotId], SnapshotWriter],
    ) -> None:
        """Reserve the name and begin. Raises SnapshotBusy, and what ``new_writer`` raises."""
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
        """As ``SnapshotWriter.freeze``; after a failure the caller must abandon it."""
        self._writer.freeze()
        self._give_back()

    def abandon(self) -> None:
        """As ``SnapshotWriter.abandon``. Does nothing once the name was released, because another
        writer may hold it.
        """
        if self._held:
            try:
                self._writer.abandon()
            finally:
                self._give_back()

    def _give_back(self) -> None:
        self._held = False
        self._names.give_back(self.snapshot_id)
