"""Chooses and deletes old snapshots and segments, by the rules of ``KafkaMetadataLog.maybeClean``.

It never deletes the newest snapshot. When to clean is decided in
``gateway.server.quorum.log_cleaner``.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gateway.log.files.disk import Disk
from gateway.log.metadata.listing import list_directory
from gateway.log.metadata.snapshot import last_contained_log_timestamp
from gateway.log.partition.log_settings import LogSettings
from gateway.log.segments.batch_index import BatchIndex
from kwire.metadata_log.file_names import segment_name
from kwire.metadata_log.open_file import OpenFile
from kwire.metadata_log.snapshot_id import SnapshotId

#: The smallest budget of a scan: it reads the first chunk, which holds the header.
_HEADER_WORK: Final = 1


def oldest_to_keep(
    directory: Path, bases: Sequence[int], settings: LogSettings, high_watermark: int, now_ms: int
) -> SnapshotId | None:
    """Return the snapshot before which everything can be deleted, None if nothing can. ``bases``:
    the log's segments, oldest first.

    Snapshots are deleted one by one from the oldest while segments and snapshots together exceed
    ``retention_bytes``, then while the last record in one is older than ``retention_ms``; the next
    one must lie within the high watermark. Raises OSError.
    """
    snapshots = list_directory(str(directory)).snapshots
    # Once, as ``loadSnapshotSizes`` does: a file may go while the rules are applied.
    sizes = {snapshot: (directory / snapshot.file_name).stat().st_size for snapshot in snapshots}
    segments = {base: (directory / segment_name(base)).stat().st_size for base in bases}
    kept: SnapshotId | None = None
    # In pairs (``cleanSnapshots``), so that the newest one is never deleted.
    for snapshot, following in itertools.pairwise(snapshots):
        left = [one for one in snapshots if one >= snapshot]
        # Kafka deletes segments together with each snapshot, so the segments below ``kept`` do not
        # count.
        total = sum(sizes[one] for one in left) + sum(
            segments[base] for base in _segments_from(bases, kept)
        )
        # ``<``: a log of exactly this size is not too large, as in ``cleanSnapshotsRetentionSize``.
        too_large = 0 <= settings.retention_bytes < total
        if not (too_large or _is_too_old(directory / snapshot.file_name, settings, now_ms)):
            break
        # The log would start beyond what is committed here (``maybeIncrementLogStartOffset`` throws
        # then).
        if following.end_offset > high_watermark:
            break
        kept = following
    return kept


def segments_before(bases: Sequence[int], snapshot: SnapshotId) -> list[int]:
    """Return the segments wholly below the snapshot's end, oldest first; never the last one."""
    # Whole segments only: the log start may lie inside one (``UnifiedLog.deleteOldSegments``).
    return [base for base in bases if base not in _segments_from(bases, snapshot)]


def delete_snapshots_before(directory: Path, disk: Disk, snapshot: SnapshotId) -> list[str]:
    """Delete the snapshots older than one, the oldest first; return their names. Raises DiskFailed,
    OSError.
    """
    names = [one.file_name for one in list_directory(str(directory)).snapshots if one < snapshot]
    for name in names:
        disk.remove(directory / name)
    if names:
        disk.sync_directory(directory)
    return names


def _segments_from(bases: Sequence[int], snapshot: SnapshotId | None) -> list[int]:
    """Return the segments with records at or above the snapshot's end; always the last one."""
    end_offset = snapshot.end_offset if snapshot else 0
    return [base for base, following in itertools.pairwise(bases) if following > end_offset] + list(
        bases[-1:]
    )


def _is_too_old(path: Path, settings: LogSettings, now_ms: int) -> bool:
    if settings.retention_ms < 0:
        return False
    index = BatchIndex(OpenFile(str(path)), 0)
    # The header is in the first chunk: a snapshot may have gigabytes.
    index.scan(_HEADER_WORK)
    timestamp = last_contained_log_timestamp(index)
    # A snapshot whose header cannot be read is kept: nothing is known of its age.
    return timestamp is not None and now_ms - timestamp > settings.retention_ms
