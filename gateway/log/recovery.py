"""Opens a log directory after whatever happened to it: repairs what an examination found.

A crash in between is no harm: it leaves a directory whose examination leads to the same end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.log.disk import Disk, doing
from gateway.log.epoch_cache import EpochCache
from gateway.log.examination import Findings, examine
from gateway.log.file_names import segment_name
from gateway.log.listing import LogStart, list_directory, log_start
from gateway.log.log_settings import LogSettings
from gateway.log.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX, Segment, SegmentScan
from gateway.snapshot_id import SnapshotId

#: What Kafka and we leave behind when we stop in the middle of something: never finished, or already given up.
_LEFTOVER: Final = re.compile(
    r"[0-9]{20}\S*\.(part|deleted|cleaned|swap)|(leader-epoch-checkpoint|quorum-state|partition\.metadata)\.tmp", re.ASCII
)
_INDEX: Final = re.compile(r"([0-9]{20})\.(index|timeindex|txnindex)", re.ASCII)


@dataclass(slots=True)
class Recovered:
    """An open log: the base offsets of the segments before the active one, the active one, epochs, where it starts."""

    closed: list[int]
    active: Segment
    epochs: EpochCache
    start: LogStart


def recover(directory: Path, disk: Disk, settings: LogSettings, high_watermark: int, problems: list[str]) -> Recovered:
    """Open the log in ``directory``, which must exist; sentences on what was repaired go to ``problems``.

    ``high_watermark``: what lies below it was committed and synced, so its loss is damage. Raises LogDamaged, DiskFailed.
    """
    with doing("read", directory):
        found = examine(directory, settings, high_watermark)
        _remove_leftovers(directory, disk)
        for fault in found.unneeded:
            problems.append(f"{fault}; a snapshot that the log does not need: removed")
            disk.remove(Path(fault.path))
        return _repair(directory, disk, settings, found, problems)


def restart_at(
    directory: Path, disk: Disk, settings: LogSettings, bases: list[int], snapshot: SnapshotId, epochs: EpochCache
) -> Segment:
    """Drop the segments ``bases`` and begin an empty one at the snapshot's end (``UnifiedLog.truncateFullyAndStartAt``).

    Newest first: what is left at any instant is a log that the snapshot supersedes, and opening it leads here again.
    Raises DiskFailed.
    """
    remove_segments(directory, disk, bases)
    segment = Segment.create(disk, directory, snapshot.end_offset, settings.index_interval_bytes)
    try:
        epochs.clear()
        epochs.save(disk, directory)
    except BaseException:
        segment.close()
        raise
    return segment


def remove_segments(directory: Path, disk: Disk, bases: list[int]) -> None:
    """Delete segments, the newest first, so that what is left at any instant is the log's beginning. Raises DiskFailed."""
    for base_offset in sorted(bases, reverse=True):
        delete_segment(directory, disk, base_offset)
        disk.sync_directory(directory)  # or a crash could leave a newer one, and a log that begins there


def delete_segment(directory: Path, disk: Disk, base_offset: int) -> str:
    """Delete one segment's files; returns its name. Raises DiskFailed."""
    path = directory / segment_name(base_offset)
    disk.remove(path)
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        disk.remove(path.with_suffix(suffix))
    return path.name


def _repair(directory: Path, disk: Disk, settings: LogSettings, found: Findings, problems: list[str]) -> Recovered:
    if found.superseded_by:
        return _restarted(directory, disk, settings, found, problems)
    if found.active is None:
        active = Segment.create(disk, directory, 0, settings.index_interval_bytes)
    else:
        _tell_of_cut(directory, found, found.active, problems)
        remove_segments(directory, disk, found.unreachable)
        for scan in found.unindexed:
            rebuilt = Segment(disk, directory, scan)
            rebuilt.seal()
            rebuilt.close()
        active = Segment(disk, directory, found.active)
        disk.sync_directory(directory)
    try:
        found.epochs.save(disk, directory)
        active.flush()
    except BaseException:
        active.close()
        raise
    return Recovered(found.closed, active, found.epochs, log_start(list_directory(str(directory))))


def _remove_leftovers(directory: Path, disk: Disk) -> None:
    names = {entry.name for entry in directory.iterdir()}
    for name in sorted(names):
        index = _INDEX.fullmatch(name)
        if _LEFTOVER.fullmatch(name) or (index and f"{index[1]}.log" not in names):
            disk.remove(directory / name)


def _restarted(directory: Path, disk: Disk, settings: LogSettings, found: Findings, problems: list[str]) -> Recovered:
    """Finish what a crash between downloading a snapshot and dropping the log behind it left (``KafkaMetadataLog.apply``)."""
    snapshot = found.superseded_by
    assert snapshot is not None
    bases = [base for base, _ in found.listing.segments]
    if bases:
        problems.append(f"{directory}: the log ends before snapshot {snapshot.file_name}: it begins anew behind that")
    active = restart_at(directory, disk, settings, bases, snapshot, found.epochs)
    return Recovered([], active, found.epochs, LogStart(snapshot.end_offset, snapshot))


def _tell_of_cut(directory: Path, found: Findings, scan: SegmentScan, problems: list[str]) -> None:
    path = directory / segment_name(scan.base_offset)
    if scan.file_size > scan.size:
        why = scan.fault.reason if scan.fault else "an unfinished batch"
        problems.append(f"{path}: {scan.file_size - scan.size} bytes from byte {scan.size} on cut off: {why}")
    if found.unreachable:
        names = ", ".join(segment_name(base) for base in found.unreachable)
        problems.append(f"{directory}: {names} removed: the log before ends at offset {scan.tail.next_offset}")
