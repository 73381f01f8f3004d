"""Validates a log directory before it is opened: finds what is good and what must be repaired.

It only reads, so that a refused directory is unchanged; ``gateway.log.metadata.recovery`` repairs.
The batches of the last segment are checked from the recovery point on, CRC included. An earlier
segment was synced before the next one was created, so only the batches behind its last index entry
are checked, which shows that it ends where the next one begins. Damage before these is found by the
reader that meets it. Source: ``LogLoader``, ``LogSegment.recover``.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gateway.log.files.errors import LogDamaged
from gateway.log.files.leader_epoch_checkpoint import FILE_NAME as LEADER_EPOCHS
from gateway.log.files.leader_epoch_checkpoint import read_leader_epochs
from gateway.log.metadata.listing import (
    Listing,
    LogStart,
    list_directory,
    log_start,
    superseding_snapshot,
)
from gateway.log.metadata.snapshot_writer import snapshot_fault
from gateway.log.partition.log_settings import LogSettings
from gateway.log.segments.epoch_cache import EpochCache
from gateway.log.segments.segment_scan import SegmentScan, has_indexes, scan_from, scan_segment
from kwire.errors import DecodeError
from kwire.metadata_log.file_names import segment_name
from kwire.metadata_log.snapshot_id import SnapshotId

_ANEW: Final = (
    "restore it from a copy, or remove the whole data directory: it is fetched anew from the quorum"
)


@dataclass(slots=True)
class LogValidation:
    """The good and bad parts of a log directory, as far as a repair needs them."""

    listing: Listing
    closed: list[int] = field(default_factory=list)
    #: Closed segments whose indexes are missing or wrong.
    unindexed: list[SegmentScan] = field(default_factory=list)
    active: SegmentScan | None = None
    unreachable: list[int] = field(default_factory=list)  #: segments behind a gap
    superseded_by: SnapshotId | None = None
    #: Faults of snapshots that the log does not need.
    damaged_snapshots: list[DecodeError] = field(default_factory=list)
    epochs: EpochCache = field(default_factory=EpochCache)


def validate_log(
    directory: Path, settings: LogSettings, high_watermark: int, recovery_point: int
) -> LogValidation:
    """Check the directory. Records below ``high_watermark`` were committed and synced, so their
    loss is damage. Before ``recovery_point`` batches and indexes are known to be on disk.

    Raises LogDamaged, DiskFailed, OSError.
    """
    listing, damaged = _without_damaged_snapshots(directory, list_directory(str(directory)))
    found = LogValidation(listing, damaged_snapshots=damaged)
    _validate_segments(directory, settings, found, recovery_point)
    _check_high_watermark(directory, found, high_watermark)
    return found


def _without_damaged_snapshots(
    directory: Path, listing: Listing
) -> tuple[Listing, list[DecodeError]]:
    """Return the listing without damaged snapshots at its end, and their faults.

    A damaged snapshot at the log start raises LogDamaged: nothing else has the state before it.
    """
    damaged_snapshots: list[DecodeError] = []
    # From the newest snapshot down, until one is whole: a damaged one must not replace the log.
    while listing.snapshots:
        start = log_start(listing).snapshot
        latest = max(listing.snapshots, key=lambda snapshot: (snapshot.epoch, snapshot.end_offset))
        faults = {one: snapshot_fault(directory / one.file_name) for one in {start, latest} if one}
        fault = faults.get(start) if start else None
        if fault is not None:
            raise LogDamaged(
                fault.path,
                fault.offset,
                f"the snapshot that the log starts at is damaged: {fault.reason}",
                _ANEW,
            )
        fault = faults[latest]
        if fault is None:
            break
        damaged_snapshots.append(fault)
        listing = Listing(
            listing.segments, tuple(one for one in listing.snapshots if one != latest)
        )
    return listing, damaged_snapshots


def _validate_segments(
    directory: Path, settings: LogSettings, found: LogValidation, recovery_point: int
) -> None:
    listing = found.listing
    bases = [base for base, _ in listing.segments]
    start = log_start(listing)
    # ``recoverSnapshots`` throws IllegalStateException in this case.
    if start.offset and start.snapshot is None:
        reason = (
            f"the log starts at offset {start.offset} and there is no snapshot of what was before"
        )
        raise LogDamaged(str(directory), -1, reason, _ANEW)
    # The first segment that does not lead to the next one becomes the active segment; the ones
    # behind it are unreachable. Kafka's LogLoader deletes them likewise. Of this log Kafka reads
    # every batch at each start (``recoveryPoint = 0`` in ``KafkaMetadataLog``), of other logs those
    # from the recovery point on. Here a closed segment is trusted by its indexes, which were synced
    # with it.
    found.epochs = EpochCache(saved=_saved_epochs(directory))
    for base, following in itertools.pairwise(bases):
        if not _is_complete(directory, base, following, settings, found):
            break
        found.closed.append(base)
    bases = bases[len(found.closed) :]
    if bases:
        found.active = _scan(directory, bases[0], settings, recovery_point, found)
        # Behind a gap: their offsets may be written again, and two records cannot share one.
        found.unreachable = bases[1:]
        _add_epochs(found.active, found)
        # A log that was cut at a snapshot has its first epoch from the log start on.
        found.epochs.truncate_from_start(start.offset)
    # At last, because it compares with the log's end after the repair.
    found.superseded_by = _superseding(found, start)


def _superseding(found: LogValidation, start: LogStart) -> SnapshotId | None:
    """Return the snapshot beyond the log's end, at which the log must restart; None without one."""
    # -1 without segments: any snapshot lies beyond that.
    end_offset = found.active.tail.next_offset if found.active else -1
    # A log that ends below its own start cannot be continued: the records in between are in
    # snapshots alone.
    if start.snapshot is not None and end_offset < start.offset:
        return max(
            found.listing.snapshots, key=lambda snapshot: (snapshot.epoch, snapshot.end_offset)
        )
    last_epoch = found.epochs.latest
    if last_epoch is None:
        # An empty log is in the epoch of its snapshot (``KafkaMetadataLog.lastFetchedEpoch``).
        last_epoch = start.snapshot.epoch if start.snapshot else -1
    return superseding_snapshot(found.listing, last_epoch, end_offset)


