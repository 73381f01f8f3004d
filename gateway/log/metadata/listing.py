"""Lists the segments and snapshots of a metadata log directory, and finds the log start. Opens no
file.

Source: ``KafkaMetadataLog.recoverSnapshots`` and ``deleteBeforeSnapshot``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from kwire.metadata_log.file_names import (
    BOOTSTRAP_SNAPSHOT,
    parse_segment_name,
    parse_snapshot_name,
)
from kwire.metadata_log.snapshot_id import SnapshotId


@dataclass(frozen=True, slots=True)
class Listing:
    """Segments as (base offset, inode), and snapshots without the one from formatting; both oldest
    first.
    """

    segments: tuple[tuple[int, int], ...] = ()
    snapshots: tuple[SnapshotId, ...] = ()


@dataclass(frozen=True, slots=True)
class LogStart:
    """The first offset of the log, and the snapshot that replaces everything before it (None at
    offset 0).
    """

    offset: int
    snapshot: SnapshotId | None = None

    @property
    def epoch(self) -> int:
        """Epoch of the record before the start, 0 at offset 0."""
        return self.snapshot.epoch if self.snapshot else 0


def list_directory(path: str) -> Listing:
    """Read the directory's entries once. Other names are ignored. Raises OSError."""
    segments, snapshots = [], []
    with os.scandir(path) as entries:
        for entry in entries:
            base_offset = parse_segment_name(entry.name)
            if base_offset is not None:
                segments.append((base_offset, entry.inode()))
            elif (snapshot := parse_snapshot_name(entry.name)) and snapshot != BOOTSTRAP_SNAPSHOT:
                snapshots.append(snapshot)
    # ``scandir`` has no order.
    return Listing(tuple(sorted(segments)), tuple(sorted(snapshots)))


def log_start(listing: Listing) -> LogStart:
    """Return where the log in this directory starts.

    At 0 while the first segment exists. Otherwise at the end of the oldest snapshot that the
    segments continue: the cleaner moves the log start to a snapshot's end, and deletes only whole
    segments below it (``KafkaMetadataLog.deleteBeforeSnapshot``). A directory without segments
    starts at its latest snapshot.
    """
    if not listing.segments:
        return (
            LogStart(listing.snapshots[-1].end_offset, listing.snapshots[-1])
            if listing.snapshots
            else LogStart(0)
        )
    first = listing.segments[0][0]
    # Snapshots are there long before the log start moves: 0 is the start while its segment exists.
    if first == 0:
        return LogStart(0)
    for snapshot in listing.snapshots:
        # The cleaner deletes whole segments, so the first one may begin below the snapshot's end.
        if snapshot.end_offset >= first:
            return LogStart(snapshot.end_offset, snapshot)
    # No snapshot has what was before the first segment: ``log_validation`` refuses such a
    # directory.
    return LogStart(first)


def superseding_snapshot(listing: Listing, last_epoch: int, end_offset: int) -> SnapshotId | None:
    """Return the latest snapshot if it lies beyond a log that ends at ``end_offset`` in
    ``last_epoch``, else None.

    A follower that has downloaded a snapshot drops its whole log and continues behind it
    (``KafkaMetadataLog.truncateToLatestSnapshot``); a crash in between leaves both on disk.
    """
    if not listing.snapshots:
        return None
    # By epoch first: a snapshot of an older epoch may have the larger end offset.
    latest = max(listing.snapshots, key=lambda snapshot: (snapshot.epoch, snapshot.end_offset))
    return latest if (latest.epoch, latest.end_offset) > (last_epoch, end_offset) else None
