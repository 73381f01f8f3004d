"""Decides which part of a log is compacted, and whether it is time to.

It reads no record. Source: ``LogCleanerManager``, ``LogToClean``, ``Cleaner.groupSegmentsBySize``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from gateway.log.partition.cleanup_settings import CleanupSettings
from gateway.log.partition.retention import newest
from gateway.log.segments.batch_check import batch_at
from gateway.log.segments.segment import ReadableSegment

_INT32_MAX: Final = (1 << 31) - 1


class Cleanable(NamedTuple):
    """The part of a log that is not clean: offsets from ``first_dirty`` to ``end`` (exclusive), the
    base of a segment; its bytes, and those before it; and whether records have waited for too long.
    """

    first_dirty: int
    end: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool

    @property
    def ratio(self) -> float:
        """The part of the bytes that is not clean."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, settings: CleanupSettings) -> bool:
        """Whether the log is to be compacted now."""
        overdue = self.is_overdue and self.dirty_bytes > 0
        return overdue or self.ratio > settings.min_cleanable_ratio


def find_cleanable(
    closed: Sequence[ReadableSegment],
    log_start: int,
    stable_end: int,
    active_base: int,
    cleaned: int | None,
    settings: CleanupSettings,
    now_ms: int,
) -> Cleanable:
    """Return what is not clean in a log of ``closed`` segments and an active one. ``stable_end``:
    no transaction is open below. ``cleaned``: how far it was compacted before, as noted. Raises
    OSError.
    """
    first_dirty = log_start if cleaned is None else cleaned
    # A note of a log that was cut, or of records that are deleted.
    if not log_start <= first_dirty <= active_base:
        first_dirty = log_start
    dirty = [one for one in closed if one.end_offset > first_dirty]
    limit = min(stable_end, active_base)
    if settings.min_lag_ms > 0:
        young = (one for one in dirty if newest(one) > now_ms - settings.min_lag_ms)
        limit = min(limit, next((one.base_offset for one in young), limit))
    limit = max(first_dirty, limit)
    # A segment is cleaned as a whole.
    unclean = (one.base_offset for one in closed if one.end_offset > limit)
    end = next(unclean, active_base)
    first_at = next((one.base_offset for one in dirty), active_base)
    dirty_bytes = sum(one.size for one in closed if first_at <= one.base_offset < end)
    clean_bytes = sum(one.size for one in closed if one.base_offset < first_dirty)
    overdue = _is_overdue(dirty, settings, now_ms)
    return Cleanable(first_dirty, end, clean_bytes, dirty_bytes, overdue)


def _is_overdue(dirty: Sequence[ReadableSegment], settings: CleanupSettings, now_ms: int) -> bool:
    before = now_ms - settings.max_lag_ms
    # Without the limit no file is read.
    return before > 0 and any(0 < _first_timestamp(one) < before for one in dirty)


def _first_timestamp(segment: ReadableSegment) -> int:
    first = batch_at(segment.file, 0) if segment.size else None
    return -1 if first is None else first.max_timestamp


def grouped(
    segments: Sequence[ReadableSegment], bytes_max: int, end: int
) -> Iterator[tuple[ReadableSegment, ...]]:
    """Yield the segments in groups, each of which becomes one segment. ``end``: where the last one
    ends.
    """
    group: list[ReadableSegment] = []
    size = 0
    for one, following in itertools.zip_longest(segments, segments[1:]):
        last_offset = (end if following is None else following.base_offset) - 1
        if group and (
            size + one.size > bytes_max
            # The offsets in an index are int32, and relative to the base of the segment.
            or (one.size > 0 and last_offset - group[0].base_offset > _INT32_MAX)
        ):
            yield tuple(group)
            group, size = [], 0
        group.append(one)
        size += one.size
    if group:
        yield tuple(group)
