"""Deletes files of logs and directories of partitions when their delay is over: the deleted ones
stay under other names for ``file.delete.delay.ms``, so that an operator can rescue them
(``LocalLog.deleteSegmentFiles``, ``LogManager.deleteLogs``).

Unlike Kafka it does not wait on a disk that is nearly full. The next start deletes all that waits
at a stop.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from gateway.base.sizes import MIB
from gateway.log.files.disk import DELETED, free_bytes
from gateway.log.files.errors import DiskFailed
from gateway.log.partition.partition_directories import remove_directory

if TYPE_CHECKING:
    from gateway.log.files.disk import Disk
    from gateway.server.logging.logs import Reports

#: Between looks at what is due, s.
_INTERVAL_S: Final = 1.0
#: A disk with less free space is full, before it refuses the batches of an interval.
_FREE_MIN: Final = 64 * MIB


class _Waiting(NamedTuple):
    """``until``: on the clock of the event loop, s."""

    until: float
    path: Path


class DelayedDeletions:
    """Knows each file of a segment, and each directory of a partition, that waits in
    ``directories``, which are those of ``log.dirs``. :meth:`run` is the task.
    """

    def __init__(self, disk: Disk, directories: Sequence[Path], reports: Reports) -> None:
        self._disk = disk
        self._directories = directories
        self._reports = reports
        self._added: deque[tuple[Path, int]] = deque()
        self._waiting: list[_Waiting] = []  # a heap
        # Threads append here, and leave the clock to the task.
        disk.delete_later = lambda path, delay_ms: self._added.append((path, delay_ms))

    async def run(self) -> None:
        """Delete what is due, for ever."""
        while True:
            await trio.sleep(_INTERVAL_S)
            await self.delete_due()

    async def delete_due(self) -> None:
        """Delete what is due, and everything that waits on a full disk."""
        now = trio.current_time()
        while self._added:
            path, delay_ms = self._added.popleft()
            heapq.heappush(self._waiting, _Waiting(now + delay_ms / 1000, path))
        if not self._waiting:
            return
        full = await trio.to_thread.run_sync(self._full)
        due = []
        while self._waiting and self._waiting[0].until <= now:
            due.append(heapq.heappop(self._waiting).path)
        if full:
            waiting, self._waiting = self._waiting, []
            for one in waiting:
                if any(one.path.is_relative_to(directory) for directory in full):
                    due.append(one.path)
                else:
                    heapq.heappush(self._waiting, one)
        if not due:
            return
        for failure in await trio.to_thread.run_sync(self._delete, due):
            self._reports.report("partition not deleted", error=str(failure))

    def _full(self) -> list[Path]:
        return [one for one in self._directories if _is_full(one)]

    def _delete(self, paths: Sequence[Path]) -> list[DiskFailed]:
        """Delete files and directories; return why some are still there."""
        failures = []
        for path in paths:
            try:
                if path.suffix == DELETED:
                    self._disk.remove(path)
                elif path.exists():
                    remove_directory(path)
            except DiskFailed as error:
                failures.append(error)
        return failures


def _is_full(directory: Path) -> bool:
    try:
        return free_bytes(directory) < _FREE_MIN
    except DiskFailed:
        return False  # what is wrong with it others find out
