"""A replica of a partition on a simulated broker: its log, and its part as leader or follower.

The server's ``Leader`` decides what is in sync and committed. This module does around it what
``DataPartition`` does in the server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.broker.produce.producer_state import CompletedTxn
from gateway.broker.produce.refusal import BatchRefused
from gateway.broker.replica.follower_state import Contact
from gateway.broker.replica.isr import Proposal
from gateway.broker.replica.leader import Leader, LeaderSettings
from gateway.broker.replica.truncation import begins_anew
from kwire.protocol import ErrorCode
from tests.sim.brokers.following import position_of
from tests.sim.brokers.messages import Consumed, Key, Produced
from tests.sim.brokers.partition_log import Entry, PartitionLog

if TYPE_CHECKING:
    from kwire.messages.partition_record import PartitionRecord
    from tests.sim.brokers.broker import Broker

#: Batches of one answer.
ENTRIES_MAX: Final = 4


class Waiting(NamedTuple):
    """A Produce request with acks=all whose batch ends at ``required``."""

    required: int
    offset: int
    epoch: int
    on_done: Callable[[Produced], None]


class Replica:
    """The replica of ``broker`` of the partition ``key``."""

    def __init__(self, broker: Broker, key: Key, log: PartitionLog) -> None:
        self.broker, self.key, self.log = broker, key, log
        self.record: PartitionRecord | None = None
        self.leader: Leader | None = None
        self._followed_high_watermark = min(
            max(log.high_watermark_checkpoint, log.start_offset), log.end_offset
        )
        self.waiting: list[Waiting] = []

    @property
    def high_watermark(self) -> int:
        leader = self.leader
        return self._followed_high_watermark if leader is None else leader.high_watermark

    @property
    def leader_epoch(self) -> int:
        return -1 if self.record is None else self.record.leader_epoch

    # --- what the image says

    def lead(self, record: PartitionRecord) -> None:
        """This broker leads the partition."""
        if self.leader is None:
            self.leader = Leader(self.broker.id, self._settings(), self._followed_high_watermark)
        is_new = self.leader_epoch != record.leader_epoch
        self.record = record
        if is_new:
            self.log.epochs.assign(record.leader_epoch, self.log.end_offset)
            self.broker.world.checker.begins(self, record.leader_epoch)
        self.leader.lead(record, self.log.end_offset, self.broker.now)
        self.advanced()

    def follow(self, record: PartitionRecord) -> None:
        """Another broker leads the partition, or none does."""
        self.record = record
        leader, self.leader = self.leader, None
        if leader is not None:
            self._followed_high_watermark = min(leader.high_watermark, self.log.end_offset)
        waiting, self.waiting = self.waiting, []
        for one in waiting:
            one.on_done(Produced(ErrorCode.NOT_LEADER_OR_FOLLOWER))

    def _settings(self) -> LeaderSettings:
        broker = self.broker
        shape = broker.world.shape
        return LeaderSettings(
            shape.lag_s,
            lambda: shape.min_isr,
            lambda id: broker.image.brokers.get(id),
            lambda: broker.lifecycle.epoch,
        )

    # --- producers

    def produce(self, entry: Entry, acks: int, on_done: Callable[[Produced], None]) -> None:
        """Append a batch of a producer or a marker as leader."""
        leader, log = self.leader, self.log
        if leader is None or self.record is None:
            on_done(Produced(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return
        if acks == -1 and leader.is_under_min_isr:
            on_done(Produced(ErrorCode.NOT_ENOUGH_REPLICAS))
            return
        states, header = log.states, entry.header
        try:
            if entry.marker is None:
                verified = (
                    states.begin_verification(header, bumps_epoch=True)
                    if header.is_transactional
                    else None
                )
                seen = states.check(header, verified)
            else:
                states.check_marker(header, entry.marker, 2)
                seen = None
        except BatchRefused as refused:
            self.broker.world.note("%s refuses %s: %s", self.broker, entry.values, refused)
            on_done(Produced(refused.error))
            return
        if seen is None:
            offset = log.end_offset
            written = entry.at(offset, self.record.leader_epoch)
            log.append(written)
            self.broker.world.note("%s appends %s at %d", self.broker, entry.values, offset)
            self.broker.world.checker.appends(self, written)
            required = log.end_offset
        else:
            offset, required = seen.first_offset, seen.last_offset + 1
        if acks == -1:
            one = Waiting(required, offset, self.record.leader_epoch, on_done)
            self.waiting.append(one)
            self.broker.after(self.broker.world.shape.produce_s, lambda: self._give_up(one))
        else:
            on_done(Produced(ErrorCode.NONE, offset))
        leader.on_appended(log.end_offset, self.broker.now)
        self.advanced()
        self.broker.grown(self)

    def _give_up(self, one: Waiting) -> None:
        if one in self.waiting:
            self.waiting.remove(one)
            one.on_done(Produced(ErrorCode.REQUEST_TIMED_OUT))

    def advanced(self) -> None:
        """The high watermark of the leader may have moved: answer whom it lets answer."""
        leader = self.leader
        if leader is None:
            return
        self.broker.world.checker.leads(self)
        done = [one for one in self.waiting if one.required <= leader.high_watermark]
        if not done:
            return
        self.waiting = [one for one in self.waiting if one.required > leader.high_watermark]
        for one in done:
            fault = leader.fault_of_commit()
            if fault is ErrorCode.NONE:
                self.broker.world.checker.acknowledges(self, one.required)
            one.on_done(Produced(fault, one.offset))

    # --- consumers

    def consume(self, offset: int, *, read_committed: bool) -> Consumed:
        """Read what is committed."""
        log, high_watermark = self.log, self.high_watermark
        if not log.start_offset <= offset <= high_watermark:
            return Consumed(ErrorCode.OFFSET_OUT_OF_RANGE, (), high_watermark, log.start_offset)
        end = log.stable_end(high_watermark) if read_committed else high_watermark
        entries = log.read(offset, end, ENTRIES_MAX)
        aborted: tuple[CompletedTxn, ...] = ()
        if read_committed and entries:
            last = entries[-1].header.last_offset
            aborted = tuple(
                one for one in log.aborted if one.first_offset <= last and one.last_offset >= offset
            )
        self.broker.world.checker.shows(self, end)
        return Consumed(ErrorCode.NONE, entries, high_watermark, log.start_offset, aborted)

    def delete_records(self, before: int) -> None:
        """Move the log start of the leader, at most to the high watermark."""
        if self.leader is None:
            return
        target = self.high_watermark if before < 0 else min(before, self.high_watermark)
        self.log.delete_below(target)

    # --- followers, at the leader

    def fetched(
        self,
        broker_id: int,
        broker_epoch: int,
        offset: int,
        log_start: int,
        contact: Contact,
        *,
        is_compared: bool,
    ) -> Proposal | None:
        """A follower has everything below ``offset``."""
        assert self.leader is not None
        proposal = self.leader.on_fetch(
            broker_id, broker_epoch, offset, log_start, contact, is_compared=is_compared
        )
        self.advanced()
        return proposal

    # --- following

    def append_as_follower(
        self,
        entries: tuple[Entry, ...],
        high_watermark: int,
        log_start: int,
        *,
        is_compared: bool,
    ) -> None:
        """Append what the leader has sent, and take over its high watermark and log start."""
        log, committed = self.log, self._followed_high_watermark
        position, epoch = position_of(log), self.leader_epoch
        if not is_compared and begins_anew(position, committed, epoch, log_start):
            self.start_at(log_start)
        if entries and not log.entries and entries[0].header.base_offset < log.start_offset:
            # The leader's log begins within a batch.
            self.start_at(entries[0].header.base_offset)
        elif entries and not log.entries:
            # Its name is of deleted records, which may be of another history.
            log.name_start(self.broker.world.checker.name_at(self.key, log.start_offset))
        for entry in entries:
            if entry.header.base_offset >= self.log.end_offset:
                self.log.append(entry)
        self._followed_high_watermark = min(
            max(high_watermark, self._followed_high_watermark), self.log.end_offset
        )
        start = min(log_start, self._followed_high_watermark)
        if start > log.start_offset:
            log.delete_below(start)
            # The records below may be of another history: the leader no longer knows it.
            first = log.entries[0].header.base_offset if log.entries else start
            log.name_start(self.broker.world.checker.name_at(self.key, first))
        self.broker.world.checker.follows(self)

    def truncate(self, offset: int) -> bool:
        """Cut the log back to where it agrees with the leader's; whether that changed anything."""
        log = self.log
        before = log.end_offset, log.last_epoch
        self.broker.world.note("%s truncates %d to %d", self.broker, self.key[1], offset)
        self.broker.world.checker.truncates(self, offset)
        if offset < log.start_offset or offset == log.start_offset < log.end_offset:
            self.start_at(offset)
            return True
        log.truncate_to(offset)
        self._followed_high_watermark = min(self._followed_high_watermark, log.end_offset)
        self.broker.world.checker.follows(self)
        return (log.end_offset, log.last_epoch) != before

    def start_at(self, offset: int) -> None:
        """Drop everything and begin where the leader's log begins."""
        self.log.start_at(offset, self.broker.world.checker.name_at(self.key, offset))
        self._followed_high_watermark = offset
