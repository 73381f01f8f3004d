"""Opens the log of a partition that holds data, with its producers and its readers. Blocking."""

from __future__ import annotations

import bisect
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gateway.log.files.disk import Disk, doing
from gateway.log.files.partition_metadata import FILE_NAME, format_topic_id
from gateway.log.partition.log_loader import KnownPart, iter_headers, load_log
from gateway.log.partition.log_settings import LogSettings
from gateway.log.partition.roll_policy import rolls_when_told
from gateway.log.partition.unified_log import UnifiedLog
from gateway.log.reading.own_log import OwnLog
from gateway.log.segments.batch_check import Checked
from gateway.log.segments.segment_scan import scan_segment
from gateway.log.segments.segment_swap import finish_swaps
from gateway.sources.producer_log import ProducerLog

if TYPE_CHECKING:
    from kwire.uuid import Uuid


class OpenedLog(NamedTuple):
    """A log, what its readers see, and its producers."""

    log: UnifiedLog
    reader: OwnLog
    producers: ProducerLog


def read_producers(log: UnifiedLog, recovery_point: int) -> ProducerLog:
    """Return the producers of a log that was cut, from its newest snapshot and the batches behind
    it (``UnifiedLog.rebuildProducerState``). Raises LogError.
    """
    producers = ProducerLog(log.directory, log.disk)
    folded = producers.begin(recovery_point)

    def note(checked: Checked) -> None:
        for header in iter_headers(checked):
            producers.fold(header, checked.data)

    first = max(0, bisect.bisect_right(log.bases, folded) - 1)
    with doing("read", log.directory):
        for base in log.bases[first:]:
            interval = log.settings.index_interval_bytes
            scan_segment(log.directory, base, interval, 0, note, gaps=True)
    producers.finish(log.bases, log.end_offset)
    return producers


def open_log(
    directory: Path,
    topic_id: Uuid,
    disk: Disk,
    settings: LogSettings,
    repairs: list[str],
    log_start: int,
    recovery_point: int = 0,
) -> OpenedLog:
    """Open the log in ``directory``, or begin one. ``repairs`` gets a sentence for each repair.
    Records below ``log_start`` were deleted by a client; what is below ``recovery_point`` is on
    disk. Raises LogError.
    """
    disk.make_directory(directory)
    metadata = directory / FILE_NAME
    if not metadata.exists():
        disk.replace(metadata, format_topic_id(topic_id))
    with doing("read", directory):
        finish_swaps(directory, disk)
    point = recovery_point
    while True:
        producers = ProducerLog(directory, disk)
        known = KnownPart(point, producers.begin(point), log_start)
        loaded = load_log(directory, disk, settings, repairs, producers.fold, known)
        if known.folded <= loaded.active.end_offset:
            break
        # The snapshot counts records that were lost: another one, or all batches, tell of those
        # that are left.
        loaded.active.close()
        point = loaded.active.end_offset
    log = UnifiedLog(directory, disk, settings, loaded, rolls=rolls_when_told, problems=[])
    producers.finish(log.bases, log.end_offset)
    with doing("read", directory):
        return OpenedLog(log, OwnLog(log, snapshot_prefix=False, is_compacted=True), producers)
