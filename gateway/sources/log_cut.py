"""Cuts the log of a partition back to what its leader has, with everything that follows from its
batches: epochs, producers, aborted transactions, checkpoints.

It runs in a thread, and decides nothing. A crash at any instant leaves a log that is a beginning of
the old one, or an empty one; the next Fetch compares it with the leader's again. Source:
``UnifiedLog.truncateTo``, ``truncateFullyAndStartAt``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.log.partition.unified_log import UnifiedLog
    from gateway.sources.stored_log import StoredLog


def cut(stored: StoredLog, log: UnifiedLog, offset: int) -> bool:
    """Drop every record from ``offset`` on; whether that changed anything. Raises LogError."""
    start, end, epoch = log.start_offset, log.end_offset, log.latest_epoch
    if offset < start or offset == start < end:
        restart(stored, log, offset)
        return True
    if offset < end:
        # Before the batches: what is said of records behind the end would be taken as said of
        # those that come in their place.
        stored.checkpoints.recovery_points.lower(stored.topic, stored.index, offset)
        stored.producers.remove_snapshots_behind(offset)
    log.truncate_to(offset, high_watermark=0)
    if log.end_offset < end:
        stored.reread()
        _note(stored, log)
    return (log.end_offset, log.latest_epoch) != (end, epoch)


def restart(stored: StoredLog, log: UnifiedLog, offset: int) -> None:
    """Drop every record, and begin anew at ``offset``. Raises LogError."""
    # First: a log that ends before its checkpointed start would begin there after a crash, and
    # records between the two would not be fetched.
    stored.checkpoints.forget(stored.topic, stored.index)
    log.truncate_fully_and_start_at(offset, 0)
    stored.reread()


def _note(stored: StoredLog, log: UnifiedLog) -> None:
    """Note what the checkpoints of a log that was cut are now."""
    stored.checkpoints.recovery_points.lower(stored.topic, stored.index, log.end_offset)
    start = log.start_offset if log.start_offset > log.bases[0] else None
    stored.checkpoints.log_starts.write(stored.topic, stored.index, start)
    cleaned = stored.checkpoints.cleaned.get(stored.topic, stored.index)
    if cleaned is not None and cleaned > log.end_offset:
        stored.checkpoints.cleaned.write(stored.topic, stored.index, log.end_offset)
