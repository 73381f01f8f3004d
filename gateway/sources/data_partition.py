"""A partition that holds data: its log on disk, the newest batches of its producers, its readers.

Appends are written on the event loop, to the page cache: that takes microseconds, and a thread
would take longer to wake. An append that begins a segment, and every append while the disk is slow,
is a job instead, which a thread performs; the appends behind it queue, so there is one order. The
high watermark is the end of the log: this node is the only replica. Source: ``Partition``,
``UnifiedLog``.
"""

from __future__ import annotations

import contextlib
import struct
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from gateway.base.wall_clock import wall_ms
from gateway.broker.produce.marker import Marker, marker_batch
from gateway.broker.produce.refusal import BatchRefused
from gateway.broker.produce.validation import ProducedBatch, TopicRules
from gateway.log.files.disk import Disk, doing
from gateway.log.files.errors import LogError
from gateway.log.files.offset_checkpoint import Checkpoints
from gateway.log.files.partition_metadata import FILE_NAME as PARTITION_METADATA
from gateway.log.files.problem import Problem
from gateway.log.partition.log_settings import LogSettings
from gateway.log.partition.retention import count_below, count_expired
from gateway.log.partition.roll_policy import rolls_by_size_and_age
from gateway.log.partition.unified_log import UnifiedLog
from gateway.log.reading.own_log import OwnLog
from gateway.log.segments.batch_check import Batch
from gateway.ports.replicas import ActiveProducer, Appended
from gateway.ports.services import AbortedTransaction, Isolation, Read, State
from gateway.sources.append_counts import AppendCounts
from gateway.sources.committed_reads import bytes_committed, read_committed
from gateway.sources.log_partition import LogPartition
from gateway.sources.opened_log import open_log
from gateway.sources.partition_append import Outcome, PartitionAppend
from gateway.sources.partition_compaction import Plan, plan, replace
from gateway.sources.producer_log import ProducerLog
from kwire.protocol import ErrorCode
from kwire.records.header import read_header

if TYPE_CHECKING:
    from gateway.broker.produce.producer_state import Verification
    from kwire.uuid import Uuid

#: An append that takes longer is a sign of a disk that stalls: the next one is made in a thread.
SLOW_S: Final = 0.05
_BASE_OFFSET: Final = struct.Struct(">q")
_LEADER_EPOCH: Final = struct.Struct(">i")
_LEADER_EPOCH_AT: Final = 12
#: The offset in DeleteRecords that stands for the end of what is committed.
_HIGH_WATERMARK: Final = -1

_T = TypeVar("_T")
#: Performs work in a thread, and returns what the event loop calls afterwards.
Job = Callable[[], "Callable[[], None] | None"]


