"""Opens a file for reading so that it stays readable while a reference to the object exists.

Kafka renames and unlinks segments while they are being sent. The descriptor keeps the bytes until
the last reference is gone; CPython's reference count closes it, which needs no lock and no explicit
release.
"""

from __future__ import annotations

import errno
import os
import stat


class OpenFile:
    """``fd``, ``path`` and ``identity`` (device, inode) of an open file, closed with its last
    reference.
    """

    __slots__ = ("fd", "identity", "path")

    def __init__(self, path: str) -> None:
        """Open ``path`` for reading. Raises OSError."""
        self.path = path
        # First, for ``__del__``, which also runs if the open fails.
        self.fd = -1
        # Without O_NONBLOCK opening a named pipe waits for a writer, perhaps for ever.
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        status = os.fstat(self.fd)
        # After the open and by the descriptor: the name may stand for another file by now.
        if stat.S_ISDIR(status.st_mode):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "a pipe or device, where a regular file is needed", path)
        self.identity = (status.st_dev, status.st_ino)

    def read(self, position: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``position``; fewer only where the file ends. Raises
        OSError.
        """
        data = os.pread(self.fd, length, position)
        while len(data) < length and (
            more := os.pread(self.fd, length - len(data), position + len(data))
        ):
            data += more
        return data

    def status(self) -> tuple[int, int]:
        """Return the size in bytes and the time of the last change in ns. Raises OSError."""
        status = os.fstat(self.fd)
        return status.st_size, status.st_mtime_ns

    def __del__(self) -> None:
        # The open may have failed.
        if self.fd >= 0:
            os.close(self.fd)
