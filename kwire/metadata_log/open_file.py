"""Opens a file for reading so that it stays readable while a reference to the object exists.

Kafka renames and unlinks segments while they are being sent. The descriptor keeps the bytes until
the last reference is gone; CPython's reference count closes it, which needs no lock and no explicit
release.
"""

from __future__ import annotations

import errno
import os
import stat


def open_regular(path: str, flags: int, mode: int = 0o600) -> int:
    """Open a regular file, and return its descriptor: as ``os.open``, which it never waits in.
    Raises OSError.
    """
    # Without O_NONBLOCK opening a named pipe waits for a writer, perhaps for ever.
    fd = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, mode)
    kind = os.fstat(fd).st_mode
    # After the open and by the descriptor: the name may stand for another file by now.
    if stat.S_ISREG(kind):
        return fd
    os.close(fd)
    if stat.S_ISDIR(kind):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, "a pipe or device, where a regular file is needed", path)


def read_regular(path: os.PathLike[str] | str, most: int | None = None) -> bytes:
    """Return the first ``most`` bytes of a regular file, all without it. Raises OSError."""
    file = OpenFile(os.fspath(path))
    size, _ = file.status()
    return file.read(0, size if most is None else min(size, most))


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
        self.fd = open_regular(path, os.O_RDONLY)
        status = os.fstat(self.fd)
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
