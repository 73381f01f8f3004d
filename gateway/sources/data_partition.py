"""A partition that holds data: what this node is of it, leader or follower, and its readers.

The log is in ``stored_log``, the leader's appends in ``leader_appends``, the leader's decisions in
``gateway.broker.replica``. Consumers see what lies below the high watermark, replicas the whole
log. Source: ``Partition``, ``UnifiedLog``.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.base.leader_epochs import end_offset_for
from gateway.base.sizes import MIB
from gateway.base.wall_clock import wall_ms
from gateway.broker.produce.append_backlog import AppendBacklog
from gateway.broker.produce.marker import Marker, marker_batch
from gateway.broker.produce.refusal import BatchRefused
from gateway.broker.produce.validation import ProducedBatch, TopicRules
from gateway.broker.replica.leader import Leader, LeaderSettings
from gateway.log.files.disk import Disk
from gateway.log.files.errors import LogError
from gateway.log.files.offset_checkpoint import Checkpoints
from gateway.log.files.problem import Problem
from gateway.log.partition.log_settings import LogSettings
from gateway.ports.replicas import ActiveProducer, Appended
from gateway.ports.services import AbortedTransaction, Isolation, Read, ReplicaFetch, State
from gateway.sources import log_reader
from gateway.sources.append_counts import AppendCounts
from gateway.sources.commit_waits import CommitWaits
from gateway.sources.committed_reads import bytes_committed, read_committed
from gateway.sources.committed_view import up_to_high_watermark
from gateway.sources.follower_appends import FollowerAppends
from gateway.sources.leader_appends import LeaderAppends
from gateway.sources.log_partition import LogPartition
from gateway.sources.partition_append import Outcome, PartitionAppend, not_enough_replicas
from gateway.sources.partition_checkpoint import PartitionCheckpoint
from gateway.sources.partition_compaction import PartitionCompaction
from gateway.sources.partition_deletions import PartitionDeletions
from gateway.sources.partition_jobs import Job, PartitionJobs
from gateway.sources.partition_move import PartitionMove
from gateway.sources.partition_retention import delete_expired
from gateway.sources.stored_log import StoredLog
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from gateway.broker.produce.producer_state import Verification
    from gateway.broker.replica.isr import Altered, Proposal
    from gateway.broker.replica.replica_selector import ReadReplica
    from gateway.log.reading.log_view import LogView, Moment
    from gateway.sources.disk_notices import DiskNotices
    from kwire.messages.partition_record import PartitionRecord
    from kwire.messages.register_broker_record import RegisterBrokerRecord
    from kwire.uuid import Uuid

#: The offset in DeleteRecords that stands for the end of what is committed.
_HIGH_WATERMARK: Final = -1
#: Bytes of batches that wait for the disk where no other limit is given.
_BACKLOG_MAX: Final = 64 * MIB
_NOT_LEADER: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER


class Broker(NamedTuple):
    """The broker that keeps a partition.

    ``registered`` returns the registration of a broker in the image, ``epoch`` the broker epoch of
    this one, ``now`` the time in s. ``propose`` has the controller asked for a change of the ISR.
    ``lag_s`` is ``replica.lag.time.max.ms``.
    """

    broker_id: int
    registered: Callable[[int], RegisterBrokerRecord | None]
    epoch: Callable[[], int]
    now: Callable[[], float]
    propose: Callable[[DataPartition, Proposal], None]
    lag_s: float


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
        broker: Broker,
        cluster_id: str,
        settings: Callable[[], LogSettings],
        rules: Callable[[], TopicRules],
        wake: Callable[[DataPartition], None],
        checkpoints: Checkpoints | None = None,
        backlog: AppendBacklog | None = None,
        notices: DiskNotices | None = None,
        counts: Sequence[AppendCounts] = (),
        disk: Disk | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """``settings`` and ``rules`` return the configuration of the topic as of now. Each of
        ``counts`` counts what is appended, ``backlog`` what waits for the disk; ``notices`` hears
        of every outcome. ``disk`` and ``clock`` (s) are for tests.
        """
        super().__init__(cluster_id=cluster_id, log_dir=str(directory.parent))
        self.topic_id, self.index = topic_id, index
        self.counts = counts
        self._broker, self._rules = broker, rules
        self._notices = notices
        self._epoch = -1
        self._record: PartitionRecord | None = None  # the newest, while this node leads
        self._known_fault: Problem | None = None  # of which readers were told
        self._offline: Problem | None = None
        self._jobs = PartitionJobs(partial(wake, self))
        #: The batches that wait for the disk.
        self.backlog = backlog or AppendBacklog(_BACKLOG_MAX)
        disk = disk or Disk(fsync=settings().fsync)
        self.stored = StoredLog(
            directory, topic_id, index, settings, disk, checkpoints, self._reopen
        )
        self.compaction = PartitionCompaction(self.stored, self._jobs, lambda: self._stable_end)
        self.checkpoint = PartitionCheckpoint(self.stored, self._jobs)
        self._appends = LeaderAppends(
            self.stored, self._jobs, self.backlog, counts, clock, self._publish, self._answer
        )
        #: Carries out what a fetcher asks of the log, while another broker leads.
        self.follower = FollowerAppends(
            self.stored, self._jobs, clock, lambda: self._shown_end, self._commit_up_to
        )
        #: The decisions of the leader, once the log is open; None while this node follows.
        self.leader: Leader | None = None
        self.moving = PartitionMove(self.stored, self._jobs, self._appends)
        self._waits = CommitWaits()
        self._deletions = PartitionDeletions(
            self.stored, self._jobs, lambda: self._appends.epoch is not None, self._low_watermark
        )
        # As far as this replica knows; the log may end below it.
        self._high_watermark = self.stored.high_watermark_at_start
        # For consumers ``served`` ends here: the high watermark, the last stable offset.
        self._shown_end = self._stable_end = 0
        self._committed: LogView | None = None  # ``served`` up to the high watermark

    # --- its life
    # ---------------------------------------------------------------------------------------------

    @property
    def directory(self) -> Path:
        """The directory of the log, which may be moved to another log directory."""
        return self.stored.directory

    @property
    def is_leader(self) -> bool:
        """Whether this node leads the partition."""
        return self._record is not None

    def lead(self, record: PartitionRecord) -> None:
        """This node leads the partition, as the image says. Opens the log if it is not open."""
        begins = (
            self._record is None
            or record.leader_epoch != self._epoch
            or self.stored.fault is not None
        )
        self._record, self._epoch, self.follower.epoch = record, record.leader_epoch, None
        if begins:
            self._appends.epoch = record.leader_epoch
            log = self.stored.log if self._jobs.are_done else None
            self._jobs.submit(partial(self._open_and_begin, record.leader_epoch))
            if log is not None:
                # Appends come behind the job, which notes the epoch; readers need not wait.
                self._begin(record.leader_epoch, log.end_offset)
        elif self.leader is not None:
            self.leader.lead(record, self.leader.end_offset, self._broker.now())
            self.check_replicas()

    def follow(self, record: PartitionRecord) -> None:
        """This node keeps the partition, and does not lead it."""
        if self._record is not None or record.leader_epoch != self._epoch:
            self._resign()
        self._epoch = self.follower.epoch = record.leader_epoch
        if self.stored.log is None:
            self._jobs.submit(self.stored.open)

    def go_offline(self, problem: Problem) -> None:
        """The log directory has failed: nothing is read or written any more."""
        self._offline = problem
        self._resign()
        self._jobs.submit(self.stored.give_up)

    @property
    def is_offline(self) -> bool:
        """Whether the log directory has failed."""
        return self._offline is not None

    def when_open(self, on_done: Callable[[], None]) -> None:
        """Call ``on_done`` on the event loop when everything that is to be done with the log now is
        done; it may be that it cannot be opened.
        """
        self._jobs.submit(lambda: on_done)

    def _resign(self) -> None:
        self._record = self._appends.epoch = self.leader = self.follower.epoch = None
        self._waits.give_up(_NOT_LEADER)
        self._deletions.give_up()
        self._advanced()

    def close(self) -> None:
        """Write everything to disk and close the files; there are no jobs any more. Raises
        LogError.
        """
        self._record = self._appends.epoch = self.leader = self.follower.epoch = None
        self.stored.close()

    def delete(self, remove: Callable[[Path], None]) -> None:
        """The topic is deleted: close the log, and call ``remove`` with its directory in a thread,
        after all appends.
        """
        self._resign()
        self._jobs.submit(partial(self.stored.delete, remove))

    def _open_and_begin(self, epoch: int) -> Callable[[], None] | None:
        self.stored.open()
        log = self.stored.log
        if log is None or epoch != self._appends.epoch:
            return None
        with contextlib.suppress(LogError):  # the append notes the epoch, or says why not
            log.begin_epoch(epoch)
        return partial(self._begin, epoch, log.end_offset)

    def _begin(self, epoch: int, end_offset: int) -> None:
        """The log is open for the leader of ``epoch``, and ended at ``end_offset`` before its first
        append.
        """
        record, broker = self._record, self._broker
        if record is None or record.leader_epoch != epoch:
            return
        if self.leader is None:
            settings = LeaderSettings(
                broker.lag_s,
                lambda: self._rules().min_insync_replicas,
                broker.registered,
                broker.epoch,
            )
            self.leader = Leader(broker.broker_id, settings, self._high_watermark)
        self.leader.lead(record, end_offset, broker.now())
        self._publish()

    def _reopen(self) -> None:
        """The log was closed by a failure of the disk."""
        epoch = self._appends.epoch
        self._jobs.submit(
            self.stored.open if epoch is None else partial(self._open_and_begin, epoch)
        )

    # --- its followers
    # ---------------------------------------------------------------------------------------------

    def note_fetch(self, fetch: ReplicaFetch) -> ErrorCode:
        """As in ``gateway.ports.services.Partition``."""
        leader = self.leader
        if leader is None:
            return _NOT_LEADER
        fault = leader.check_follower(fetch.broker_id, fetch.broker_epoch)
        if fault is ErrorCode.NONE:
            proposal = leader.on_fetch(
                fetch.broker_id,
                fetch.broker_epoch,
                fetch.offset,
                fetch.log_start_offset,
                fetch.contact,
                is_compared=fetch.is_compared,
            )
            self._propose(proposal)
            if leader.high_watermark != self._high_watermark:
                self._publish()
            self._deletions.advance()
        return fault

    def has_compared(self, broker_id: int) -> bool:
        """As in ``gateway.ports.services.Partition``."""
        return self.leader is not None and self.leader.has_compared(broker_id)

    def read_replicas(self, offset: int) -> Sequence[ReadReplica]:
        """As in ``gateway.ports.services.Partition``."""
        return () if self.leader is None else self.leader.read_replicas(offset)

    def check_replicas(self, now: float | None = None) -> None:
        """Have followers join that may by now, and, with the time ``now``, those leave that lag for
        too long.
        """
        leader = self.leader
        if leader is not None:
            proposal = None if now is None else leader.check_lag(now)
            self._propose(proposal or leader.look_again())
            self._publish()
            self._deletions.advance()

    def awaits(self, proposal: Proposal) -> bool:
        """Whether the outcome of a proposal is still wanted."""
        return self.leader is not None and self.leader.state is proposal

    def on_altered(self, proposal: Proposal, answer: Altered | ErrorCode) -> None:
        """The controller has answered a proposal."""
        leader = self.leader
        if leader is None:
            return
        if leader.on_altered(proposal, answer, self._broker.now()):
            self._propose(proposal)
        else:
            self.check_replicas()

    def _propose(self, proposal: Proposal | None) -> None:
        if proposal is not None:
            self._broker.propose(self, proposal)

    def _low_watermark(self) -> int:
        return -1 if self.leader is None else self.leader.low_watermark(self._moment.start_offset)

    @property
    def is_lagging(self) -> bool:
        """As in ``gateway.ports.services.Partition``."""
        return self.leader is not None and self.leader.epoch_start_offset > self._shown_end

    # --- jobs
    # ---------------------------------------------------------------------------------------------

    @property
    def has_jobs(self) -> bool:
        """Whether :meth:`perform` is to be called."""
        return self._jobs.are_due

    def take_jobs(self) -> list[Job]:
        """As ``PartitionJobs.take``, until :meth:`performed`."""
        return self._jobs.take()

    @staticmethod
    def perform(jobs: list[Job]) -> list[Callable[[], None]]:
        """Perform jobs, in a thread; return what :meth:`performed` calls."""
        return PartitionJobs.perform(jobs)

    def performed(self, done: list[Callable[[], None]]) -> None:
        """The thread has performed the jobs."""
        self._jobs.release()
        self._publish()
        if self.stored.fault != self._known_fault:
            self._known_fault = self.stored.fault
            self._advanced()
        for one in done:
            one()
        self._jobs.wake_if_due()

    def flush(self, on_done: Callable[[bool], None]) -> None:
        """Have a thread write everything that was appended to the disk; ``on_done`` hears whether
        it is there.
        """
        self._jobs.submit(lambda: partial(on_done, self.stored.flush()))

    # --- retention
    # ---------------------------------------------------------------------------------------------

    def clean(self, now_ms: int) -> None:
        """Have the segments deleted that are beyond the topic's retention, producers forgotten that
        were silent for long, and a log opened again that could not be opened; ``now_ms`` is the
        wall clock.
        """
        if self._offline is not None:
            return
        if self.stored.fault is not None:
            self._reopen()
        elif self.stored.log is not None:
            self._jobs.submit(partial(self._clean, now_ms))

    def _clean(self, now_ms: int) -> None:
        log = self.stored.writable
        if log is not None:
            try:
                delete_expired(self.stored, log, self._high_watermark, now_ms)
            except LogError as error:
                self.stored.failed(error)

    def delete_records(self, before: int, on_done: Callable[[int | ErrorCode], None]) -> None:
        """As in ``WritablePartition`` (``Partition.deleteRecordsOnLeader``)."""
        target = self.high_watermark if before == _HIGH_WATERMARK else before
        if not self.stored.settings().cleanup.deletes:
            on_done(ErrorCode.POLICY_VIOLATION)
        elif not 0 <= target <= self.high_watermark:
            on_done(ErrorCode.OFFSET_OUT_OF_RANGE)
        else:
            self._deletions.delete(target, on_done)

    # --- appends
    # ---------------------------------------------------------------------------------------------

    @property
    def rules(self) -> TopicRules:
        """As in ``WritablePartition``."""
        return self._rules()

    def producers(self) -> list[ActiveProducer]:
        """As in ``WritablePartition``."""
        return self.stored.producers.active()

    def begin_verification(
        self, batch: ProducedBatch, *, bumps_epoch: bool = False
    ) -> Verification | None:
        """As in ``WritablePartition``."""
        states = self.stored.producers.states
        return states.begin_verification(batch.header, bumps_epoch=bumps_epoch)

    def append(
        self,
        batch: ProducedBatch,
        on_done: Callable[[Outcome], None],
        verification: Verification | None = None,
        *,
        until_committed: bool = True,
    ) -> None:
        """As in ``WritablePartition``."""
        self._append(PartitionAppend(batch, self._epoch, on_done, until_committed, verification))

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
        self._append(
            PartitionAppend(batch, self._epoch, on_done, True, None, marker, transaction_version)
        )

    def _append(self, one: PartitionAppend) -> None:
        leader = self.leader
        if one.until_committed and leader is not None and leader.is_under_min_isr:
            refused = not_enough_replicas(self.directory.name, leader)
            for counts in self.counts:
                counts.refused(refused.error)
            one.on_done(refused)
            return
        self._appends.take(one)

    def _answer(self, one: PartitionAppend, outcome: Outcome) -> None:
        """Tell the sender of an append of its outcome, when it is to hear of it."""
        if self._notices is not None:
            self._notices.note(outcome)
        leader = self.leader
        if not isinstance(outcome, Appended) or not one.until_committed:
            one.on_done(outcome)
        elif leader is None or leader.leader_epoch != one.epoch:
            one.on_done(BatchRefused(_NOT_LEADER, "The leader has changed."))
        else:
            end_offset = outcome.base_offset + one.batch.header.last_offset_delta + 1
            self._waits.add(end_offset, outcome, one.on_done)
            self._waits.commit(self._high_watermark, leader.fault_of_commit())

    # --- readers
    # ---------------------------------------------------------------------------------------------

    def _publish(self) -> None:
        """Serve what the log holds, and consumers what is committed."""
        if self.stored.log is None or self.stored.reader is None:
            return
        now, old, leader = self.stored.reader.moment, self._moment, self.leader
        end_offset = now.end_offset
        if leader is not None:
            if end_offset != leader.end_offset:
                leader.on_appended(end_offset, self._broker.now())
            self._high_watermark = leader.high_watermark
        moved = self._limit(now)
        self._moment = now
        if moved or end_offset != old.end_offset or now.start_offset != old.start_offset:
            self._advanced()
        if leader is not None and self._waits:
            self._waits.commit(self._high_watermark, leader.fault_of_commit())

    def _commit_up_to(self, leaders_high_watermark: int) -> None:
        """The log has what the leader sent with this high watermark."""
        reader = self.stored.reader
        if reader is not None:
            committed = min(leaders_high_watermark, reader.moment.end_offset)
            self._high_watermark = max(self._high_watermark, committed)
        self._publish()

    def _limit(self, now: Moment) -> bool:
        """Find the ends for consumers in the log as it is; whether one has moved."""
        shown, stable = self._shown_end, self._stable_end
        end = min(max(self._high_watermark, now.start_offset), now.end_offset)
        self._high_watermark = self._shown_end = end
        self._stable_end = self.stored.producers.stable_end(now.start_offset, end)
        self._committed = None
        return shown != end or stable != self._stable_end

    @property
    def high_watermark(self) -> int:
        """One past the last offset that is committed."""
        return self._shown_end

    @property
    def end_offset(self) -> int:
        """One past the last offset of the log."""
        return self._moment.end_offset

    def note_high_watermark(self) -> None:
        """Have the next write of ``replication-offset-checkpoint`` say how far the log is
        committed.
        """
        if self.stored.log is not None:
            stored = self.stored
            stored.checkpoints.high_watermarks.note(stored.topic, stored.index, self._shown_end)

    def visible_end(self, isolation: Isolation) -> int:
        """As in ``gateway.ports.services.Partition``."""
        if isolation is Isolation.LOG_END:
            return self._moment.end_offset
        return self._stable_end if isolation is Isolation.TXN_COMMITTED else self._shown_end

    def read(
        self, offset: int, max_bytes: int, isolation: Isolation = Isolation.HIGH_WATERMARK
    ) -> Read:
        """As in ``gateway.ports.services.Partition``."""
        view = self.served
        if isolation is Isolation.LOG_END or self._shown_end == view.end_offset:
            return super().read(offset, max_bytes)
        if self.state is not State.LOADING and self._shown_end <= offset <= view.end_offset:
            return log_reader.read(view, view.end_offset, 0)
        if self._committed is None:
            self._committed = up_to_high_watermark(view, self._shown_end)
        return log_reader.read(self._committed, offset, max_bytes)

    def read_committed(
        self, offset: int, max_bytes: int
    ) -> tuple[Read, Sequence[AbortedTransaction]]:
        """As in ``gateway.ports.services.Partition``."""
        if self.state is State.LOADING:
            return self.read(offset, max_bytes), ()
        producers = self.stored.producers
        return read_committed(self.served, self._stable_end, producers, offset, max_bytes)

    def bytes_available(
        self, offset: int, limit: int, isolation: Isolation = Isolation.HIGH_WATERMARK
    ) -> int:
        """As in ``gateway.ports.services.Partition``."""
        end = self.visible_end(isolation)
        if limit == 1 and self.log_start_offset <= offset < end:
            return limit  # a short way for fetch.min.bytes=1, the default: any batch is enough
        if end < self._moment.end_offset:
            return bytes_committed(self.served, end, offset, limit)
        return log_reader.bytes_available(self.served, offset, limit)

    @property
    def state(self) -> State:
        """LOADING, on which clients look for the leader, until the log is open and this node leads
        or follows the partition; BROKEN if it cannot be opened.
        """
        if self.stored.fault is not None or self._offline is not None:
            return State.BROKEN
        is_replica = self.leader is not None or self.follower.epoch is not None
        return State.READY if self.stored.log is not None and is_replica else State.LOADING

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Why the log cannot be opened."""
        fault = self._offline or self.stored.fault
        return () if fault is None else (fault,)

    @property
    def leader_epoch(self) -> int:
        """The epoch of the leader, also before its first record."""
        return self._epoch

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """As in Kafka: the leader's epoch ends at the end of the log, also before its first
        record.
        """
        if epoch == self._epoch:
            return epoch, self.end_offset
        epochs, leader = self.served.epochs, self.leader
        if leader is not None and (not epochs or epochs[-1][0] < leader.leader_epoch):
            # A view has an epoch from its first record on. A follower may know an epoch between,
            # which has no record here.
            epochs = (*epochs, (leader.leader_epoch, leader.epoch_start_offset))
        return end_offset_for(epochs, epoch, self.end_offset)

    def epoch_at(self, offset: int) -> int:
        """As in ``gateway.ports.services.Partition``. The next record has the leader's epoch, as in
        Kafka, where a leader notes its epoch before it writes.
        """
        return self._epoch if offset == self.end_offset else super().epoch_at(offset)
