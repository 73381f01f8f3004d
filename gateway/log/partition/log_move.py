"""Copies the log of a partition to another log directory while it is appended to, and puts the copy
in its place (``ReplicaAlterLogDirsThread``, ``LogManager.replaceCurrentWithFutureLog``, KIP-113).

It decides nothing: the caller says when nothing is written any more. A copy that a crash leaves is
removed at the next start; unlike Kafka's, it is not continued.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from gateway.base.sizes import MIB
from gateway.log.files.disk import DELETED, Disk, doing
from gateway.log.files.errors import DiskFailed
from gateway.log.partition.partition_directories import aside, remove_directory, set_aside
from kwire.metadata_log.file_names import segment_name

_PIECE: Final = MIB
#: Inode, bytes and time of the last change of a file: equal ones mean that it did not change.
_Identity = tuple[int, int, int]


class LogMove:
    """The move of the directory ``source`` into the directory ``target``. ``unique`` has 32
    hexadecimal digits. Blocking; each method raises DiskFailed.
    """

    def __init__(self, source: Path, target: Path, unique: str, disk: Disk) -> None:
        self._source = source
        self._unique = unique
        self._disk = disk
        self._copied: dict[str, _Identity] = {}
        self._is_finished = False
        self._copy = aside(target / source.name, unique, "future")
        #: Where the log is at the end.
        self.directory = target / source.name

    def copy_closed(self, active_base: int) -> None:
        """Copy the files of all segments but the one with the base offset ``active_base``, which
        grows; those that were copied are left as they are.
        """
        active = Path(segment_name(active_base)).stem
        self._disk.make_directory(self._copy)
        for name in self._names():
            if Path(name).stem != active:
                self._copy_file(name)

    def finish(self) -> None:
        """Copy what has changed, and give the copy its name, durably. Nothing is written to the
        source any more, which stays; :meth:`leave` removes it.
        """
        self._disk.make_directory(self._copy)
        names = self._names()
        for name in names:
            self._copy_file(name)
        with doing("read", self._copy):
            left = {path.name for path in self._copy.iterdir()} - set(names)
        for name in left:  # such as of segments that were deleted since
            self._disk.remove(self._copy / name)
        self._disk.sync_directory(self._copy)
        self._disk.rename(self._copy, self.directory)
        self._is_finished = True
        self._disk.sync_directory(self.directory.parent)

    def leave(self) -> Path:
        """Rename the source, so that no start takes it for the log; return its path, for
        ``remove_directory``. From then on the copy is the log.
        """
        left = aside(self._source, self._unique, "delete")
        self._disk.rename(self._source, left)
        with contextlib.suppress(DiskFailed):  # a disk that fails keeps no name that counts
            self._disk.sync_directory(left.parent)
        return left

    def drop(self) -> None:
        """Remove what was copied: the source stays the log."""
        path = self.directory if self._is_finished else self._copy
        if path.exists():
            remove_directory(set_aside(path, self._disk, self._unique, "delete"))

    def _names(self) -> list[str]:
        with doing("read", self._source):
            return sorted(
                path.name
                for path in self._source.iterdir()
                if path.is_file() and path.suffix != DELETED
            )

    def _copy_file(self, name: str) -> None:
        source = -1
        with doing("read", self._source / name), contextlib.suppress(FileNotFoundError):
            identity = self._identity(name)
            if self._copied.pop(name, None) == identity:
                self._copied[name] = identity
                return
            source = os.open(self._source / name, os.O_RDONLY | os.O_CLOEXEC)
        if source < 0:
            return  # deleted since
        try:
            target = self._disk.open(self._copy / name)
        except DiskFailed:
            os.close(source)
            raise
        try:
            self._disk.truncate(target, 0)
            position = 0
            while piece := self._read(source, position, name):
                self._disk.write(target, position, piece)
                position += len(piece)
            self._disk.sync(target)
        finally:
            target.close()
            os.close(source)
        # Of records without a timestamp it is their age.
        with doing("write", target.path):
            os.utime(target.path, ns=(identity[2], identity[2]))
        self._copied[name] = identity

    def _read(self, file: int, position: int, name: str) -> bytes:
        with doing("read", self._source / name):
            return os.pread(file, _PIECE, position)

    def _identity(self, name: str) -> _Identity:
        status = os.stat(self._source / name)
        return status.st_ino, status.st_size, status.st_mtime_ns
