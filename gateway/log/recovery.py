"""Opens a log directory after a clean stop, a crash or damage: repairs what the validation found.

A crash during the repair is harmless: validating the directory again leads to the same result.
Which records may be lost is decided in ``gateway.log.log_validation``. Source: ``LogLoader``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.log.disk import Disk, doing
from gateway.log.epoch_cache import EpochCache
from gateway.log.listing import LogStart, list_directory, log_start
from gateway.log.log_settings import LogSettings
from gateway.log.log_validation import LogValidation, validate_log
from gateway.log.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX, Segment, SegmentScan
from kwire.metadata_log.file_names import segment_name
from kwire.metadata_log.snapshot_id import SnapshotId

#: Files that Kafka or kwire leave after a crash: unfinished ones, and ones marked for deletion.
_LEFTOVER: Final = re.compile(
    r"[0-9]{20}\S*\.(part|deleted|cleaned|swap)"
    r"|(leader-epoch-checkpoint|quorum-state|partition\.metadata)\.tmp",
    re.ASCII,
)
_INDEX: Final = re.compile(r"([0-9]{20})\.(index|timeindex|txnindex)", re.ASCII)


@dataclass(slots=True)
class LoadedLog:
    """An open log: base offsets of the closed segments, the active segment, epochs, log start
    (``LoadedLogOffsets``).
    """

    closed: list[int]
    active: Segment
    epochs: EpochCache
    start: LogStart


def recover(
    directory: Path, disk: Disk, settings: LogSettings, high_watermark: int, problems: list[str]
) -> LoadedLog:
    """Open the log in ``directory``, which must exist; add a sentence to ``problems`` for each
    repair.

    Records below ``high_watermark`` were committed and synced, so their loss is damage. Raises
    LogDamaged, DiskFailed.
    """
    with doing("read", directory):
        # Everything is read before the first change: a directory that is refused can still be
        # copied as it was.
        found = validate_log(directory, settings, high_watermark)
        # A download begins anew, so half a snapshot is of no use
        # (``KafkaMetadataLog.recoverSnapshots``).
        _remove_leftovers(directory, disk)
        for fault in found.damaged_snapshots:
            # The log still has the records, or an older snapshot and the records behind it.
            problems.append(f"{fault}; a snapshot that the log does not need: removed")
            disk.remove(Path(fault.path))
        return _repair(directory, disk, settings, found, problems)


def truncate_fully_and_start_at(
    directory: Path,
    disk: Disk,
    settings: LogSettings,
    bases: list[int],
    snapshot: SnapshotId,
    epochs: EpochCache,
) -> Segment:
    """Delete the segments ``bases`` and create an empty one at the snapshot's end.

    The newest segment goes first: the rest is at any instant a log that the snapshot supersedes,
    and recovery then repeats this step. Raises DiskFailed. Source:
    ``UnifiedLog.truncateFullyAndStartAt``.
    """
    remove_segments(directory, disk, bases)
    segment = Segment.create(disk, directory, snapshot.end_offset, settings.index_interval_bytes)
    try:
        # After the segment: a crash in between leaves entries of the old log, which the next
        # recovery drops.
        epochs.clear()
        epochs.save(disk, directory)
    except BaseException:
        segment.close()
        raise
    return segment


def remove_segments(directory: Path, disk: Disk, bases: list[int]) -> None:
    """Delete segments, the newest first, so that the rest is at any instant the beginning of the
    log. Raises DiskFailed.
    """
    for base_offset in sorted(bases, reverse=True):
        delete_segment(directory, disk, base_offset)
        # Unlinks may reach the disk in any order: without this a crash could keep a newer segment
        # and lose an older one.
        disk.sync_directory(directory)


def delete_segment(directory: Path, disk: Disk, base_offset: int) -> str:
    """Delete one segment's files; return its name. Raises DiskFailed."""
    path = directory / segment_name(base_offset)
    # The .log file first: recovery deletes an index without its segment.
    disk.remove(path)
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        disk.remove(path.with_suffix(suffix))
    return path.name


def _repair(
    directory: Path, disk: Disk, settings: LogSettings, found: LogValidation, problems: list[str]
) -> LoadedLog:
    # Before the segments are looked at: the snapshot replaces all of them.
    if found.superseded_by:
        return _restarted(directory, disk, settings, found, problems)
    if found.active is None:
        # ``LogLoader.load`` creates the first segment, too.
        active = Segment.create(disk, directory, 0, settings.index_interval_bytes)
    else:
        # The problems are collected before the change, which may fail.
        _report_truncation(directory, found, found.active, problems)
        # Before the active segment is opened for appends: otherwise its new batches and the old
        # segments could have the same offsets.
        remove_segments(directory, disk, found.unreachable)
        for scan in found.unindexed:
            rebuilt = Segment(disk, directory, scan)
            # A closed segment needs its last time entry, and its indexes on disk (``_is_complete``
            # trusts them).
            rebuilt.seal()
            rebuilt.close()
        active = Segment(disk, directory, found.active)
        # For the files that ``Segment`` created: an index that was missing.
        disk.sync_directory(directory)
    try:
        found.epochs.save(disk, directory)
        # The bytes that recovery read may be in the page cache only. They are served from now on,
        # so they must survive a power failure.
        active.flush()
    except BaseException:
        active.close()
        raise
    start = log_start(list_directory(str(directory)))
    assert all(base < active.base_offset for base in found.closed), "the active segment is last"
    assert found.epochs.latest is None or found.epochs.entries[-1][1] <= active.end_offset, (
        "an epoch begins within the log"
    )
    return LoadedLog(found.closed, active, found.epochs, start)


def _remove_leftovers(directory: Path, disk: Disk) -> None:
    names = {entry.name for entry in directory.iterdir()}
    for name in sorted(names):
        index = _INDEX.fullmatch(name)
        # ``.txnindex`` too: Kafka writes it, kwire does not.
        if _LEFTOVER.fullmatch(name) or (index and f"{index[1]}.log" not in names):
            disk.remove(directory / name)


def _restarted(
    directory: Path, disk: Disk, settings: LogSettings, found: LogValidation, problems: list[str]
) -> LoadedLog:
    """Finish an interrupted replacement of the log by a downloaded snapshot
    (``KafkaMetadataLog.recoverSnapshots``).
    """
    snapshot = found.superseded_by
    assert snapshot is not None
    bases = [base for base, _ in found.listing.segments]
    if bases:
        problems.append(
            f"{directory}: the log ends before snapshot {snapshot.file_name}: "
            "it begins anew behind that"
        )
    active = truncate_fully_and_start_at(directory, disk, settings, bases, snapshot, found.epochs)
    return LoadedLog([], active, found.epochs, LogStart(snapshot.end_offset, snapshot))


def _report_truncation(
    directory: Path, found: LogValidation, scan: SegmentScan, problems: list[str]
) -> None:
    path = directory / segment_name(scan.base_offset)
    # A warning and no error: a process that was killed while it wrote leaves this.
    if scan.file_size > scan.size:
        why = scan.fault.reason if scan.fault else "an unfinished batch"
        problems.append(
            f"{path}: {scan.file_size - scan.size} bytes from byte {scan.size} on cut off: {why}"
        )
    if found.unreachable:
        names = ", ".join(segment_name(base) for base in found.unreachable)
        problems.append(
            f"{directory}: {names} removed: the log before ends at offset {scan.tail.next_offset}"
        )
