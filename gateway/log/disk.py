"""Every change of a file that the local log makes goes through here: few operations, so that tests can record and break them.

Knows nothing of logs. Names ``*.tmp`` are files that are being written to replace others.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gateway.log.errors import DiskFailed, SyncFailed

#: Suffix of a file that will take another one's place, as in Kafka.
TEMPORARY: Final = ".tmp"
_sync = getattr(os, "fdatasync", os.fsync)
_ADVICE: Final = {
    errno.ENOSPC: "make room on that file system",
    errno.EDQUOT: "make room on that file system, or raise the quota",
    errno.EROFS: "the file system is mounted read-only: see the system's log for why",
    errno.EACCES: "give the user that the server runs as write permission",
    errno.EPERM: "give the user that the server runs as write permission",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.EIO: "the disk fails: see the system's log; the directory can be moved to another disk, or removed and fetched anew",
}
_OTHER_ADVICE: Final = "see the system's log"


class DiskFile:
    """An open file: its path and descriptor. Opened and changed by :class:`Disk` only."""

    __slots__ = ("fd", "path")

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self.fd = fd

    @property
    def size(self) -> int:
        """Bytes in it now. Raises DiskFailed."""
        with doing("look at", self.path):
            return os.fstat(self.fd).st_size

    def read(self, position: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``position``; fewer only where the file ends. Raises DiskFailed."""
        with doing("read", self.path):
            data = os.pread(self.fd, length, position)
            while len(data) < length and (more := os.pread(self.fd, length - len(data), position + len(data))):
                data += more
            return data

    def close(self) -> None:
        """Let go of the descriptor; a second time is no harm."""
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            with contextlib.suppress(OSError):
                os.close(fd)


class Disk:
    """The operations. All raise DiskFailed, ``sync`` and ``sync_directory`` its subclass SyncFailed.

    ``fsync`` False makes syncing do nothing: when bytes reach the disk is left to the operating system.
    """

    def __init__(self, *, fsync: bool = True) -> None:
        self.fsync = fsync

    # --- what tests record ----------------------------------------------------------------------------------------------

    def make_directory(self, path: Path) -> None:
        """Make a directory and what is missing above it; its entry is durable then. An existing one is no error."""
        with doing("make directory", path):
            if path.is_dir():
                return
            self.make_directory(path.parent)
            path.mkdir(exist_ok=True)
        self.sync_directory(path.parent)

    def open(self, path: Path) -> DiskFile:
        """Open for reading and writing; an empty file is made if there is none."""
        with doing("open", path):
            return DiskFile(path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))

    def write(self, file: DiskFile, position: int, data: bytes | memoryview) -> None:
        """Write all of ``data`` at ``position``. On failure part of it may be there."""
        with doing("write", file.path):
            view = memoryview(data)
            while view:
                done = os.pwrite(file.fd, view, position)
                view, position = view[done:], position + done

    def truncate(self, file: DiskFile, size: int) -> None:
        """Cut the file to ``size`` bytes."""
        with doing("truncate", file.path):
            os.ftruncate(file.fd, size)

    def sync(self, file: DiskFile) -> None:
        """Return once everything written to the file is on disk."""
        if self.fsync:
            with doing("sync", file.path, SyncFailed):
                _sync(file.fd)

    def rename(self, source: Path, target: Path) -> None:
        """Give a file another name, atomically; one that had it is gone."""
        with doing("rename to", target):
            os.rename(source, target)

    def remove(self, path: Path) -> None:
        """Unlink a file; whoever has it open reads on. One that is not there is no error."""
        with doing("remove", path), contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def sync_directory(self, path: Path) -> None:
        """Return once the names in the directory are on disk."""
        if not self.fsync:
            return
        with doing("sync directory", path, SyncFailed):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    # --- made of them ---------------------------------------------------------------------------------------------------

    def replace(self, path: Path, data: bytes) -> None:
        """Put ``data`` in a file's place: after a crash there is the old content or the new one, whole.

        As Kafka's ``CheckpointFile``: written beside it, synced, renamed, the directory synced.
        """
        temporary = path.with_name(path.name + TEMPORARY)
        file = self.open(temporary)
        try:
            self.truncate(file, 0)
            self.write(file, 0, data)
            self.sync(file)
        finally:
            file.close()
        self.rename(temporary, path)
        self.sync_directory(path.parent)


@contextlib.contextmanager
def doing(what: str, path: Path, failure: type[DiskFailed] = DiskFailed) -> Iterator[None]:
    """Turn OSError into a sentence about ``what`` was being done to which file, and what helps."""
    try:
        yield
    except OSError as error:
        raise failure(what, str(path), error, _ADVICE.get(error.errno or 0, _OTHER_ADVICE)) from error
