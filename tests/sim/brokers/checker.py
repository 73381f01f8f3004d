"""Checks the invariants of partitions after every event. A text begins with the number of its
invariant in ``docs/broker-simulation.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kwire.message import Message
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.partition_record import PartitionRecord
from tests.sim.brokers.facts import PartitionFacts
from tests.sim.brokers.messages import Key
from tests.sim.brokers.partition_log import Entry
from tests.sim.history import Violation, require

if TYPE_CHECKING:
    from tests.sim.brokers.broker import Broker
    from tests.sim.brokers.partition_log import PartitionLog
    from tests.sim.brokers.replica import Replica
    from tests.sim.brokers.world import BrokerWorld

#: ``LeaderRecoveryState.RECOVERING``: the leader was elected without being in sync.
_RECOVERING = 1


class BrokerChecker:
    """All invariants over one schedule of ``world``."""

    def __init__(self, world: BrokerWorld) -> None:
        self._world = world
        self.facts: dict[Key, PartitionFacts] = {}
        self._committed_transactions: dict[tuple[int, int], bool] = {}
        self._transaction_of: dict[str, tuple[int, int]] = {}
        self.acked = 0
        self.leaders = 0

    def of(self, key: Key) -> PartitionFacts:
        """The facts of a partition."""
        found = self.facts.get(key)
        if found is None:
            found = self.facts[key] = PartitionFacts(key)
        return found

    def name_at(self, key: Key, offset: int) -> int:
        """The name of the committed log up to ``offset``, else of the log of the newest broker that
        leads as far as it knows; -1 if neither is known.
        """
        replicas = (
            one.replicas[key] for one in self._world.brokers if one.up and key in one.replicas
        )
        leaders = sorted(
            (one for one in replicas if one.leader is not None), key=lambda one: -one.leader_epoch
        )
        names = [self.of(key).name_at(offset), *(one.log.name_at(offset) for one in leaders)]
        return next((name for name in names if name is not None), -1)

    # --- decisions of the controller

    def decided(self, message: Message) -> None:
        """A record is committed in the metadata log."""
        if not isinstance(message, PartitionRecord | PartitionChangeRecord):
            return
        key = message.topic_id, message.partition_id
        record = self._world.metadata.image.partitions[key[0]][key[1]]
        facts = self.of(key)
        if self._is_left_with_others(facts.before, record):
            self._may_be_gone(facts, record.leader_epoch)
        if record.leader >= 0 and record.leader_epoch not in facts.leaders:
            facts.leaders[record.leader_epoch] = record.leader
            self.leaders += 1
            self._elected(facts, record)
        self._check_members(facts, record)
        facts.before = record

    def _is_left_with_others(self, before: Any, record: Any) -> bool:
        """Whether a cancelled reassignment takes away all replicas in sync. The first one that
        stays is in sync then, whatever it has, if the topic allows unclean elections
        (``PartitionReassignmentRevert``). The record does not say so.
        """
        if before is None or not before.adding_replicas or record.adding_replicas:
            return False
        eligible = before.eligible_leader_replicas or ()
        known = {*before.isr, *eligible, *before.adding_replicas}
        return self._world.shape.unclean and bool(record.isr) and known.isdisjoint(record.isr)

    def _may_be_gone(self, facts: PartitionFacts, epoch: int) -> None:
        self._world.note("what is committed in %d may be gone", facts.key[1])
        facts.forget(epoch)

    def _elected(self, facts: PartitionFacts, record: Any) -> None:
        """A leader has been elected: it has everything that is committed."""
        world = self._world
        broker = world.broker(record.leader)
        log = broker.logs.get(facts.key)
        is_unclean = record.leader_recovery_state == _RECOVERING
        if (is_unclean and world.shape.unclean) or self._may_lack(facts, broker):
            self._may_be_gone(facts, record.leader_epoch)
            return
        end = facts.committed_end
        has_all = end == 0 or (log is not None and log.prefix_at(end) == facts.name_at(end))
        require(
            has_all,
            "1: broker {} leads in epoch {} and lacks what is committed up to {}",
            record.leader,
            record.leader_epoch,
            end,
        )

    def _may_lack(self, facts: PartitionFacts, broker: Broker) -> bool:
        """Whether a broker whose power was lost leads rightly: the controller does not know of it
        yet, or there was no replica in sync that has lost nothing.
        """
        log = broker.logs.get(facts.key)
        if log is None or not log.lost_below:
            return False
        known = self._world.metadata.image.brokers[broker.id].broker_epoch
        if not broker.up or broker.lifecycle.epoch != known:
            return True
        before = facts.before
        able = before.isr or before.eligible_leader_replicas or before.last_known_elr or ()
        logs = [self._world.broker(id).logs[facts.key] for id in able]
        return all(one.lost_below for one in logs)

    def _check_members(self, facts: PartitionFacts, record: Any) -> None:
        """Every replica in sync has everything that is committed."""
        end = facts.committed_end
        brokers = self._world.metadata.image.brokers
        members = [self._world.broker(id) for id in record.isr]
        # With eligible leader replicas an ISR may be empty. These are checked when one is elected.
        if not end or not members or facts.from_epoch > record.leader_epoch:
            return
        lost = [one for one in members if one.logs[facts.key].lost_below > 0]
        if len(lost) == len(members):
            facts.forget(record.leader_epoch + 1)
            return
        for one in members:
            log = one.logs.get(facts.key)
            registered = brokers[one.id].broker_epoch
            if one in lost and (not one.up or one.lifecycle.epoch != registered):
                continue  # the controller does not know yet that it has restarted
            require(
                log is not None and _has_all(facts, log, end),
                "4: broker {} is in the ISR {} and lacks what is committed up to {}",
                one.id,
                list(record.isr),
                end,
            )

    # --- leaders

    def begins(self, replica: Replica, epoch: int) -> None:
        """A broker begins to lead in an epoch."""
        elected = self.of(replica.key).leaders.get(epoch)
        require(
            elected == replica.broker.id,
            "3: broker {} leads in epoch {}, elected is {}",
            replica.broker.id,
            epoch,
            elected,
        )

    def appends(self, replica: Replica, entry: Entry) -> None:
        """A leader has appended a batch."""
        facts, header = self.of(replica.key), entry.header
        if _is_repeated(facts, entry, replica.log):
            facts.confused.add(header.producer_id)
            facts.repeated.add(entry.name)
        at = header.partition_leader_epoch, header.base_offset
        before = facts.written.setdefault(at, entry.values)
        require(
            before == entry.values,
            "3: epoch {} has two batches at offset {}: {} and {}",
            *at,
            before,
            entry.values,
        )

    def leads(self, replica: Replica) -> None:
        """Something has changed at a leader: its high watermark may have moved."""
        facts, epoch, end = self.of(replica.key), replica.leader_epoch, replica.high_watermark
        last = facts.high_watermarks.get(epoch, 0)
        require(
            end >= last,
            "2: the high watermark of broker {} goes back from {} to {} in epoch {}",
            replica.broker.id,
            last,
            end,
            epoch,
        )
        facts.high_watermarks[epoch] = end
        require(
            replica.log.start_offset <= end,
            "12: the log of broker {} starts at {}, its high watermark is {}",
            replica.broker.id,
            replica.log.start_offset,
            end,
        )
        if end > facts.committed_end and epoch >= facts.from_epoch:
            self._commits(facts, replica, end)

    def _commits(self, facts: PartitionFacts, replica: Replica, end: int) -> None:
        """The leader says that records up to ``end`` are committed."""
        log, known = replica.log, facts.committed_end
        require(
            log.end_offset >= end, "2: broker {} has committed beyond its log", replica.broker.id
        )
        if known:
            require(
                log.prefix_at(known) == facts.name_at(known),
                "1: broker {} leads in epoch {} with another log below {}",
                replica.broker.id,
                replica.leader_epoch,
                known,
            )
        else:
            # A log without entries has had all of them deleted.
            first = log.entries[0].header.base_offset if log.entries else log.start_offset
            facts.start = first, log.name_before
        for at in range(log.index_of(known), log.index_of(end)):
            entry = log.entries[at]
            if facts.is_clean:
                self._check_order(facts, entry)
            facts.commit(entry, log.prefixes[at], replica.leader_epoch)
        record = self._world.metadata.image.partitions[facts.key[0]][facts.key[1]]
        self._check_members(facts, record)
        # Others may have cut off what a leader that was not in sync had known as committed.
        if facts.committed_end and (known or facts.is_clean):
            self._check_copies(facts, end)

    def _check_copies(self, facts: PartitionFacts, end: int) -> None:
        """Check that ``min.insync.replicas`` brokers have what is committed, those counted whose
        power was lost since.
        """
        copies = 0
        for broker in self._world.brokers:
            log = broker.logs.get(facts.key)
            if log is not None and (_has_all(facts, log, end) or log.lost_below >= end):
                copies += 1
        require(
            copies >= self._world.shape.min_isr,
            "5: what is committed up to {} is on {} brokers",
            end,
            copies,
        )

    def _check_order(self, facts: PartitionFacts, entry: Entry) -> None:
        """A producer's batches are committed once, and in order. Another leader than the one that
        took a batch for new may be the first to know it as committed.
        """
        header, is_repeated = entry.header, entry.name in facts.repeated
        for value in entry.values:
            require(
                value not in facts.values or entry.marker is not None or is_repeated,
                "6: {} is committed twice",
                value,
            )
            facts.values.add(value)
        if header.producer_id < 0 or entry.marker is not None:
            return
        producer = header.producer_id, header.producer_epoch
        expected = facts.sequences.get(producer, 0)
        require(
            header.base_sequence == expected or is_repeated,
            "6: sequence {} of producer {} is committed, not {}",
            header.base_sequence,
            producer,
            expected,
        )
        facts.sequences[producer] = header.last_sequence + 1

    def acknowledges(self, replica: Replica, required: int) -> None:
        """A leader answers a producer that waits for all replicas."""
        facts = self.of(replica.key)
        require(
            facts.committed_end >= required or replica.leader_epoch < facts.from_epoch,
            "1: broker {} acknowledges up to {}, committed is {}",
            replica.broker.id,
            required,
            facts.committed_end,
        )

    # --- followers and readers

    def stops(self, broker: Broker) -> None:
        """A broker ends a controlled shutdown: it leads nothing. An older heartbeat that comes
        behind the last one unfences it once more, as in Kafka.
        """
        if broker.has_late_requests:
            return
        led = [key[1] for key in self.facts if self._leader_of(key) == broker.id]
        require(not led, "13: broker {} shuts down and leads {}", broker.id, led)

    def _leader_of(self, key: Key) -> int:
        leader: int = self._world.record(key).leader
        return leader

    def follows(self, replica: Replica) -> None:
        """A follower has appended, truncated, or heard of a high watermark."""
        require(
            replica.high_watermark <= replica.log.end_offset,
            "7: the high watermark of broker {} is {}, its log ends at {}",
            replica.broker.id,
            replica.high_watermark,
            replica.log.end_offset,
        )
        self._check_prefix(replica, replica.high_watermark, "7: the high watermark of broker {}")

    def truncates(self, replica: Replica, offset: int) -> None:
        """A follower is about to cut its log. One that no longer counts may follow an older leader,
        which lacks what was committed since.
        """
        facts, log = self.of(replica.key), replica.log
        end = facts.next_end(offset)
        if end is None or not facts.is_clean or log.end_offset < end:
            return
        counting = (*facts.before.isr, *(facts.before.eligible_leader_replicas or ()))
        if replica.leader_epoch < facts.epoch_at(offset) and replica.broker.id not in counting:
            return
        require(
            log.prefix_at(end) != facts.name_at(end),
            "9: broker {} cuts off at {}, committed is up to {}",
            replica.broker.id,
            offset,
            facts.committed_end,
        )

    def shows(self, replica: Replica, end: int) -> None:
        """A consumer reads up to ``end``."""
        self._check_prefix(replica, end, "8: a consumer reads at broker {}, which")

    def _check_prefix(self, replica: Replica, end: int, text: str) -> None:
        facts, log = self.of(replica.key), replica.log
        if not facts.is_clean or end <= log.start_offset:
            return
        is_committed = end <= facts.committed_end and log.prefix_at(end) == facts.name_at(end)
        require(
            is_committed,
            text + " is at {}, committed is another log up to {}",
            replica.broker.id,
            end,
            facts.committed_end,
        )

    def seen(self, key: Key, entry: Entry) -> None:
        """A consumer got a batch."""
        facts = self.of(key)
        if facts.is_clean:
            before = facts.seen.setdefault(entry.header.base_offset, entry.values)
            require(
                before == entry.values,
                "8: consumers saw {} and {} at offset {}",
                before,
                entry.values,
                entry.header.base_offset,
            )

    def delivers(self, key: Key, entry: Entry) -> None:
        """A consumer of committed transactions gets a batch. A marker may be lost with the records
        that an election of a replica out of sync loses.
        """
        if not self.of(key).is_clean:
            return
        transaction = self._transaction_of.get(entry.values[0])
        if transaction is not None:
            require(
                self._committed_transactions.get(transaction, False),
                "8: a consumer of committed transactions gets {} of {}",
                entry.values,
                transaction,
            )

    # --- producers

    def sends(self, key: Key, entry: Entry) -> None:
        """A producer sends a batch, again and again until it is acknowledged."""
        self.of(key).pending.add(entry.values)

    def in_transaction(self, producer_id: int, epoch: int, values: Iterable[str]) -> None:
        """The values are sent in a transaction."""
        self._transaction_of.update(dict.fromkeys(values, (producer_id, epoch)))

    def decides(self, producer_id: int, epoch: int, *, is_commit: bool) -> None:
        """The coordinator decides about a transaction."""
        self._committed_transactions[producer_id, epoch] = is_commit

    def acknowledged(self, key: Key, entry: Entry, offset: int) -> None:
        """A producer hears that its batch is committed at ``offset``, -1 if that is not said."""
        facts = self.of(key)
        self.acked += 1
        facts.pending.discard(entry.values)
        if not facts.is_clean:
            return
        facts.acked[entry.values] = offset
        if offset >= 0:
            found = facts.entry_at(offset)
            is_there = found is not None and found.header.base_offset == offset
            require(
                is_there and found is not None and found.values == entry.values,
                "1: {} is acknowledged at {}, committed is {}",
                entry.values,
                offset,
                None if found is None else found.values,
            )

    def is_known_by_its_newest(self, key: Key, entry: Entry) -> bool:
        """Whether a log has a batch of which its producers know nothing, because they were read
        from a snapshot: it has the newest batch of a producer alone, as in Kafka. Or it began
        behind the batch, which was deleted.
        """
        logs = [one.logs[key] for one in self._world.brokers if key in one.logs]
        if self.of(key).batches.get(entry.values, math.inf) < max(one.began_at for one in logs):
            return True
        return any(
            entry.values == one.values and one.header.base_offset < log.known_from
            for log in logs
            for one in log.entries
        )

    def has_committed(self, key: Key, entry: Entry) -> bool:
        """Whether a batch is committed."""
        return entry.values in self.of(key).batches

    def lost_order(self, key: Key, producer_id: int, entry: Entry) -> None:
        """A leader does not know the batches before the oldest one that is not acknowledged."""
        facts = self.of(key)
        require(
            not facts.is_clean
            or producer_id in facts.confused
            or self._is_behind_what_is_known(key, entry),
            "6: producer {} cannot go on with {}: an acknowledged batch is not known",
            producer_id,
            entry.values,
        )

    def _is_behind_what_is_known(self, key: Key, entry: Entry) -> bool:
        """Whether a log began behind all that the batch's transaction has committed, because
        clients had deleted it: such a log takes no sequence but 0 of the transaction, as Kafka's.
        """
        header = entry.header
        newest = max(
            (
                one.header.base_offset
                for one in self.of(key).entries
                if (one.header.producer_id, one.header.producer_epoch)
                == (header.producer_id, header.producer_epoch)
            ),
            default=None,
        )
        began = max(one.logs[key].began_at for one in self._world.brokers if key in one.logs)
        return header.is_transactional and newest is not None and newest < began

    # --- the end

    def finish(self) -> None:
        """All is healed and quiet: logs are equal, and have what was acknowledged."""
        for key, facts in self.facts.items():
            record = self._world.metadata.image.partitions[key[0]][key[1]]
            logs = [self._world.broker(id).logs[key] for id in record.replicas]
            ends = {(log.end_offset, log.prefix_at(log.end_offset)) for log in logs}
            if len(ends) != 1:
                raise Violation(f"10: logs of partition {key[1]} differ: {sorted(ends, key=str)}")
            if not facts.is_clean:
                continue
            unstable = logs[0].states.first_unstable_offset
            require(unstable is None, "8: a transaction is open at {}, all have ended", unstable)
            committed = {entry.values for entry in facts.entries}
            missing = [values for values in facts.acked if values not in committed]
            require(not missing, "1: {} are acknowledged and not committed", missing)


def _is_repeated(facts: PartitionFacts, entry: Entry, log: PartitionLog) -> bool:
    """Whether a leader takes a batch for new that was committed and deleted: a log that began at an
    offset knows no producer of batches before it, as in Kafka.
    """
    return facts.batches.get(entry.values, log.began_at) < log.began_at


def _has_all(facts: PartitionFacts, log: PartitionLog, end: int) -> bool:
    """Whether a log has what is committed up to ``end``. After an unclean election a log may begin
    behind it, where clients had records deleted that the new leader does not know.
    """
    if not facts.is_clean and end < log.start_offset:
        return True
    return log.prefix_at(end) == facts.name_at(end)
