"""Plans the compaction of a partition's log, and puts compacted segments into it: the parts of the
work that have their turn among the appends.

What is between them, reading and writing records, is the cleaner's (``gateway.log.cleaner``).
Source: ``LogCleanerManager.grabFilthiestCompactedLog``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from gateway.log.cleaner.batch_filter import LastRecord
from gateway.log.cleaner.cleanable import Cleanable, find_cleanable
from gateway.log.cleaner.cleaner import Compaction
from gateway.log.files.disk import doing
from gateway.log.files.errors import LogError
from gateway.log.segments.segment_swap import remove_cleaned

if TYPE_CHECKING:
    from gateway.log.files.disk import Disk
    from gateway.log.partition.log_settings import LogSettings
    from gateway.log.partition.unified_log import UnifiedLog
    from gateway.sources.partition_jobs import PartitionJobs
    from gateway.sources.producer_log import ProducerLog
    from gateway.sources.stored_log import StoredLog

_T = TypeVar("_T")


class Plan(NamedTuple):
    """The compaction of ``log`` that is due, and how much of it is not clean. ``truncations``:
    those that the log had had.
    """

    log: UnifiedLog
    cleanable: Cleanable
    compaction: Compaction
    truncations: int


class PartitionCompaction:
    """The turns of the cleaner at ``stored``, which are jobs of the partition. ``stable_end``
    returns the last stable offset: what is behind it stays as it is.
    """

    def __init__(
        self, stored: StoredLog, jobs: PartitionJobs, stable_end: Callable[[], int]
    ) -> None:
        self._stored = stored
        self._jobs = jobs
        self._stable_end = stable_end
        #: The part of the bytes that was not clean when a compaction was last planned.
        self.dirty_ratio = 0.0

    @property
    def is_wanted(self) -> bool:
        """Whether the topic is compacted, and the log is open."""
        return self._stored.log is not None and self._stored.settings().cleanup.compacts

    def plan(self, now_ms: int, on_done: Callable[[Plan | None], None]) -> None:
        """Call ``on_done`` with the compaction that is due."""

        def work(log: UnifiedLog) -> Plan | None:
            stored = self._stored
            cleaned = stored.checkpoints.cleaned.get(stored.topic, stored.index)
            end = self._stable_end()
            found = cleanable(log, stored.settings(), cleaned, end, now_ms)
            self.dirty_ratio = found.ratio
            return plan(log, stored.producers, stored.settings(), found, now_ms)

        self._jobs.submit(partial(self._with_log, work, on_done))

    def take(
        self, made_for: Plan, bases: Sequence[int], on_done: Callable[[bool | None], None]
    ) -> None:
        """Put a compacted segment in the place of those with the base offsets ``bases``; call
        ``on_done`` with whether it is there.
        """

        def work(log: UnifiedLog) -> bool:
            stored = self._stored
            is_taken = replace(made_for, log, stored.producers, stored.disk, bases)
            stored.show()
            return is_taken

        self._jobs.submit(partial(self._with_log, work, on_done))

    def note(self, end: int, on_done: Callable[[bool | None], None]) -> None:
        """Note that the log is compacted up to the offset ``end``."""

        def work(log: UnifiedLog) -> bool:
            stored = self._stored
            # The log may have been cut since.
            offset = min(end, log.end_offset)
            stored.checkpoints.cleaned.write(stored.topic, stored.index, offset)
            return True

        self._jobs.submit(partial(self._with_log, work, on_done))

    def _with_log(
        self, work: Callable[[UnifiedLog], _T], on_done: Callable[[_T | None], None]
    ) -> Callable[[], None]:
        """Do ``work`` on the log, which gives None where it cannot be done."""
        log = self._stored.writable
        if log is None:
            return partial(on_done, None)
        try:
            return partial(on_done, work(log))
        except LogError as error:
            self._stored.failed(error)
            return partial(on_done, None)


def cleanable(
    log: UnifiedLog, settings: LogSettings, cleaned: int | None, stable_end: int, now_ms: int
) -> Cleanable:
    """Return what is not clean. ``cleaned`` is how far the compaction came before, ``stable_end``
    the last stable offset. Raises LogError.
    """
    with doing("look at", log.directory):
        return find_cleanable(
            log.closed_segments(),
            log.start_offset,
            stable_end,
            log.bases[-1],
            cleaned,
            settings.cleanup,
            now_ms,
        )


def plan(
    log: UnifiedLog, producers: ProducerLog, settings: LogSettings, found: Cleanable, now_ms: int
) -> Plan | None:
    """Return the compaction that is due, None without one. ``found``: what is not clean."""
    if not settings.cleanup.compacts or not found.is_due(settings.cleanup):
        return None
    segments = [one for one in log.closed_segments() if one.base_offset < found.end]
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
        log.truncations,
    )


def replace(
    made_for: Plan, log: UnifiedLog, producers: ProducerLog, disk: Disk, bases: Sequence[int]
) -> bool:
    """Put the new segment in the place of the segments ``bases``; False if the log is not the same
    any more, as after the deletion of one of them. Raises LogError.
    """
    is_same = log is made_for.log and log.truncations == made_for.truncations
    if is_same and set(bases) <= set(log.bases[:-1]):
        log.swap_closed(bases)
        with log.guard.several_steps():
            producers.compacted(bases, log.bases)
        return True
    remove_cleaned(log.directory, disk, bases[0])
    return False
