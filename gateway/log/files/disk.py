"""Performs every change of a file that a log makes: a few operations that tests can record and
fail.

It knows nothing of logs. Files named ``*.tmp`` are being written to replace another one. The crash
tests (``tests/gateway/log/crash_disk.py``) build each state that a power failure can leave from the
recorded operations, so a change that bypasses this module is never tested.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from gateway.log.files.errors import DiskFailed, SyncFailed
from kwire.metadata_log.open_file import open_regular

#: Suffix of a file that will replace another one, as in Kafka.
TEMPORARY: Final = ".tmp"
#: Suffix of a file that waits for its deletion, as in Kafka.
DELETED: Final = ".deleted"
# fdatasync writes the size too, but not the times: one journal transaction less per commit. macOS
# does not have it.
_sync = getattr(os, "fdatasync", os.fsync)
_ADVICE: Final = {
    errno.ENOSPC: "make room on that file system",
    errno.EDQUOT: "make room on that file system, or raise the quota",
    errno.EROFS: "the file system is mounted read-only: the system's log says why",
    **dict.fromkeys(
        (errno.EACCES, errno.EPERM),
        "give the user that the server runs as permission to write there",
    ),
    **dict.fromkeys(
        (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG),
        "is it the directory that was meant? Each part of the path has to be a directory",
    ),
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.EIO: "the disk fails: see the system's log; the directory can be moved to another disk, "
    "or removed and fetched anew",
}
_OTHER_ADVICE: Final = "the system's log may say more"


class DiskFile:
    """An open file: its path and descriptor. Only :class:`Disk` opens and changes it."""

    __slots__ = ("fd", "path")

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self.fd = fd

    @property
    def size(self) -> int:
        """The current size in bytes. Raises DiskFailed."""
        with doing("look at", self.path):
            return os.fstat(self.fd).st_size

    def read(self, position: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``position``; fewer only where the file ends. Raises
        DiskFailed.
        """
        with doing("read", self.path):
            data = os.pread(self.fd, length, position)
            # A signal, or a file system over a network, may end a read early.
            while len(data) < length and (
                more := os.pread(self.fd, length - len(data), position + len(data))
            ):
                data += more
            return data

    def close(self) -> None:
        """Close the descriptor. Idempotent."""
        if self.fd >= 0:
            # First: after a failed close the number may belong to another file already.
            fd, self.fd = self.fd, -1
            with contextlib.suppress(OSError):
                os.close(fd)


