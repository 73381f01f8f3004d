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
from typing import Final, NamedTuple

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
from gateway.log.segments.batch_check import Tail, batch_at, check_file
from gateway.log.segments.epoch_cache import EpochCache
from gateway.log.segments.segment import (
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    SegmentScan,
    scan_from,
    scan_segment,
)
from gateway.log.segments.segment_index import OFFSET_ENTRY, TIME_ENTRY
from kwire.errors import DecodeError
from kwire.metadata_log.file_names import segment_name
from kwire.metadata_log.open_file import OpenFile, read_regular
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
    for base, following in itertools.pairwise(bases):
        if not _is_complete(directory, base, following, settings, found):
            break
        found.closed.append(base)
    bases = bases[len(found.closed) :]
    if bases:
        found.epochs = _epochs_before(directory, found.closed, bases[0], start, settings)
        interval = settings.index_interval_bytes
        found.active = scan_from(
            directory, bases[0], interval, recovery_point, found.epochs.saved, start.offset
        ) or scan_segment(directory, bases[0], interval, found.epochs.latest or 0)
        # Behind a gap: their offsets may be written again, and two records cannot share one.
        found.unreachable = bases[1:]
        for epoch, offset in found.active.epochs:
            found.epochs.assign(epoch, offset)
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
    """Return whether a segment ends where the one at ``following`` begins; one with bad indexes is
    checked from its beginning.
    """
    path = directory / segment_name(base)
    file = OpenFile(str(path))
    size = file.status()[0]
    entry = _last_entries(path, base, following)
    if entry is not None and _leads_to(entry, file, size, following, settings):
        return True
    # The indexes are missing or wrong, so only the batches themselves can tell.
    scan = scan_segment(directory, base, settings.index_interval_bytes, 0)
    # Both: a segment may be whole and end too early, because batches were removed from its end.
    if scan.size != size or scan.tail.next_offset != following:
        return False
    found.unindexed.append(scan)
    return True


class _Entries(NamedTuple):
    """The last entries of a segment's indexes; position 0 without an offset entry."""

    position: int
    last_offset: int
    timestamp: int


def _leads_to(
    entry: _Entries, file: OpenFile, size: int, following: int, settings: LogSettings
) -> bool:
    """Return whether the entries are the segment's own last ones, and the batches behind them are
    good up to ``following``.
    """
    end, next_offset = entry.position, -1
    # Any offset at first, because an entry has the last offset of its batch and the header the base
    # offset.
    for checked in check_file(file, entry.position, size, Tail(-1, 0)):
        for batch in checked.batches:
            # An entry of another file of this name, as after the indexes alone were restored from a
            # copy.
            if batch.position == entry.position != 0 and batch.last_offset != entry.last_offset:
                return False
            # Such a batch has an entry of its own, so these are not the last ones of the segment.
            if (
                batch.position - entry.position > settings.index_interval_bytes
                or batch.max_timestamp > entry.timestamp
            ):
                return False
        end, next_offset = checked.end or end, checked.tail.next_offset
    return end == size and next_offset == following


def _last_entries(path: Path, base: int, following: int) -> _Entries | None:
    """Return the last entries; None if the indexes cannot be those of a finished segment with these
    offsets.
    """
    try:
        index = read_regular(path.with_suffix(INDEX_SUFFIX))
        times = read_regular(path.with_suffix(TIME_INDEX_SUFFIX))
    except FileNotFoundError:
        return None
    # A sealed segment has at least one time entry: ``seal`` adds it.
    if len(index) % OFFSET_ENTRY.size or len(times) % TIME_ENTRY.size or not times:
        return None
    timestamp, time_offset = TIME_ENTRY.unpack_from(times, len(times) - TIME_ENTRY.size)
    offset, position = (
        OFFSET_ENTRY.unpack_from(index, len(index) - OFFSET_ENTRY.size) if index else (0, 0)
    )
    # The first batch of a segment has no offset entry (``LogSegment.append`` counts the bytes
    # before it), so position 0 is one of the zeros behind the entries.
    if not (
        0 <= offset < following - base
        and 0 <= time_offset < following - base
        and (position > 0 or not index)
    ):
        return None
    return _Entries(position, base + offset, timestamp)


def _epochs_before(
    directory: Path, closed: list[int], active: int, start: LogStart, settings: LogSettings
) -> EpochCache:
    """Return the epochs of the closed segments: from the checkpoint file if it agrees with the
    first batch of each segment, else from a scan of all.
    """
    try:
        saved = read_leader_epochs(directory / LEADER_EPOCHS)
    # Kafka throws KafkaStorageException for a file that it cannot parse
    # (``CheckpointFileWithFailureHandler.read``). The batches have the epochs, too.
    except (FileNotFoundError, DecodeError):
        saved = None
    entries = [entry for entry in saved or () if entry[1] < active]
    # The file of an interrupted truncation may have epochs that the log has not, or lack newer
    # ones.
    if not all(_begins_with(directory, base, entries, start.offset) for base in closed):
        entries = []
        for base in closed:
            for epoch, offset in scan_segment(
                directory, base, settings.index_interval_bytes, 0
            ).epochs:
                if not entries or epoch > entries[-1][0]:
                    entries.append((epoch, offset))
    return EpochCache(entries if closed else (), saved=saved)


def _begins_with(
    directory: Path, base: int, entries: list[tuple[int, int]], start_offset: int
) -> bool:
    """Return whether the first batch of a segment has the epoch that ``entries`` give. Entries
    below the log start may be missing.
    """
    if not entries:
        return False
    first = batch_at(OpenFile(str(directory / segment_name(base))), 0)
    known = [epoch for epoch, offset in entries if offset <= base]
    if not known:
        return base < start_offset
    return first is not None and known[-1] == first.epoch


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