class DataPartition(LogPartition):
    """``gateway.ports.replicas.WritablePartition`` in ``directory``.

    All methods run on the event loop but :meth:`perform`, which runs the jobs that are due in one
    thread at a time. ``wake`` is called when there are jobs.
    """

    def __init__(
        self,
        directory: Path,
        topic_id: Uuid,
        index: int,
        *,
        cluster_id: str,
        settings: Callable[[], LogSettings],
        rules: Callable[[], TopicRules],
        wake: Callable[[DataPartition], None],
        checkpoints: Checkpoints | None = None,
        counts: Sequence[AppendCounts] = (),
        disk: Disk | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """``settings`` and ``rules`` return the configuration of the topic as of now. Each of
        ``counts`` counts what is appended. ``disk`` and ``clock`` (s) are for tests.
        """
        super().__init__(cluster_id=cluster_id, log_dir=str(directory.parent))
        self.directory = directory
        self.topic_id = topic_id
        self.index = index
        self._settings = settings
        #: Repairs at the opening, as sentences.
        self.repairs: list[str] = []
        #: Names of the segments that retention has deleted.
        self.deleted: list[str] = []
        self._rules = rules
        self._wake = wake
        self._clock = clock
        self._counts = counts
        self._disk = disk or Disk(fsync=settings().fsync)
        self._topic = directory.name.rpartition("-")[0]
        self._checkpoints = checkpoints or Checkpoints(directory.parent, self._disk, self.repairs)
        self._epoch = -1
        self._is_leader = False
        self._is_closed = False
        self._is_slow = False
        self._fault: Problem | None = None
        self._known_fault: Problem | None = None  # of which readers were told
        self._log: UnifiedLog | None = None
        self._reader: OwnLog | None = None
        self._producers = ProducerLog(directory, self._disk)
        self._last_stable_offset = 0
        self._jobs: deque[Job] = deque()
        self._is_busy = False  # a thread performs jobs

    @property
    def is_leader(self) -> bool:
        """Whether this node leads the partition."""
        return self._is_leader

    # --- its life
    # ---------------------------------------------------------------------------------------------

    def lead(self, epoch: int) -> None:
        """This node leads the partition, in ``epoch``. Opens the log if it is not open."""
        self._epoch, self._is_leader = epoch, True
        self._submit(partial(self._open_and_begin, epoch))

    def follow(self) -> None:
        """This node keeps the partition, and does not lead it."""
        self._is_leader = False
        self._advanced()
        if self._log is None:
            self._submit(self._open)

    def close(self) -> None:
        """Write everything to disk and close the files; there are no jobs any more. Raises
        LogError.
        """
        self._is_closed, self._is_leader = True, False
        log, self._log = self._log, None
        if log is not None:
            end_offset = None if log.guard.reason else log.end_offset
            try:
                log.close()
            except LogError:
                end_offset = None
                raise
            finally:
                self._producers.close(end_offset)

    def delete(self, remove: Callable[[Path], None]) -> None:
        """The topic is deleted: close the log, and call ``remove`` with its directory in a thread,
        after all appends.
        """
        self._is_leader = False
        self._advanced()
        self._submit(partial(self._delete, remove))

    # --- jobs
    # ---------------------------------------------------------------------------------------------

    @property
    def has_jobs(self) -> bool:
        """Whether :meth:`perform` is to be called."""
        return bool(self._jobs)

    def take_jobs(self) -> list[Job]:
        """Return the jobs that are due, for :meth:`perform`; the partition is busy until
        :meth:`performed`. None while it is, or without jobs.
        """
        if self._is_busy or not self._jobs:
            return []
        self._is_busy = True
        jobs, self._jobs = list(self._jobs), deque()
        return jobs

    @staticmethod
    def perform(jobs: list[Job]) -> list[Callable[[], None]]:
        """Perform jobs, in a thread; return what :meth:`performed` calls."""
        return [done for job in jobs if (done := job()) is not None]

    def performed(self, done: list[Callable[[], None]]) -> None:
        """The thread has performed the jobs."""
        self._is_busy = False
        self._publish()
        if self._fault != self._known_fault:
            self._known_fault = self._fault
            self._advanced()
        for one in done:
            one()
        if self._jobs:
            self._wake(self)

    def _submit(self, job: Job) -> None:
        self._jobs.append(job)
        if not self._is_busy:
            self._wake(self)

    # --- retention
    # ---------------------------------------------------------------------------------------------

    def clean(self, now_ms: int) -> None:
        """Have the segments deleted that are beyond the topic's retention, producers forgotten that
        were silent for long, and a log opened again that could not be opened; ``now_ms`` is the
        wall clock.
        """
        if self._fault is not None and self._is_leader:
            self._submit(partial(self._open_and_begin, self._epoch))
        elif self._log is not None:
            self._submit(partial(self._clean, now_ms))

    def _clean(self, now_ms: int) -> None:
        log = self._log
        if log is None or log.guard.reason:
            return
        settings = self._settings()
        self._producers.states.remove_expired(now_ms, settings.producer_id_expiration_ms)
        try:
            with doing("look at", self.directory):
                segments = [*log.closed_segments(), log.active_segment()]
                doomed = count_expired(segments, settings, log.start_offset, now_ms)
            if not doomed:
                return
            # The last segment has to exist for the next record.
            if doomed == len(segments):
                self._roll()
            self._delete_oldest(log, doomed)
            self._show()
        except LogError as error:
            self._failed(error)

    def delete_records(self, before: int, on_done: Callable[[int | ErrorCode], None]) -> None:
        """As in ``WritablePartition`` (``Partition.deleteRecordsOnLeader``)."""
        target = self.high_watermark if before == _HIGH_WATERMARK else before
        if not self._settings().cleanup.deletes:
            on_done(ErrorCode.POLICY_VIOLATION)
        elif not 0 <= target <= self.high_watermark:
            on_done(ErrorCode.OFFSET_OUT_OF_RANGE)
        else:
            self._submit(partial(self._delete_records, target, on_done))

    def _delete_records(
        self, before: int, on_done: Callable[[int | ErrorCode], None]
    ) -> Callable[[], None]:
        log = self._log
        if log is None or not self._is_leader:
            return partial(on_done, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        try:
            if before > log.start_offset:
                # First, so that no crash brings back what a client was told is gone. Kafka writes
                # it once a minute.
                self._checkpoints.log_starts.write(self._topic, self.index, before)
                log.start_at(before, 0)
                self._delete_oldest(log, count_below(log.bases, before))
                self._show()
        except LogError as error:
            return partial(on_done, self._failed(error).error)
        return partial(on_done, log.start_offset)

    # --- compaction
    # ---------------------------------------------------------------------------------------------

    @property
    def is_compacted(self) -> bool:
        """Whether the topic is compacted, and the log is open."""
        return self._log is not None and self._settings().cleanup.compacts

    def plan_compaction(self, now_ms: int, on_done: Callable[[Plan | None], None]) -> None:
        """Call ``on_done`` with the compaction that is due."""

        def work(log: UnifiedLog) -> Plan | None:
            cleaned = self._checkpoints.cleaned.get(self._topic, self.index)
            return plan(log, self._producers, self._settings(), cleaned, now_ms)

        self._submit(partial(self._with_log, work, on_done))

    def take_compacted(
        self, made_for: Plan, bases: Sequence[int], on_done: Callable[[bool | None], None]
    ) -> None:
        """Put a compacted segment in the place of those with the base offsets ``bases``; call
        ``on_done`` with whether it is there.
        """

        def work(log: UnifiedLog) -> bool:
            is_taken = replace(made_for, log, self._producers, self._disk, bases)
            self._show()
            return is_taken

        self._submit(partial(self._with_log, work, on_done))

    def note_compacted(self, end: int, on_done: Callable[[bool | None], None]) -> None:
        """Note that the log is compacted up to the offset ``end``."""

        def work(log: UnifiedLog) -> bool:
            self._checkpoints.cleaned.write(self._topic, self.index, end)
            return True

        self._submit(partial(self._with_log, work, on_done))

    def _with_log(
        self, work: Callable[[UnifiedLog], _T], on_done: Callable[[_T | None], None]
    ) -> Callable[[], None]:
        """Do ``work`` on the log, which gives None where it cannot be done."""
        log = self._log
        if log is None or log.guard.reason:
            return partial(on_done, None)
        try:
            return partial(on_done, work(log))
        except LogError as error:
            self._failed(error)
            return partial(on_done, None)

    def _delete_oldest(self, log: UnifiedLog, count: int) -> None:
        """Delete the oldest segments; the log start moves behind them."""
        if count:
            self.deleted += log.delete_closed(log.bases[:count])
            log.start_at(log.start_offset, 0)
        start = log.start_offset if log.start_offset > log.bases[0] else None
        self._checkpoints.log_starts.write(self._topic, self.index, start)

    # --- appends
    # ---------------------------------------------------------------------------------------------

    @property
    def rules(self) -> TopicRules:
        """As in ``WritablePartition``."""
        return self._rules()

    @property
    def replicas_in_sync(self) -> int:
        """This node alone."""
        return 1

    def producers(self) -> list[ActiveProducer]:
        """As in ``WritablePartition``."""
        return [
            ActiveProducer(
                one.producer_id,
                one.epoch,
                one.last_sequence,
                one.timestamp,
                one.coordinator_epoch,
                one.txn_first_offset,
            )
            for one in self._producers.states.all()
        ]

    def begin_verification(self, batch: ProducedBatch) -> Verification | None:
        """As in ``WritablePartition``."""
        return self._producers.states.begin_verification(batch.header)

    def append(
        self,
        batch: ProducedBatch,
        on_done: Callable[[Outcome], None],
        verification: Verification | None = None,
    ) -> None:
        """As in ``WritablePartition``."""
        self._take(PartitionAppend(batch, self._epoch, on_done, verification))

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        committed: bool,
        coordinator_epoch: int,
        transaction_version: int,
        on_done: Callable[[Outcome], None],
    ) -> None:
        """As in ``WritablePartition``."""
        marker = Marker(committed, coordinator_epoch)
        batch = marker_batch(producer_id, producer_epoch, marker, wall_ms())
        self._take(PartitionAppend(batch, self._epoch, on_done, None, marker, transaction_version))

    def _take(self, one: PartitionAppend) -> None:
        if self._is_busy or self._jobs or self._is_slow or self._is_due_to_roll(one.batch):
            self._submit(partial(self._append_as_job, one))
            return
        outcome = self._append(one)
        if isinstance(outcome, Appended):
            self._publish()
        self._appended(one, outcome)

    def _appended(self, one: PartitionAppend, outcome: Outcome) -> None:
        """Count a batch that is in the log, and tell its sender, on the event loop."""
        if isinstance(outcome, Appended):
            messages, size = one.batch.header.last_offset_delta + 1, len(one.batch.data)
            for counts in self._counts:
                counts.add(messages, size)
        one.on_done(outcome)

    def _append_as_job(self, one: PartitionAppend) -> Callable[[], None]:
        if self._is_due_to_roll(one.batch):
            try:
                self._roll()
            except LogError as error:
                return partial(one.on_done, self._failed(error))
        return partial(self._appended, one, self._append(one))

    def _append(self, one: PartitionAppend) -> Outcome:
        """Give the batch its offsets and write it."""
        batch, epoch, marker = one.batch, one.epoch, one.marker
        log = self._log
        if log is None or not self._is_leader or epoch != self._epoch:
            return BatchRefused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "The leader has changed.")
        try:
            seen = one.check(self._producers.states)
        except BatchRefused as refused:
            return refused
        if seen is not None:
            return Appended(seen.first_offset, batch.log_append_time, log.start_offset)
        data, first = batch.data, log.end_offset
        _BASE_OFFSET.pack_into(data, 0, first)
        _LEADER_EPOCH.pack_into(data, _LEADER_EPOCH_AT, epoch)
        began = self._clock()
        try:
            log.append(memoryview(data), crc_checked=True)
            # Before anything else that may fail: the batch is in the log, and comes again if its
            # producer hears of an error.
            if marker is None:
                self._producers.append(read_header(data))
            else:
                # The index of transactions is a second file.
                with log.guard.several_steps():
                    self._producers.append(read_header(data), marker)
            self._show()
        except LogError as error:
            return self._failed(error)
        finally:
            self._is_slow = self._clock() - began > SLOW_S
        return Appended(first, batch.log_append_time, log.start_offset)

    def _failed(self, error: LogError) -> BatchRefused:
        """The disk refused a write. A full disk leaves the log as it was; after another failure the
        log is opened again by the next append.
        """
        if self._log is not None and self._log.guard.reason:
            with contextlib.suppress(LogError):
                self._log.close()
            self._producers.close()
            self._log = None
            self._submit(partial(self._open_and_begin, self._epoch))
        return BatchRefused(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

    def _is_due_to_roll(self, batch: ProducedBatch) -> bool:
        log = self._log
        if log is None or log.active_size == 0:
            return False
        header = batch.header
        described = Batch(0, header.size, log.end_offset, 0, self._epoch, header.max_timestamp)
        rolls = rolls_by_size_and_age(self._settings())
        return rolls(described, log.active_size, log.first_timestamp)

    def flush(self, on_done: Callable[[bool], None]) -> None:
        """Have a thread write everything that was appended to the disk; ``on_done`` hears whether
        it is there.
        """
        self._submit(partial(self._flush, on_done))

    def _flush(self, on_done: Callable[[bool], None]) -> Callable[[], None]:
        log = self._log
        if log is None:
            return partial(on_done, False)
        try:
            log.flush()
        except LogError as error:
            self._failed(error)
            return partial(on_done, False)
        return partial(on_done, True)

    # --- in the thread
    # ---------------------------------------------------------------------------------------------

    def _open_and_begin(self, epoch: int) -> None:
        self._open()
        if self._log is not None and epoch == self._epoch:
            with contextlib.suppress(LogError):  # the append notes the epoch, or says why not
                self._log.begin_epoch(epoch)

    def _open(self) -> None:
        if self._log is not None or self._is_closed:
            return
        try:
            if not (self.directory / PARTITION_METADATA).exists():
                # They are of a topic of the same name that was deleted.
                self._checkpoints.forget(self._topic, self.index)
            opened = open_log(
                self.directory,
                self.topic_id,
                self._disk,
                self._settings(),
                self.repairs,
                self._checkpoints.log_starts.get(self._topic, self.index) or 0,
            )
            opened.producers.states.keep_verifications_of(self._producers.states)
            self._log, self._reader, self._producers = opened
            self._fault = None
        except LogError as error:
            self._fault = Problem(str(self.directory), -1, str(error))

    def _roll(self) -> None:
        assert self._log is not None
        self._log.roll()
        with self._log.guard.several_steps():
            self._producers.rolled(self._log.bases)
        self._show()

    def _show(self) -> None:
        """Let readers find what was written. Raises DiskFailed."""
        assert self._reader is not None, "the log is open"
        with doing("read", self.directory):
            self._reader.refresh()

    def _delete(self, remove: Callable[[Path], None]) -> None:
        with contextlib.suppress(LogError):
            self.close()
        with contextlib.suppress(LogError):  # the next topic of this name forgets them, too
            self._checkpoints.forget(self._topic, self.index)
        remove(self.directory)

    # --- readers
    # ---------------------------------------------------------------------------------------------

    def _publish(self) -> None:
        """Serve what the log holds."""
        if self._log is None or self._reader is None:
            return
        view, old = self._reader.view, self.served
        moved = (view.start_offset, view.end_offset) != (old.start_offset, old.end_offset)
        self._last_stable_offset = self._producers.stable_end(view.start_offset, view.end_offset)
        self.serve(view, notify=moved)

    def visible_end(self, isolation: Isolation) -> int:
        """As in ``gateway.ports.services.Partition``."""
        is_committed = isolation is Isolation.TXN_COMMITTED
        return self._last_stable_offset if is_committed else self.high_watermark

    def read_committed(
        self, offset: int, max_bytes: int
    ) -> tuple[Read, Sequence[AbortedTransaction]]:
        """As in ``gateway.ports.services.Partition``."""
        if self.state is State.LOADING:
            return self.read(offset, max_bytes), ()
        stable = self._last_stable_offset
        return read_committed(self.served, stable, self._producers, offset, max_bytes)

    def bytes_available(
        self, offset: int, limit: int, isolation: Isolation = Isolation.HIGH_WATERMARK
    ) -> int:
        """As in ``gateway.ports.services.Partition``."""
        if isolation is Isolation.TXN_COMMITTED and self._last_stable_offset < self.high_watermark:
            return bytes_committed(self.served, self._last_stable_offset, offset, limit)
        return super().bytes_available(offset, limit)

    @property
    def state(self) -> State:
        """LOADING, on which clients look for the leader, until the log is open and this node leads
        it; BROKEN if it cannot be opened.
        """
        if self._fault is not None:
            return State.BROKEN
        return State.READY if self._is_leader and self._log is not None else State.LOADING

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Why the log cannot be opened."""
        return () if self._fault is None else (self._fault,)

    @property
    def leader_epoch(self) -> int:
        """The epoch of the leader, also before its first record."""
        return self._epoch

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """As in Kafka: the leader's epoch ends at the end of the log, also before its first
        record.
        """
        if epoch == self._epoch:
            return epoch, self.high_watermark
        return self.served.end_offset_for_epoch(epoch)

    def epoch_at(self, offset: int) -> int:
        """As in ``gateway.ports.services.Partition``. The next record has the leader's epoch, as in
        Kafka, where a leader notes its epoch before it writes.
        """
        return self._epoch if offset == self.high_watermark else super().epoch_at(offset)
