"""Plans the compaction of a partition's log, and puts compacted segments into it: the parts of the
work that have their turn among the appends.

What is between them, reading and writing records, is the cleaner's (``gateway.log.cleaner``).
Source: ``LogCleanerManager.grabFilthiestCompactedLog``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gateway.log.cleaner.batch_filter import LastRecord
from gateway.log.cleaner.cleanable import Cleanable, find_cleanable
from gateway.log.cleaner.cleaner import Compaction
from gateway.log.files.disk import doing
from gateway.log.segments.segment_swap import remove_cleaned

if TYPE_CHECKING:
    from gateway.log.files.disk import Disk
    from gateway.log.partition.log_settings import LogSettings
    from gateway.log.partition.unified_log import UnifiedLog
    from gateway.sources.producer_log import ProducerLog


class Plan(NamedTuple):
    """The compaction of ``log`` that is due, and how much of it is not clean."""

    log: UnifiedLog
    cleanable: Cleanable
    compaction: Compaction


def plan(
    log: UnifiedLog,
    producers: ProducerLog,
    settings: LogSettings,
    cleaned: int | None,
    now_ms: int,
) -> Plan | None:
    """Return the compaction that is due, None without one. ``cleaned`` is how far it came before.
    Raises LogError.
    """
    with doing("look at", log.directory):
        closed = log.closed_segments()
        found = find_cleanable(
            closed,
            log.start_offset,
            producers.stable_end(log.start_offset, log.end_offset),
            log.bases[-1],
            cleaned,
            settings.cleanup,
            now_ms,
        )
    if not settings.cleanup.compacts or not found.is_due(settings.cleanup):
        return None
    segments = [one for one in closed if one.base_offset < found.end]
    return Plan(
        log,
        found,
        Compaction(
            directory=log.directory,
            segments=segments,
            first_dirty=found.first_dirty,
            end=found.end,
            settings=settings,
            now_ms=now_ms,
            producers={
                one.producer_id: LastRecord(
                    one.batches[-1].last_offset if one.batches else None, one.epoch
                )
                for one in producers.states.all()
            },
            aborted=producers.aborted,
        ),
    )


def replace(
    made_for: Plan, log: UnifiedLog, producers: ProducerLog, disk: Disk, bases: Sequence[int]
) -> bool:
    """Put the new segment in the place of the segments ``bases``; False if the log is not the same
    any more, as after the deletion of one of them. Raises LogError.
    """
    if log is made_for.log and set(bases) <= set(log.bases[:-1]):
        log.swap_closed(bases)
        with log.guard.several_steps():
            producers.compacted(bases, log.bases)
        return True
    remove_cleaned(log.directory, disk, bases[0])
    return False