class Disk:
    """The operations. Each raises DiskFailed; ``sync`` and ``sync_directory`` raise its subclass
    SyncFailed.

    With ``fsync`` False the sync operations do nothing: the operating system decides when bytes
    reach the disk.
    """

    def __init__(self, *, fsync: bool = True) -> None:
        self.fsync = fsync
        #: Hears, in any thread, of a file or directory that is to be deleted in so many ms. Without
        #: it nothing waits.
        self.delete_later: Callable[[Path, int], None] | None = None

    # --- primitive operations
    # ---------------------------------------------------------------------------------------------

    def make_directory(self, path: Path) -> None:
        """Make a directory and its missing parents, durably, for their owner alone. An existing
        one is no error.
        """
        with doing("make directory", path):
            if path.is_dir():
                return
            # Parents first, each durable before its child: a crash must not leave a child whose
            # parent is lost.
            self.make_directory(path.parent)
            path.mkdir(mode=0o700, exist_ok=True)
        self.sync_directory(path.parent)

    def open(self, path: Path) -> DiskFile:
        """Open for reading and writing; create an empty file if there is none, for its owner alone:
        the log has keys of SCRAM users.
        """
        with doing("open", path):
            return DiskFile(path, open_regular(str(path), os.O_RDWR | os.O_CREAT))

    def write(self, file: DiskFile, position: int, data: bytes | memoryview) -> None:
        """Write all of ``data`` at ``position``. After a failure a part of it may be in the
        file.
        """
        with doing("write", file.path):
            view = memoryview(data)
            while view:
                done = os.pwrite(file.fd, view, position)
                view, position = view[done:], position + done

    def truncate(self, file: DiskFile, size: int) -> None:
        """Truncate the file to ``size`` bytes."""
        with doing("truncate", file.path):
            os.ftruncate(file.fd, size)

    def sync(self, file: DiskFile) -> None:
        """Return once everything written to the file is on disk."""
        if self.fsync:
            with doing("sync", file.path, SyncFailed):
                _sync(file.fd)

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file, atomically, over an existing ``target``. Durable after
        ``sync_directory``.
        """
        with doing("rename to", target):
            # Kafka falls back to a move that is not atomic (``Utils.atomicMoveWithFallback``). Here
            # the failure is reported: half a vote is worse than none.
            os.rename(source, target)

    def remove(self, path: Path) -> None:
        """Unlink a file. Processes that have it open keep reading it. A missing file is no
        error.
        """
        with doing("remove", path), contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def sync_directory(self, path: Path) -> None:
        """Return once the names in the directory are on disk: after a create, rename or remove."""
        if not self.fsync:
            return
        with doing("sync directory", path, SyncFailed):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                # A file's own fsync does not store its name: without this a crash can undo a
                # create, rename or remove (see fsync(2)).
                os.fsync(fd)
            finally:
                os.close(fd)

    # --- composed operations
    # ---------------------------------------------------------------------------------------------

    def replace(self, path: Path, data: bytes) -> None:
        """Replace the content of a file: after a crash it has the old content or the new one,
        whole.

        As Kafka's ``CheckpointFile``: write a temporary file, sync it, rename it, sync the
        directory.
        """
        self.replace_in_pieces(path, (data,))

    def replace_in_pieces(self, path: Path, pieces: Iterable[bytes]) -> None:
        """As :meth:`replace`, with one piece of the content in memory at a time."""
        temporary = path.with_name(path.name + TEMPORARY)
        file = self.open(temporary)
        try:
            # A crashed process may have left a longer one.
            self.truncate(file, 0)
            position = 0
            for piece in pieces:
                self.write(file, position, piece)
                position += len(piece)
            self.sync(file)
        finally:
            file.close()
        # Without the sync before it, a file system may store the rename before the data (delayed
        # allocation), and a crash would leave an empty file under the final name.
        self.rename(temporary, path)
        self.sync_directory(path.parent)

    def discard(self, path: Path, delay_ms: int) -> None:
        """Take a file of a log away: it is renamed now, and deleted ``delay_ms`` later. A missing
        file is no error. Durable after ``sync_directory``.
        """
        if delay_ms > 0 and self.delete_later is not None:
            waiting = path.with_name(path.name + DELETED)
            # There may be no such file; a full disk may have no space for the longer name.
            with contextlib.suppress(DiskFailed):
                self.rename(path, waiting)
                self.delete_later(waiting, delay_ms)
                return
        self.remove(path)


def free_bytes(directory: str | os.PathLike[str]) -> int:
    """Return the bytes that this process can still write there. Raises DiskFailed."""
    with doing("look at the free space of", Path(directory)):
        found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


class doing:
    """Turn OSError into a sentence that names the operation, the file and a remedy.

    Each append enters it several times: a generator of ``contextlib`` would take three times as
    long.
    """

    __slots__ = ("_failure", "_path", "_what")

    def __init__(self, what: str, path: Path, failure: type[DiskFailed] = DiskFailed) -> None:
        self._what = what
        self._path = path
        self._failure = failure

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, OSError):
            raise self._failure(self._what, str(self._path), error, advice(error)) from error


def advice(error: OSError, other: str = _OTHER_ADVICE) -> str:
    """Return the remedy for an error of the operating system; ``other`` where there is no known
    one.
    """
    return _ADVICE.get(error.errno or 0, other)
