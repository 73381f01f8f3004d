"""How a snapshot of the metadata log is named, wherever one is spoken of. A lowest stone, like
``address``.
"""

from __future__ import annotations

from typing import NamedTuple


class SnapshotId(NamedTuple):
    """A snapshot by the end of the log that it stands for: offset (exclusive) and epoch of the
    record before it (KIP-630).
    """

    end_offset: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}"

    @property
    def file_name(self) -> str:
        """Its name on disk (``Snapshots.filenameFromSnapshotId``)."""
        return f"{self}.checkpoint"
