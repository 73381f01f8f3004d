"""Deletes the oldest records of a partition's log: segments beyond the topic's retention, and what
a client asks for (``UnifiedLog.deleteOldSegments``, ``maybeIncrementLogStartOffset``).

Only records below the high watermark go. It runs in a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.log.files.disk import doing
from gateway.log.partition.retention import count_below, count_expired

if TYPE_CHECKING:
    from gateway.log.partition.unified_log import UnifiedLog
    from gateway.sources.stored_log import StoredLog


def delete_expired(stored: StoredLog, log: UnifiedLog, high_watermark: int, now_ms: int) -> None:
    """Delete the segments that are beyond the retention of the topic, and forget producers that
    were silent for long; ``now_ms`` is the wall clock. Raises LogError.
    """
    settings = stored.settings()
    stored.producers.states.remove_expired(now_ms, settings.producer_id_expiration_ms)
    with doing("look at", stored.directory):
        segments = [*log.closed_segments(), log.active_segment()]
        doomed = count_expired(segments, settings, log.start_offset, now_ms)
    # The replicas that are in sync have to get what is not committed.
    committed = sum(segment.end_offset <= high_watermark for segment in segments)
    doomed = min(doomed, committed)
    if not doomed:
        return
    # The last segment has to exist for the next record.
    if doomed == len(segments):
        stored.roll()
    _delete_oldest(stored, log, doomed)
    stored.show()


def start_at(stored: StoredLog, log: UnifiedLog, offset: int) -> None:
    """Delete the records below ``offset``; segments that have no others go. Raises LogError."""
    if offset <= log.start_offset:
        return
    # First, so that no crash brings back what a client was told is gone. Kafka writes it once a
    # minute.
    stored.checkpoints.log_starts.write(stored.topic, stored.index, offset)
    log.start_at(offset, 0)
    _delete_oldest(stored, log, count_below(log.bases, offset))
    stored.show()


def _delete_oldest(stored: StoredLog, log: UnifiedLog, count: int) -> None:
    """Delete the oldest segments; the log start moves behind them."""
    if count:
        stored.deleted += log.delete_closed(log.bases[:count])
        log.start_at(log.start_offset, 0)
    start = log.start_offset if log.start_offset > log.bases[0] else None
    stored.checkpoints.log_starts.write(stored.topic, stored.index, start)
