"""Moves the recovery point of a partition to the end of its log: what comes before it is on disk,
and the next start does not read it.

The plan and the note have their turn among the appends; between them waiting for the disk runs
beside appends. Source: ``UnifiedLog.flush``, ``LogManager.checkpointLogRecoveryOffsets``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from gateway.log.files.errors import DiskFailed, LogError, SyncFailed
from gateway.log.segments.segment_scan import INDEX_SUFFIX, TIME_INDEX_SUFFIX

if TYPE_CHECKING:
    from gateway.log.partition.pending_flush import PendingFlush
    from gateway.log.partition.unified_log import UnifiedLog
    from gateway.sources.partition_jobs import PartitionJobs
    from gateway.sources.producer_log import ProducerLog
    from gateway.sources.stored_log import StoredLog


class PlannedCheckpoint(NamedTuple):
    """Holds what has to be on disk before the end of ``log`` becomes the recovery point."""

    log: UnifiedLog
    truncations: int  #: of the log, before
    producers: ProducerLog
    flush: PendingFlush
    snapshot: bytes  #: of the producers at the end

    def write(self) -> None:
        """Bring everything to disk, in any thread. Raises SyncFailed."""
        end = self.flush.flush()
        # Behind the batches and the indexes: a start relies on these for what the snapshot counts.
        # Without a snapshot it reads more.
        with contextlib.suppress(DiskFailed):
            self.producers.write_snapshot(end, self.snapshot)

    @property
    def is_void(self) -> bool:
        """Whether records were dropped from the log meanwhile: others may have their offsets."""
        return self.log.truncations != self.truncations


class PartitionCheckpoint:
    """The checkpoints of one partition, as jobs. All methods run on the event loop."""

    def __init__(self, stored: StoredLog, jobs: PartitionJobs) -> None:
        self._stored = stored
        self._jobs = jobs

    def plan(self, on_done: Callable[[PlannedCheckpoint | None], None]) -> None:
        """Call ``on_done`` with the checkpoint that is due, None without one."""
        stored = self._stored
        # Most partitions get no records for long.
        if stored.log is None or stored.log.end_offset <= stored.recovery_point:
            on_done(None)
        else:
            self._jobs.submit(partial(self._plan, on_done))

    def note(
        self, made: PlannedCheckpoint, failure: SyncFailed | None, on_done: Callable[[None], None]
    ) -> None:
        """Note a checkpoint that was written, or could not be: then what is on disk is not known,
        and the log is opened again. The caller saves the recovery point.
        """
        self._jobs.submit(partial(self._note, made, failure, on_done))

    def _plan(self, on_done: Callable[[PlannedCheckpoint | None], None]) -> Callable[[], None]:
        stored, log = self._stored, self._stored.writable
        point = stored.recovery_point
        if log is None or not log.disk.fsync or log.end_offset <= point:
            return partial(on_done, None)
        try:
            snapshot, suffixes = stored.producers.begin_checkpoint(point)
            flush = log.pending_flush(suffixes=(INDEX_SUFFIX, TIME_INDEX_SUFFIX, *suffixes))
        except LogError as error:
            stored.failed(error)
            return partial(on_done, None)
        made = PlannedCheckpoint(log, log.truncations, stored.producers, flush, snapshot)
        return partial(on_done, made)

    def _note(
        self, made: PlannedCheckpoint, failure: SyncFailed | None, on_done: Callable[[None], None]
    ) -> Callable[[], None]:
        stored, end = self._stored, made.flush.end_offset
        if failure is not None:
            if made.log is stored.log:
                made.log.guard.fail(failure)
                stored.failed(failure)
        elif made.is_void:
            with contextlib.suppress(LogError):
                made.producers.remove_snapshot(end)
        elif made.log is stored.log and end > stored.recovery_point:
            stored.note_recovery_point(end)
        return partial(on_done, None)
