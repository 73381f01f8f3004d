"""Holds the segments of a log that was recovered, and begins a log anew.

How a log is recovered depends on the log: ``gateway.log.metadata.recovery``,
``gateway.log.partition.salvage_recovery``. Source: ``LoadedLogOffsets``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gateway.log.files.disk import Disk
from gateway.log.partition.log_settings import LogSettings
from gateway.log.segments.epoch_cache import EpochCache
from gateway.log.segments.segment import Segment, delete_segments


@dataclass(slots=True)
class LoadedLog:
    """The segments of a log that was recovered (``LoadedLogOffsets``): base offsets of the closed
    segments, the active segment, the epochs, and the log start with the epoch of the record before
    it.
    """

    closed: list[int]
    active: Segment
    epochs: EpochCache
    start_offset: int
    start_epoch: int = 0


def restart(
    directory: Path,
    disk: Disk,
    settings: LogSettings,
    bases: Sequence[int],
    offset: int,
    epochs: EpochCache,
    delay_ms: int = 0,
) -> Segment:
    """Delete the segments ``bases``, whose files stay under other names for ``delay_ms``, and
    create an empty one at ``offset``.

    The newest segment goes first: the rest is at any instant a log that ends below ``offset``, and
    recovery then repeats this step. Raises DiskFailed.
    """
    delete_segments(directory, disk, sorted(bases, reverse=True), delay_ms)
    segment = Segment.create(disk, directory, offset, settings.index_interval_bytes)
    try:
        # After the segment: a crash in between leaves entries of the old log, which the next
        # recovery drops.
        epochs.clear()
        epochs.save(disk, directory)
    except BaseException:
        segment.close()
        raise
    return segment
