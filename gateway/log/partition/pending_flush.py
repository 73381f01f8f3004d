"""Syncs a segment beside further writes to it.

It does not know segments or records: ``gateway.log.partition.unified_log`` makes the flushes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.log.files.disk import Disk, DiskFile


@dataclass(slots=True)
class PendingFlush:
    """Records before ``end_offset`` that are written to ``files`` and may not be on disk. Call
    :meth:`flush` once, from any thread.
    """

    files: Sequence[DiskFile]
    end_offset: int
    disk: Disk
    on_synced: Callable[[int], None]  #: called with the end offset when the files are on disk

    def flush(self) -> int:
        """Sync the files; return the end offset. Raises SyncFailed."""
        try:
            for file in self.files:
                self.disk.sync(file)
        finally:
            self.close()
        self.on_synced(self.end_offset)
        return self.end_offset

    def close(self) -> None:
        """Close the files: a flush runs once, or never."""
        for file in self.files:
            file.close()
