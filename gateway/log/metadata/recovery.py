"""Opens a log directory after a clean stop, a crash or damage: repairs what the validation found.

A crash during the repair is harmless: validating the directory again leads to the same result.
Which records may be lost is decided in ``gateway.log.metadata.log_validation``. Source:
``LogLoader``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from gateway.log.files.disk import Disk, doing
from gateway.log.metadata.listing import list_directory, log_start
from gateway.log.metadata.log_validation import LogValidation, validate_log
from gateway.log.partition.loaded_log import LoadedLog, restart
from gateway.log.partition.log_settings import LogSettings
from gateway.log.segments.segment import Segment, delete_segments
from gateway.log.segments.segment_scan import SegmentScan
from kwire.metadata_log.file_names import segment_name

#: Files that Kafka or kwire leave after a crash: unfinished ones, and ones marked for deletion.
_LEFTOVER: Final = re.compile(
    r"[0-9]{20}\S*\.(part|deleted|cleaned|swap)"
    r"|(leader-epoch-checkpoint|quorum-state|partition\.metadata)\.tmp",
    re.ASCII,
)
_INDEX: Final = re.compile(r"([0-9]{20})\.(index|timeindex|txnindex)", re.ASCII)


def recover(
    directory: Path,
    disk: Disk,
    settings: LogSettings,
    high_watermark: int,
    problems: list[str],
    *,
    recovery_point: int,
) -> LoadedLog:
    """Open the log in ``directory``, which must exist; add a sentence to ``problems`` for each
    repair. Batches and indexes before ``recovery_point`` are not read.

    Records below ``high_watermark`` were committed and synced, so their loss is damage. Raises
    LogDamaged, DiskFailed.
    """
    with doing("read", directory):
        # Everything is read before the first change: a directory that is refused can still be
        # copied as it was.
        found = validate_log(directory, settings, high_watermark, recovery_point)
        # A download begins anew, so half a snapshot is of no use
        # (``KafkaMetadataLog.recoverSnapshots``).
        _remove_leftovers(directory, disk)
        for fault in found.damaged_snapshots:
            # The log still has the records, or an older snapshot and the records behind it.
            problems.append(f"{fault}; a snapshot that the log does not need: removed")
            disk.remove(Path(fault.path))
        return _repair(directory, disk, settings, found, problems)


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
        # segments could have the same offsets. The newest first, so that the rest is at any instant
        # the beginning of the log.
        delete_segments(directory, disk, found.unreachable[::-1])
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
    return LoadedLog(found.closed, active, found.epochs, start.offset, start.epoch)


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
    active = restart(directory, disk, settings, bases, snapshot.end_offset, found.epochs)
    return LoadedLog([], active, found.epochs, snapshot.end_offset, snapshot.epoch)


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
