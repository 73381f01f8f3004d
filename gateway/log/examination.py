"""What is in a log directory, and what has to be done about it; only looks, so that whatever is refused was not changed.

Only the last segment is checked batch by batch, CRC included: every other one was synced before the next was begun. Of
those only what follows their last index entry is checked, which shows that they end where the next one begins.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from gateway.log.batch_check import Tail, check_file
from gateway.log.epoch_cache import EpochCache
from gateway.log.errors import LogDamaged
from gateway.log.file_names import segment_name
from gateway.log.leader_epoch_checkpoint import FILE_NAME as LEADER_EPOCHS
from gateway.log.leader_epoch_checkpoint import read_leader_epochs
from gateway.log.listing import Listing, LogStart, list_directory, log_start, superseding_snapshot
from gateway.log.log_settings import LogSettings
from gateway.log.open_file import OpenFile
from gateway.log.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX, SegmentScan, note_epochs, scan_segment
from gateway.log.segment_index import OFFSET_ENTRY, TIME_ENTRY
from gateway.log.snapshot_writer import snapshot_fault
from gateway.snapshot_id import SnapshotId
from kwire.errors import DecodeError

_ANEW: Final = "restore it from a copy, or remove the whole data directory: it is fetched anew from the quorum"


@dataclass(slots=True)
class Findings:
    """What is on disk, and what has to be done about it."""

    listing: Listing
    closed: list[int] = field(default_factory=list)
    unindexed: list[SegmentScan] = field(default_factory=list)  # closed segments whose indexes are missing or wrong
    active: SegmentScan | None = None
    unreachable: list[int] = field(default_factory=list)  # segments behind a gap
    superseded_by: SnapshotId | None = None
    unneeded: list[DecodeError] = field(default_factory=list)  # what is wrong with snapshots that the log can do without
    epochs: EpochCache = field(default_factory=EpochCache)


def examine(directory: Path, settings: LogSettings, high_watermark: int) -> Findings:
    """Look at everything. ``high_watermark``: what lies below it was committed and synced, so its loss is damage.

    Raises LogDamaged, DiskFailed, OSError.
    """
    listing, unneeded = _without_bad_snapshots(directory, list_directory(str(directory)))
    found = Findings(listing, unneeded=unneeded)
    _examine_segments(directory, settings, found)
    _check_high_watermark(directory, found, high_watermark)
    return found


def _without_bad_snapshots(directory: Path, listing: Listing) -> tuple[Listing, list[DecodeError]]:
    """The listing without the newest snapshots that are damaged, and what is wrong with them; what the log starts at is whole."""
    unneeded: list[DecodeError] = []
    while listing.snapshots:
        start = log_start(listing).snapshot
        latest = max(listing.snapshots, key=lambda snapshot: (snapshot.epoch, snapshot.end_offset))
        faults = {one: snapshot_fault(directory / one.file_name) for one in {start, latest} if one}
        fault = faults.get(start) if start else None
        if fault is not None:
            raise LogDamaged(fault.path, fault.offset, f"the snapshot that the log starts at is damaged: {fault.reason}", _ANEW)
        fault = faults[latest]
        if fault is None:
            break
        unneeded.append(fault)
        listing = Listing(listing.segments, tuple(one for one in listing.snapshots if one != latest))
    return listing, unneeded


def _examine_segments(directory: Path, settings: LogSettings, found: Findings) -> None:
    listing = found.listing
    bases = [base for base, _ in listing.segments]
    start = log_start(listing)
    if start.offset and start.snapshot is None:
        reason = f"the log starts at offset {start.offset} and there is no snapshot of what was before"
        raise LogDamaged(str(directory), -1, reason, _ANEW)
    for base, following in itertools.pairwise(bases):
        if not _is_whole(directory, base, following, settings, found):
            break
        found.closed.append(base)
    bases = bases[len(found.closed) :]
    if bases:
        found.epochs = _epochs_before(directory, found.closed, bases[0], start, settings)
        found.active = scan_segment(directory, bases[0], settings.index_interval_bytes, found.epochs.latest or 0)
        found.unreachable = bases[1:]
        for epoch, offset in found.active.epochs:
            found.epochs.assign(epoch, offset)
        found.epochs.truncate_from_start(start.offset)
    found.superseded_by = _superseding(found, start)


def _superseding(found: Findings, start: LogStart) -> SnapshotId | None:
    """The snapshot that the log ends before, so that it has to begin anew there."""
    end_offset = found.active.tail.next_offset if found.active else -1
    if start.snapshot is not None and end_offset < start.offset:
        return max(found.listing.snapshots, key=lambda snapshot: (snapshot.epoch, snapshot.end_offset))
    last_epoch = found.epochs.latest
    if last_epoch is None:
        last_epoch = start.snapshot.epoch if start.snapshot else -1
    return superseding_snapshot(found.listing, last_epoch, end_offset)


def _is_whole(directory: Path, base: int, following: int, settings: LogSettings, found: Findings) -> bool:
    """Whether a segment ends where the one at ``following`` begins; one whose indexes are bad is checked from its beginning."""
    path = directory / segment_name(base)
    file = OpenFile(str(path))
    size = file.status()[0]
    entry = _last_entries(path, base, following)
    if entry is not None and _leads_to(entry, file, size, following, settings):
        return True
    scan = scan_segment(directory, base, settings.index_interval_bytes, 0)
    if scan.size != size or scan.tail.next_offset != following:
        return False
    found.unindexed.append(scan)
    return True


class _Entries(NamedTuple):
    """The last entries of a segment's indexes; position 0 without an offset entry."""

    position: int
    last_offset: int
    timestamp: int


