"""Syncs a segment beside further writes to it.

It does not know segments or records: ``gateway.log.partition.unified_log`` makes the flushes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gateway.log.files.disk import Disk, DiskFile


@dataclass(slots=True)
class PendingFlush:
    """Records before ``end_offset`` that are written to ``file`` and may not be on disk. Call
    :meth:`flush` once, from any thread.
    """

    file: DiskFile
    end_offset: int
    disk: Disk
    on_synced: Callable[[int], None]  #: called with the end offset when the file is on disk

    def flush(self) -> int:
        """Sync the file; return the end offset. Raises SyncFailed."""
        try:
            self.disk.sync(self.file)
        # A flush runs once, so this is the last use of the descriptor.
        finally:
            self.file.close()
        self.on_synced(self.end_offset)
        return self.end_offset
