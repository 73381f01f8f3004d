"""Decides when a log begins a new segment. Kafka has one rule (``LogSegment.shouldRoll``)."""

from __future__ import annotations

from collections.abc import Callable

from gateway.log.partition.log_settings import LogSettings
from gateway.log.segments.batch_check import Batch

#: Whether a batch begins a new segment, from the batch, and the size (bytes) and first timestamp
#: (ms) of the active segment, which is not empty.
RollPolicy = Callable[[Batch, int, int | None], bool]


def rolls_by_size_and_age(settings: LogSettings) -> RollPolicy:
    """Return the policy of ``LogSegment.shouldRoll``."""

    def rolls(batch: Batch, size: int, first_timestamp: int | None) -> bool:
        return begins_segment(settings, batch.size, batch.max_timestamp, size, first_timestamp)

    return rolls


def begins_segment(
    settings: LogSettings,
    batch_size: int,
    max_timestamp: int,
    size: int,
    first_timestamp: int | None,
) -> bool:
    """Whether a batch of ``batch_size`` bytes begins a segment behind one of ``size`` bytes.

    The age of a segment is the difference of two batch timestamps, not of clocks: replicas then
    roll at the same offsets.
    """
    # ``>``: a batch that fills the segment exactly stays in it, as in ``LogSegment.shouldRoll``.
    if size + batch_size > settings.segment_bytes:
        return True
    # A batch without timestamps, -1, has no age. Kafka takes that of the file
    # (``LogSegment.timeWaitedForRoll``).
    return first_timestamp is not None and (
        0 <= first_timestamp < max_timestamp - settings.segment_ms
    )


def rolls_when_told(batch: Batch, size: int, first_timestamp: int | None) -> bool:
    """The policy of a log whose user calls ``roll``: an append never waits for the disk."""
    return False