def _leads_to(entry: _Entries, file: OpenFile, size: int, following: int, settings: LogSettings) -> bool:
    """Whether the last entries are of this segment and the last that it needs, and the rest of it good up to ``following``."""
    end, next_offset = entry.position, -1
    for checked in check_file(file, entry.position, size, Tail(-1, 0)):
        for batch in checked.batches:
            if batch.position == entry.position != 0 and batch.last_offset != entry.last_offset:
                return False
            if batch.position - entry.position > settings.index_interval_bytes or batch.max_timestamp > entry.timestamp:
                return False
        end, next_offset = checked.end or end, checked.tail.next_offset
    return end == size and next_offset == following


def _last_entries(path: Path, base: int, following: int) -> _Entries | None:
    """None where the indexes cannot be those of a finished segment with these offsets."""
    try:
        index = path.with_suffix(INDEX_SUFFIX).read_bytes()
        times = path.with_suffix(TIME_INDEX_SUFFIX).read_bytes()
    except FileNotFoundError:
        return None
    if len(index) % OFFSET_ENTRY.size or len(times) % TIME_ENTRY.size or not times:
        return None
    timestamp, time_offset = TIME_ENTRY.unpack_from(times, len(times) - TIME_ENTRY.size)
    offset, position = OFFSET_ENTRY.unpack_from(index, len(index) - OFFSET_ENTRY.size) if index else (0, 0)
    if not (0 <= offset < following - base and 0 <= time_offset < following - base and (position > 0 or not index)):
        return None
    return _Entries(position, base + offset, timestamp)


def _epochs_before(directory: Path, closed: list[int], active: int, start: LogStart, settings: LogSettings) -> EpochCache:
    """The epochs of the closed segments: as written down if that fits what they begin with, else read from all of them."""
    try:
        saved = read_leader_epochs(directory / LEADER_EPOCHS)
    except (FileNotFoundError, DecodeError):
        saved = None
    entries = [entry for entry in saved or () if entry[1] < active]
    if not all(_begins_with(directory, base, entries, start.offset) for base in closed):
        entries = []
        for base in closed:
            for epoch, offset in scan_segment(directory, base, settings.index_interval_bytes, 0).epochs:
                if not entries or epoch > entries[-1][0]:
                    entries.append((epoch, offset))
    return EpochCache(entries if closed else (), saved=saved)


def _begins_with(directory: Path, base: int, entries: list[tuple[int, int]], start_offset: int) -> bool:
    """Whether the first batch of a segment has the epoch that ``entries`` give; below the log start they need not know."""
    if not entries:
        return False
    epochs: list[tuple[int, int]] = []
    for checked in check_file(OpenFile(str(directory / segment_name(base))), 0, 1 << 62, Tail(base, 0)):
        note_epochs(epochs, checked.batches[:1])
        break
    known = [epoch for epoch, offset in entries if offset <= base]
    return base < start_offset if not known else known[-1:] == [epoch for epoch, _ in epochs]


def _check_high_watermark(directory: Path, found: Findings, high_watermark: int) -> None:
    end_offset = found.active.tail.next_offset if found.active else 0
    if found.superseded_by:
        end_offset = found.superseded_by.end_offset
    if end_offset >= high_watermark:
        return
    scan = found.active
    path = directory / segment_name(scan.base_offset) if scan else directory
    what = scan.fault.reason if scan and scan.fault else "the log ends"
    reason = f"{what} at offset {end_offset}, but up to {high_watermark} it was committed and on disk"
    raise LogDamaged(str(path), scan.size if scan else -1, reason, _ANEW)
