"""Decides how many of the oldest segments of a data partition are deleted
(``UnifiedLog.deleteOldSegments``). Deletes nothing.

Records of one segment go together: those before its newest one stay longer than the retention time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.log.partition.log_settings import LogSettings
from gateway.log.segments.segment import ReadableSegment

_NS_PER_MS: Final = 1_000_000


def count_expired(
    segments: Sequence[ReadableSegment], settings: LogSettings, log_start: int, now_ms: int
) -> int:
    """Return the number of segments that go, the oldest first. All of them do if the records of the
    last one are too old, too. Raises OSError.
    """
    return max(
        _too_old(segments, settings.retention_ms, now_ms),
        _too_much(segments, settings.retention_bytes),
        count_below([segment.base_offset for segment in segments], log_start),
    )


def _too_old(segments: Sequence[ReadableSegment], keep_ms: int, now_ms: int) -> int:
    if keep_ms < 0:
        return 0
    count = 0
    for segment in segments:
        # An empty active segment has no record to delete; one of the others was compacted.
        if (segment.size == 0 and segment is segments[-1]) or now_ms - newest(segment) <= keep_ms:
            break
        count += 1
    return count


def newest(segment: ReadableSegment) -> int:
    """Return the largest timestamp of a segment (ms); without one, the time of its last change."""
    timestamp, _ = segment.index.latest
    return timestamp if timestamp >= 0 else segment.file.status()[1] // _NS_PER_MS


def _too_much(segments: Sequence[ReadableSegment], keep_bytes: int) -> int:
    """Whole segments go while what is left is still as large as the retention, or larger."""
    if keep_bytes < 0:
        return 0
    surplus, count = sum(segment.size for segment in segments) - keep_bytes, 0
    for segment in segments:
        if (segment.size == 0 and segment is segments[-1]) or surplus < segment.size:
            break
        surplus -= segment.size
        count += 1
    return count


def count_below(bases: Sequence[int], log_start: int) -> int:
    """Return the number of segments below the log start, of those with these base offsets. The last
    segment stays: the log continues in it.
    """
    return sum(following <= log_start for following in bases[1:])
