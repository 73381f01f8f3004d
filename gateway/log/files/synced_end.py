"""Stores how far a log that no other node has is on disk, and may have been read.

It does not know segments or records, and does not limit recovery, as Kafka's
``recovery-point-offset-checkpoint`` does.
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

from gateway.log.files.disk import Disk
from gateway.log.files.errors import DiskFailed, LogDamaged
from gateway.log.files.high_watermark_file import FILE_NAME, HighWatermarkFile


class SyncedEnd:
    """The offset below which everything was on disk, and may have been read by a consumer.

    It only matters where records are lost: the loss is then known, and the log continues at this
    offset, so that no offset that a consumer has seen is given to another record. The file has the
    format of a high watermark. If it cannot be read or written, only this protection is lost.
    """

    def __init__(self, directory: Path, disk: Disk, problems: list[str]) -> None:
        """Read it. Raises DiskFailed."""
        # A flush runs in a thread of its own while the log may write the offset at a roll.
        self._lock = threading.Lock()
        try:
            self._file = HighWatermarkFile(directory, disk, problems)
        except LogDamaged:
            problems.append(
                f"{directory / FILE_NAME}: neither of its two slots is whole; begun anew"
            )
            # Unlike a damaged high watermark of the metadata log, this does not stop the start.
            disk.remove(directory / FILE_NAME)
            self._file = HighWatermarkFile(directory, disk, problems)

    @property
    def offset(self) -> int:
        """The largest offset written, 0 if none was."""
        return self._file.offset

    def write(self, offset: int) -> None:
        """Store ``offset``. May be called from any thread."""
        with self._lock, contextlib.suppress(DiskFailed):
            # Two flushes may end in any order, and the offset must not fall.
            if offset > self._file.offset:
                self._file.write(offset)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()
