"""A disk on which one operation fails, as a full or a broken one does."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from gateway.log.files.disk import Disk, DiskFile, doing
from gateway.log.files.errors import DiskFailed, SyncFailed


class FaultyDisk(Disk):
    """Operation number ``fails_at`` fails with ``error``, or, where several threads use the disk,
    the next one that is called ``fails_next`` in ``log``; a write is done in half by then.
    ``count`` operations came so far.
    """

    def __init__(
        self, fails_at: int = -1, error: int = errno.ENOSPC, *, for_good: bool = False
    ) -> None:
        super().__init__()
        self.fails_at = fails_at
        self.fails_next = ""
        self.error = error
        self.for_good = for_good
        self.count = 0
        self.log: list[str] = []

    def open(self, path: Path) -> DiskFile:
        self._step("open", path)
        return super().open(path)

    def write(self, file: DiskFile, position: int, data: bytes | memoryview) -> None:
        try:
            self._step("write", file.path)
        except DiskFailed:
            super().write(file, position, bytes(data)[: len(data) // 2])
            raise
        super().write(file, position, data)

    def truncate(self, file: DiskFile, size: int) -> None:
        self._step("truncate", file.path)
        super().truncate(file, size)

    def sync(self, file: DiskFile) -> None:
        self._step("sync", file.path, SyncFailed)

    def rename(self, source: Path, target: Path) -> None:
        self._step("rename to", target)
        super().rename(source, target)

    def remove(self, path: Path) -> None:
        self._step("remove", path)
        super().remove(path)

    def sync_directory(self, path: Path) -> None:
        self._step("sync directory", path, SyncFailed)

    def _step(self, what: str, path: Path, failure: type[DiskFailed] = DiskFailed) -> None:
        self.count += 1
        self.log.append(f"{what} {path.name}")
        is_next = self.log[-1] == self.fails_next
        if is_next:
            self.fails_next = ""
        is_at = self.count - 1 == self.fails_at
        if is_next or is_at or (self.for_good and -1 < self.fails_at < self.count):
            with doing(what, path, failure):
                raise OSError(self.error, os.strerror(self.error), str(path))
