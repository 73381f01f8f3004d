"""A file opened for reading that stays readable as long as somebody holds it, whatever happens to its name.

Kafka renames and unlinks segments while they are being sent; the descriptor keeps the bytes until the last holder of
the object is gone. That is CPython's own reference count: it needs no lock and cannot be forgotten.
"""

from __future__ import annotations

import os


class OpenFile:
    """``fd``, ``path`` and ``identity`` (device, inode) of an open file; closed when nothing refers to the object any more."""

    __slots__ = ("fd", "identity", "path")

    def __init__(self, path: str) -> None:
        """Open ``path`` for reading. Raises OSError."""
        self.path = path
        self.fd = -1
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        status = os.fstat(self.fd)
        self.identity = (status.st_dev, status.st_ino)

    def read(self, position: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``position``; fewer only where the file ends. Raises OSError."""
        data = os.pread(self.fd, length, position)
        while len(data) < length and (more := os.pread(self.fd, length - len(data), position + len(data))):
            data += more
        return data

    def status(self) -> tuple[int, int]:
        """Size in bytes and time of the last change in ns. Raises OSError."""
        status = os.fstat(self.fd)
        return status.st_size, status.st_mtime_ns

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
