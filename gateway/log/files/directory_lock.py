"""Locks a data directory for one process, with Kafka's ``.lock`` file.

The lock is a POSIX record lock, as the JVM's ``FileChannel.tryLock`` takes it, so that kwire and
Kafka exclude each other. It is advisory: it does not stop an editor. Source: ``FileLock`` in
``LogManager``.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Final

from gateway.log.files.disk import advice
from gateway.log.files.errors import DiskFailed, LogLocked
from kwire.metadata_log.open_file import open_regular

FILE_NAME: Final = ".lock"
#: The locks of this process, as (device, inode). POSIX locks do not exclude their own process, and
#: closing any descriptor of the file releases the lock: a second open is therefore refused before
#: the file is touched.
_held: Final[set[tuple[int, int]]] = set()


class DirectoryLock:
    """The lock on ``directory``, held until ``release`` or the end of the process. ``key`` is the
    configuration key that names the directory. Raises LogLocked, DiskFailed.
    """

    def __init__(self, directory: Path, key: str = "data.dir") -> None:
        self._key = key
        path = directory / FILE_NAME
        try:
            self._identity = _identity(path)
            # By inode: the same directory may be given under two paths.
            if self._identity in _held:
                raise self._locked(directory, "this process")
            # Never deleted: a second process could lock a file without a name.
            self._fd = open_regular(str(path), os.O_RDWR | os.O_CREAT)
            self._lock(path)
        except OSError as error:
            remedy = advice(error, "the file system has to support POSIX locks")
            raise DiskFailed("lock", str(path), error, remedy) from error

    def _lock(self, path: Path) -> None:
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Once more, because the file may have been created by the open.
            self._identity = _identity(path)
        except OSError as error:
            os.close(self._fd)
            # POSIX allows either error for a lock that another process holds.
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise self._locked(
                    path.parent, "another process (a second kwire, or Kafka)"
                ) from None
            raise
        _held.add(self._identity)

    def _locked(self, directory: Path, who: str) -> LogLocked:
        return LogLocked(
            f"{directory} is in use by {who}: give each server a {self._key} of its own"
        )

    def release(self) -> None:
        """Release the lock. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            _held.discard(self._identity)


def _identity(path: Path) -> tuple[int, int]:
    """Return device and inode; (0, 0), which no file has, if there is no file."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return 0, 0
    return status.st_dev, status.st_ino
