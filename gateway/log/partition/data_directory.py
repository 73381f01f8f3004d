"""Owns a data directory for this process: its lock, its identity, the high watermark in it, and the
checkpoint files of its partitions.

The files belong to the node and not to one partition; the logs are in directories below. It knows
no segments. Source: ``LogManager``, ``MetaPropertiesEnsemble``.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from gateway.log.files import meta_properties
from gateway.log.files.directory_lock import DirectoryLock
from gateway.log.files.disk import TEMPORARY, Disk
from gateway.log.files.high_watermark_file import HighWatermarkFile
from gateway.log.files.meta_properties import MetaProperties
from gateway.log.files.offset_checkpoint import (
    CLEANER,
    LOG_START,
    RECOVERY_POINT,
    Checkpoints,
)
from gateway.log.files.small_file import read_small_file
from kwire.uuid import ZERO_UUID, Uuid

_META_VERSION: Final = 1


class DataDirectory:
    """The directory ``path``, which is created if it is missing, exclusively until ``close``."""

    def __init__(self, path: Path, disk: Disk, problems: list[str], key: str = "data.dir") -> None:
        """Lock it, then read its files. ``key``: the configuration key that names it. Raises
        LogLocked, LogDamaged, DiskFailed.
        """
        self.path = path
        self._disk = disk
        disk.make_directory(path)
        # The lock comes before the first read: another process could be truncating the files.
        self._lock = DirectoryLock(path, key)
        try:
            # First: a directory of another node is refused by it, whatever the other files hold.
            self.meta_properties: MetaProperties | None = read_meta(path)
            self._high_watermark = HighWatermarkFile(path, disk, problems)
            #: Of the metadata log, and of the partitions of a broker in this directory.
            self.checkpoints = Checkpoints(path, disk, problems)
        except BaseException:
            self._lock.release()
            raise

    @property
    def high_watermark(self) -> int:
        """The high watermark of ``__cluster_metadata`` as last written, 0 if none was."""
        return self._high_watermark.offset

    def write_high_watermark(self, offset: int) -> None:
        """Store the high watermark durably. Raises DiskFailed."""
        # Clients may have read up to the old one.
        assert offset >= self.high_watermark, "a high watermark on disk never decreases"
        self._high_watermark.write(offset)

    def write_meta_properties(self, cluster_id: str, node_id: int, directory_id: Uuid) -> None:
        """Store cluster and node durably; a zero ``directory_id`` is left out. Raises
        DiskFailed.
        """
        properties = MetaProperties(
            _META_VERSION, cluster_id, node_id, None if directory_id == ZERO_UUID else directory_id
        )
        write_meta(self.path, properties, self._disk)
        self.meta_properties = properties

    def remove_leftovers(self) -> None:
        """Remove what a crash left of the replacement of a file. Raises DiskFailed."""
        for name in (meta_properties.FILE_NAME, RECOVERY_POINT, LOG_START, CLEANER):
            self._disk.remove(self.path / (name + TEMPORARY))

    def close(self) -> None:
        """Close the open file and release the lock. Idempotent."""
        self._high_watermark.close()
        self._lock.release()


def read_meta(data_dir: Path) -> MetaProperties | None:
    """Return the content of ``meta.properties``, None without the file. Raises LogDamaged,
    DiskFailed.
    """
    return read_small_file(
        data_dir / meta_properties.FILE_NAME,
        meta_properties.read_meta_properties,
        "restore it: it says whose directory this is",
    )


def write_meta(data_dir: Path, properties: MetaProperties, disk: Disk) -> None:
    """Replace ``meta.properties``, on disk when this returns. Raises DiskFailed."""
    data = meta_properties.format_meta_properties(properties, datetime.now(UTC))
    disk.replace(data_dir / meta_properties.FILE_NAME, data)
