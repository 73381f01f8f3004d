"""Has a partition wait for its directory until the one before it there is deleted: a topic may be
made again under its name, and a replica may come back, while the old directory is still removed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.sources.data_partition import DataPartition


class DirectoryTurns:
    """The partitions that leave their directories, and those that wait for them."""

    def __init__(self) -> None:
        self._leaving: dict[Path, list[DataPartition]] = {}
        self._left: dict[DataPartition, Path] = {}
        self._waiting: dict[Path, dict[DataPartition, None]] = {}

    def leave(self, partition: DataPartition) -> None:
        """The partition is being deleted."""
        # Noted here: a move that has begun may end before the partition leaves.
        self._left[partition] = partition.directory
        self._leaving.setdefault(partition.directory, []).append(partition)

    def must_wait(self, partition: DataPartition) -> bool:
        """Whether another one has to leave the directory first; :meth:`done` then returns this
        one.
        """
        leaving = self._leaving.get(partition.directory)
        if not leaving or leaving[0] is partition:
            return False
        self._waiting.setdefault(partition.directory, {})[partition] = None
        return True

    def done(self, partition: DataPartition) -> list[DataPartition]:
        """The jobs of a partition were performed; return those that need not wait any more."""
        directory = self._left.get(partition, partition.directory)
        leaving = self._leaving.get(directory)
        if not leaving or leaving[0] is not partition or partition.has_jobs:
            return []
        del leaving[0], self._left[partition]
        if not leaving:
            del self._leaving[directory]
        return list(self._waiting.pop(directory, ()))

    @property
    def is_any_waiting(self) -> bool:
        """Whether a partition waits for its directory."""
        return bool(self._waiting)
