"""Names, lists and removes the directories of partitions in a data directory (``LogManager``,
``UnifiedLog.logDeleteDirName``, ``logStrayDirName``). Blocking; opens no log.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gateway.log.files.disk import Disk, doing
from gateway.log.files.partition_metadata import FILE_NAME, read_topic_id
from kwire.errors import DecodeError
from kwire.protocol import CLUSTER_METADATA_TOPIC

if TYPE_CHECKING:
    from kwire.uuid import Uuid

_NAME: Final = re.compile(r"(.+)-([0-9]+)", re.ASCII | re.DOTALL)
_DELETED: Final = re.compile(r".+\.[0-9a-f]{32}-(?:delete|future)", re.ASCII | re.DOTALL)
_NAME_MAX: Final = 255


def directory_name(topic: str, partition: int) -> str:
    """Return the name of the directory of a partition."""
    return f"{topic}-{partition}"


def partition_directories(data_dir: Path) -> dict[tuple[Uuid, int], Path]:
    """Return the directories of partitions of created topics, by topic id and number. The metadata
    log is none, nor is a directory without a topic id, such as the audit log of this node. Raises
    DiskFailed.
    """
    found = {}
    with doing("read", data_dir):
        for path in sorted(data_dir.iterdir()):
            match = _NAME.fullmatch(path.name)
            if match is None or match[1] == CLUSTER_METADATA_TOPIC or not path.is_dir():
                continue
            with contextlib.suppress(DecodeError, FileNotFoundError):
                found[read_topic_id(path / FILE_NAME), int(match[2])] = path
    return found


def set_aside(path: Path, disk: Disk, unique: str, suffix: str) -> Path:
    """Rename the directory of a partition, durably, and return the new path. ``unique`` has 32
    hexadecimal digits; ``suffix`` is ``delete`` or ``stray``. Raises DiskFailed.
    """
    new = aside(path, unique, suffix)
    disk.rename(path, new)
    disk.sync_directory(path.parent)
    return new


def aside(path: Path, unique: str, suffix: str) -> Path:
    """Return the path that :func:`set_aside` gives a directory."""
    ending = f".{unique}-{suffix}"
    return path.with_name(path.name[: _NAME_MAX - len(ending)] + ending)


def remove_directory(path: Path) -> None:
    """Remove a directory that :func:`set_aside` has renamed, with its files. Raises DiskFailed."""
    with doing("remove", path):
        shutil.rmtree(path)


def remove_deleted(data_dir: Path) -> None:
    """Remove the directories of deleted partitions that a crash has left, and copies of those that
    were being moved. Raises DiskFailed.
    """
    with doing("read", data_dir):
        left = [path for path in data_dir.iterdir() if _DELETED.fullmatch(path.name)]
    for path in left:
        remove_directory(path)
