"""Appends the batches of producers, and the markers of transactions, to the log of a partition that
this node leads (``Partition.appendRecordsToLeader``, ``UnifiedLog.appendAsLeader``).

Appends are written on the event loop, to the page cache: that takes microseconds, and a thread
would take longer to wake. An append that begins a segment or waits for the disk
(``flush.messages``), and every append while the disk is slow, is a job instead, which a thread
performs; the appends behind it queue, so there is one order.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from gateway.broker.produce.refusal import BatchRefused
from gateway.log.files.errors import LogError
from gateway.log.segments.batch_check import batch_of
from gateway.ports.replicas import Appended
from gateway.sources.append_counts import AppendCounts
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from gateway.broker.produce.append_backlog import AppendBacklog
    from gateway.log.partition.unified_log import UnifiedLog
    from gateway.sources.partition_append import Outcome, PartitionAppend
    from gateway.sources.partition_jobs import PartitionJobs
    from gateway.sources.stored_log import StoredLog

#: An append that takes longer is a sign of a disk that stalls: the next one is made in a thread.
SLOW_S: Final = 0.05
_BASE_OFFSET: Final = struct.Struct(">q")
_LEADER_EPOCH: Final = struct.Struct(">i")
_LEADER_EPOCH_AT: Final = 12


class LeaderAppends:
    """The appends to ``stored``. :attr:`epoch` is the leader epoch that this node leads in, None
    while it does not.
    """

    def __init__(
        self,
        stored: StoredLog,
        jobs: PartitionJobs,
        backlog: AppendBacklog,
        counts: Sequence[AppendCounts],
        clock: Callable[[], float],
        publish: Callable[[], None],
        answer: Callable[[PartitionAppend, Outcome], None],
    ) -> None:
        """``backlog`` counts what waits for the disk, each of ``counts`` what is appended;
        ``clock`` is in s. ``publish`` shows readers what the log holds, ``answer`` tells the sender
        of an append of its outcome; both are called on the event loop.
        """
        self.epoch: int | None = None
        self._stored = stored
        self._jobs = jobs
        self._backlog = backlog
        self._counts = counts
        self._clock = clock
        self._publish = publish
        self._answer = answer
        self._is_slow = False

    def take(self, one: PartitionAppend) -> None:
        """Append behind the others: now if nothing hinders, else as a job."""
        if not self._jobs.are_done or self._is_slow or self._needs_thread(one):
            self._backlog.add(len(one.batch.data))
            self._jobs.submit(partial(self._append_as_job, one))
            return
        outcome = self._append(one)
        if isinstance(outcome, Appended):
            self._publish()
        self._appended(one, outcome)

    def _appended(self, one: PartitionAppend, outcome: Outcome) -> None:
        """Count a batch that is in the log, or refused, and tell its sender, on the event loop."""
        if isinstance(outcome, Appended):
            messages, size = one.batch.header.last_offset_delta + 1, len(one.batch.data)
            for counts in self._counts:
                counts.add(messages, size)
        else:
            for counts in self._counts:
                counts.refused(outcome.error)
        self._answer(one, outcome)

    def _append_as_job(self, one: PartitionAppend) -> Callable[[], None]:
        if self._stored.is_due_to_roll(one.batch.header):
            try:
                self._stored.roll()
            except LogError as error:
                return partial(self._job_done, one, self._stored.failed(error))
        outcome = self._append(one)
        log = self._stored.log
        if isinstance(outcome, Appended) and log is not None and self._stored.is_due_to_flush(0):
            try:
                log.flush()
            except LogError as error:
                outcome = self._stored.failed(error)
        return partial(self._job_done, one, outcome)

    def _job_done(self, one: PartitionAppend, outcome: Outcome) -> None:
        self._backlog.remove(len(one.batch.data))
        self._appended(one, outcome)

    def _needs_thread(self, one: PartitionAppend) -> bool:
        messages = one.batch.header.last_offset_delta + 1
        stored = self._stored
        return stored.is_due_to_roll(one.batch.header) or stored.is_due_to_flush(messages)

    def _append(self, one: PartitionAppend) -> Outcome:
        """Give the batch its offsets and write it."""
        batch, marker, stored = one.batch, one.marker, self._stored
        log, producers = stored.log, stored.producers
        if log is None or one.epoch != self.epoch:
            return BatchRefused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "The leader has changed.")
        if one.epoch < log.last_epoch:
            return _older_cluster(log, one.epoch)
        try:
            seen = one.check(producers.states)
        except BatchRefused as refused:
            return refused
        if seen is not None:
            return Appended(seen.first_offset, batch.log_append_time, log.start_offset)
        data, first = batch.data, log.end_offset
        _BASE_OFFSET.pack_into(data, 0, first)
        _LEADER_EPOCH.pack_into(data, _LEADER_EPOCH_AT, one.epoch)
        header = batch.header.placed(first, one.epoch)
        began = self._clock()
        try:
            # The batch was checked when it came.
            log.append_checked(memoryview(data), (batch_of(header),))
            # Before anything else that may fail: the batch is in the log, and comes again if its
            # producer hears of an error.
            if marker is None:
                producers.append(header)
            else:
                # The index of transactions is a second file.
                with log.guard.several_steps():
                    producers.append(header, marker)
            stored.show()
        except LogError as error:
            return stored.failed(error)
        finally:
            self._is_slow = self._clock() - began > SLOW_S
        return Appended(first, batch.log_append_time, log.start_offset)


def _older_cluster(log: UnifiedLog, epoch: int) -> BatchRefused:
    """A log whose epochs decrease is taken for a damaged one, and cut, after a crash. Kafka's
    leader forgets the higher epochs (``LeaderEpochFileCache.assign``).
    """
    message = (
        f"{log.directory}: the log has records of leader epoch {log.last_epoch}, and the metadata"
        f" log has leader epoch {epoch}, so it is an older one: restore the newest metadata log, or"
        " move this directory away and begin with an empty partition"
    )
    return BatchRefused(ErrorCode.KAFKA_STORAGE_ERROR, message)
