"""Stores how far the audit log is on disk, and syncs it beside further writes.

It does not know segments or records: ``gateway.log.audit_log`` does.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from pathlib import Path

from gateway.log.disk import Disk, DiskFile
from gateway.log.errors import DiskFailed, LogDamaged
from gateway.log.high_watermark_file import FILE_NAME as CHECKPOINT
from gateway.log.high_watermark_file import HighWatermarkFile


@dataclass(slots=True)
class PendingFlush:
    """Records before ``end_offset`` that are written to ``file`` and may not be on disk. Call
    :meth:`flush` once, from any thread.
    """

    file: DiskFile
    end_offset: int
    disk: Disk
    checkpoint: Checkpoint

    def flush(self) -> int:
        """Sync the file; return the end offset. Raises SyncFailed."""
        try:
            self.disk.sync(self.file)
        # A flush runs once, so this is the last use of the descriptor.
        finally:
            self.file.close()
        # After the sync, which it describes.
        self.checkpoint.write(self.end_offset)
        return self.end_offset


class Checkpoint:
    """The offset below which everything was on disk, and may have been read by a consumer.

    It only matters where a segment is lost: the log then continues at this offset, so that no
    offset that a consumer has seen is given to another record. The file has the format of a high
    watermark. If it cannot be read or written, only this protection is lost.
    """

    def __init__(self, directory: Path, disk: Disk, problems: list[str]) -> None:
        """Read it. Raises DiskFailed."""
        # A flush runs in a thread of its own while the log may write the checkpoint at a roll.
        self._lock = threading.Lock()
        try:
            self._file = HighWatermarkFile(directory, disk, problems)
        except LogDamaged:
            problems.append(
                f"{directory / CHECKPOINT}: neither of its two slots is whole; begun anew"
            )
            # Unlike a damaged high watermark of the metadata log, this does not stop the start.
            disk.remove(directory / CHECKPOINT)
            self._file = HighWatermarkFile(directory, disk, problems)

    @property
    def offset(self) -> int:
        """The largest offset written, 0 if none was."""
        return self._file.offset

    def write(self, offset: int) -> None:
        """Store ``offset``. May be called from any thread."""
        with self._lock, contextlib.suppress(DiskFailed):
            # Two flushes may end in any order, and the checkpoint must not fall.
            if offset > self._file.offset:
                self._file.write(offset)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()