def _is_complete(
    directory: Path, base: int, following: int, settings: LogSettings, found: LogValidation
) -> bool:
    """Return whether a segment ends where the one at ``following`` begins; one whose index files
    are not what its batches say is noted. Its epochs are added to those found.
    """
    scan = _scan(directory, base, settings, following, found)
    # Both: a segment may be whole and end too early, because batches were removed from its end.
    if scan.size != scan.file_size or scan.tail.next_offset != following:
        return False
    # A sealed segment has an entry for its largest timestamp: ``seal`` adds it.
    scan.index.add_latest_time()
    if not has_indexes(directory, scan):
        found.unindexed.append(scan)
    _add_epochs(scan, found)
    return True


def _scan(
    directory: Path, base: int, settings: LogSettings, point: int, found: LogValidation
) -> SegmentScan:
    """Check the batches of a segment behind the last index entry below ``point``; all of them if
    index, leader epochs and batches contradict each other.
    """
    start, interval = log_start(found.listing).offset, settings.index_interval_bytes
    saved = found.epochs.saved
    scan = scan_from(directory, base, interval, point, saved, start)
    return scan or scan_segment(directory, base, interval, found.epochs.latest or 0)


def _add_epochs(scan: SegmentScan, found: LogValidation) -> None:
    for epoch, offset in scan.epochs:
        found.epochs.assign(epoch, offset)


def _saved_epochs(directory: Path) -> list[tuple[int, int]] | None:
    """Return the content of ``leader-epoch-checkpoint``, which the file of an interrupted
    truncation may belie: None if it cannot be read.
    """
    try:
        return read_leader_epochs(directory / LEADER_EPOCHS)
    # Kafka throws KafkaStorageException for a file that it cannot parse
    # (``CheckpointFileWithFailureHandler.read``). The batches have the epochs, too.
    except (FileNotFoundError, DecodeError):
        return None


def _check_high_watermark(directory: Path, found: LogValidation, high_watermark: int) -> None:
    end_offset = found.active.tail.next_offset if found.active else 0
    # The snapshot has everything below its end, whatever the segments have lost.
    if found.superseded_by:
        end_offset = found.superseded_by.end_offset
    # A torn write is always behind the high watermark, as records are synced before they count. A
    # log that ends below it has lost committed records, and a truncation would make the loss final.
    # ``>=``: a log that ends exactly there has lost nothing that was committed.
    if end_offset >= high_watermark:
        return
    scan = found.active
    path = directory / segment_name(scan.base_offset) if scan else directory
    what = scan.fault.reason if scan and scan.fault else "the log ends"
    reason = (
        f"{what} at offset {end_offset}, but up to {high_watermark} it was committed and on disk"
    )
    raise LogDamaged(str(path), scan.size if scan else -1, reason, _ANEW)
