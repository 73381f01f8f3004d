"""Names a snapshot of the metadata log, as Kafka's ``OffsetAndEpoch`` and ``Snapshots`` do."""

from __future__ import annotations

from typing import NamedTuple


class SnapshotId(NamedTuple):
    """A snapshot that replaces the log below ``end_offset`` (KIP-630). ``epoch`` is that of the
    last record below it.
    """

    end_offset: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}"

    @property
    def file_name(self) -> str:
        """The name of the snapshot's file (``Snapshots.filenameFromSnapshotId``)."""
        return f"{self}.checkpoint"
