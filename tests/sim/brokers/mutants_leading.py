"""Bugs of a partition's leader: its high watermark, its ISR, and what it tells clients."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Final

from gateway.broker.replica.follower_state import FollowerState
from gateway.broker.replica.isr import Altered, CommittedIsr, Proposal
from gateway.broker.replica.leader import NO_EPOCH, Leader
from gateway.handlers.apis import fetch
from gateway.server.broker.alter_partition_manager import AlterPartitionManager
from kwire.protocol import ErrorCode
from tests.patches import patched, together
from tests.sim.brokers.alter_partitions import AlterPartitions
from tests.sim.brokers.fetching import FollowerFetches
from tests.sim.brokers.messages import Consumed, Produced
from tests.sim.brokers.replica import ENTRIES_MAX, Replica
from tests.sim.mutant_registry import Mutants

Context = AbstractContextManager[Any]
MUTANTS: Final = Mutants()

_advance = Leader._advance
_lead = Leader.lead
_on_altered = Leader.on_altered
_follow = Replica.follow
_produce = Replica.produce


def _lowest(leader: Leader, members: Any) -> int:
    ends = [one.end_offset for one in leader.followers.values() if one.broker_id in members]
    return min([leader.end_offset, *ends])


def _commits(end: Any, *, minimum: bool = True, monotonic: bool = True) -> Context:
    """``Leader._advance`` with one of its parts replaced."""

    def advance(self: Leader, now: float) -> None:
        if minimum and self.is_under_min_isr:
            return
        found = end(self)
        self.high_watermark = max(self.high_watermark, found) if monotonic else found

    return patched(Leader, _advance=advance)


# --- the high watermark


@MUTANTS.register("Kafka, which keeps it")
def knows_followers_from_an_earlier_epoch() -> Context:
    """A leader that leads in a new epoch keeps what it knows of its followers."""
    lead = Leader.lead

    def leads(self: Leader, record: Any, end_offset: int, now: float) -> None:
        before = self.followers
        lead(self, record, end_offset, now)
        for one in self.followers.values():
            known = before.get(one.broker_id)
            if known is not None and known is not one:
                one.end_offset, one.log_start_offset = known.end_offset, known.log_start_offset
                one.broker_epoch, one.contact = known.broker_epoch, known.contact
        self._advance(now)

    return patched(Leader, lead=leads)


@MUTANTS.register("an obvious mistake")
def commits_alone() -> Context:
    """Records in the leader's log count as committed."""
    return _commits(lambda leader: leader.end_offset)


@MUTANTS.register("KIP-497")
def commits_without_those_that_join() -> Context:
    """A replica that is proposed for the ISR does not count for the high watermark yet."""
    return _commits(lambda leader: _lowest(leader, leader.state.isr))


@MUTANTS.register("broker.md 7: a shrink applied before the controller agreed")
def commits_without_those_that_may_leave() -> Context:
    """A replica that is proposed to leave the ISR no longer counts for the high watermark."""

    def wanted(leader: Leader) -> int:
        state = leader.state
        if isinstance(state, Proposal):
            return _lowest(leader, {one.broker_id for one in state.requested})
        return _lowest(leader, state.isr)

    return _commits(wanted)


@MUTANTS.register("Kafka before KIP-966")
def commits_below_min_isr() -> Context:
    """The high watermark advances while fewer replicas than min.insync.replicas are in sync."""
    return _commits(lambda leader: _lowest(leader, leader.state.maximal), minimum=False)


@MUTANTS.register("an obvious mistake")
def commits_with_the_fastest() -> Context:
    """The high watermark is where the fastest of the followers in sync is."""

    def fastest(leader: Leader) -> int:
        ends = [
            one.end_offset
            for one in leader.followers.values()
            if one.broker_id in leader.state.maximal
        ]
        return min(leader.end_offset, max(ends, default=leader.end_offset))

    return _commits(fastest)


@MUTANTS.register("an obvious mistake")
def high_watermark_goes_back() -> Context:
    """The high watermark falls when a follower with less joins."""

    def lowest(leader: Leader) -> int:
        return max(0, _lowest(leader, leader.followers))

    return _commits(lowest, monotonic=False)


@MUTANTS.register("an obvious mistake")
def followers_count_from_the_start() -> Context:
    """A follower that has not fetched from this leader counts as one that has everything."""

    def lead(self: Leader, record: Any, end_offset: int, now: float) -> None:
        _lead(self, record, end_offset, now)
        for one in self.followers.values():
            if one.end_offset < 0:
                one.end_offset = end_offset
        self._advance(now)

    return patched(Leader, lead=lead)


@MUTANTS.register("an obvious mistake")
def sent_counts_as_fetched() -> Context:
    """Records that a follower is sent count as replicated, before it asks for more."""
    fetched = FollowerState.fetched

    def sent(
        self: FollowerState,
        offset: int,
        start: int,
        leader_end: int,
        epoch: int,
        contact: Any,
        **more: Any,
    ) -> None:
        fetched(self, leader_end, start, leader_end, epoch, contact, **more)

    return patched(FollowerState, fetched=sent)


# --- the ISR


@MUTANTS.register("KAFKA-7128, KIP-497")
def joins_at_the_high_watermark() -> Context:
    """A follower joins the ISR at the high watermark, without the records below the start of the
    leader's epoch.
    """

    def expansion(self: Leader, one: FollowerState) -> Proposal | None:
        state = self.state
        is_there = isinstance(state, Proposal) or one.broker_id in state.isr
        if is_there or one.end_offset < self.high_watermark or not self._is_eligible(one):
            return None
        assert isinstance(state, CommittedIsr)
        return self._propose(state, state.isr | {one.broker_id})

    return patched(Leader, _expansion=expansion)


@MUTANTS.register("an obvious mistake")
def joins_at_any_offset() -> Context:
    """A follower joins the ISR as soon as it fetches."""

    def expansion(self: Leader, one: FollowerState) -> Proposal | None:
        state = self.state
        is_there = isinstance(state, Proposal) or one.broker_id in state.isr
        if is_there or not self._is_eligible(one):
            return None
        assert isinstance(state, CommittedIsr)
        return self._propose(state, state.isr | {one.broker_id})

    return patched(Leader, _expansion=expansion)


@MUTANTS.register("KIP-903")
def joins_without_broker_epochs() -> Context:
    """The leader names no broker epochs, and lets a broker join that has restarted since it was
    caught up.
    """

    def eligible(self: Leader, one: FollowerState) -> bool:
        return self._settings.broker(one.broker_id) is not None

    def epoch_of(self: Leader, broker_id: int) -> int:
        return NO_EPOCH

    return patched(Leader, _is_eligible=eligible, _epoch_of=epoch_of)


@MUTANTS.register("broker.md 7: progress kept by ISR instead of by replica set")
def knows_followers_of_the_isr_only() -> Context:
    """The leader keeps no progress of a replica that is not in the ISR, which never returns."""

    def lead(self: Leader, record: Any, end_offset: int, now: float) -> None:
        _lead(self, record, end_offset, now)
        self.followers = {id: one for id, one in self.followers.items() if id in record.isr}

    return patched(Leader, lead=lead)


@MUTANTS.register("an obvious mistake")
def older_records_count() -> Context:
    """A record of the image that is older than an answer of the controller replaces it."""

    def lead(self: Leader, record: Any, end_offset: int, now: float) -> None:
        self.partition_epoch = min(self.partition_epoch, record.partition_epoch)
        _lead(self, record, end_offset, now)

    return patched(Leader, lead=lead)


@MUTANTS.register("KAFKA-13091")
def lost_answers_end_proposals() -> Context:
    """A proposal whose answer is lost counts as refused, although the controller may have taken
    it.
    """
    answered = AlterPartitions._answered

    def forget(self: AlterPartitions, sent: Any, answer: Any) -> None:
        if answer is None:
            for key, proposal in sent.items():
                replica = self._broker.replicas.get(key)
                leader = None if replica is None else replica.leader
                committed = proposal.committed
                if replica is not None and leader is not None and leader.state is proposal:
                    leader.state = committed  # as if it were refused
                    leader._advance(self._broker.now)
                    replica.advanced()
                self._proposals.pop(key, None)
            self._is_asking = False
            return
        answered(self, sent, answer)

    ask = AlterPartitionManager._ask

    async def ask_once(self: AlterPartitionManager, sent: Any) -> bool:
        is_answered = await ask(self, dict(sent))
        for partition, proposal in () if is_answered else sent.values():
            partition.leader.state = proposal.committed
        return True

    return together(
        patched(AlterPartitions, _answered=forget), patched(AlterPartitionManager, _ask=ask_once)
    )


@MUTANTS.register("an obvious mistake")
def refused_proposals_stay() -> Context:
    """A proposal that the controller refuses, and will refuse again, stays pending."""

    def altered(self: Leader, proposal: Proposal, answer: Any, now: float) -> bool:
        if isinstance(answer, Altered):
            return _on_altered(self, proposal, answer, now)
        return answer in (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED)

    return patched(Leader, on_altered=altered)


@MUTANTS.register("an obvious mistake")
def accepted_proposals_stay() -> Context:
    """A record of the image with the new ISR does not end the proposal, and answers do not
    either.
    """

    def altered(self: Leader, proposal: Proposal, answer: Any, now: float) -> bool:
        return False

    def lead(self: Leader, record: Any, end_offset: int, now: float) -> None:
        state, epoch = self.state, self.leader_epoch
        _lead(self, record, end_offset, now)
        if isinstance(state, Proposal) and epoch == record.leader_epoch:
            self.state = state

    return patched(Leader, on_altered=altered, lead=lead)


@MUTANTS.register("KIP-497")
def proposals_name_no_partition_epoch() -> Context:
    """A change of the ISR is asked for with the partition epoch of the leader's election."""
    propose = Leader._propose

    def old(self: Leader, state: CommittedIsr, isr: Any) -> Proposal:
        known, self.partition_epoch = self.partition_epoch, 0
        try:
            return propose(self, state, isr)
        finally:
            self.partition_epoch = known

    return patched(Leader, _propose=old)


@MUTANTS.register("broker.md 7: an AlterPartition that goes to a broker")
def proposals_go_to_a_broker() -> Context:
    """A change of the ISR is sent to a broker instead of to the controller: no answer comes."""

    def ask(self: AlterPartitions) -> None:
        return

    return patched(AlterPartitions, _ask=ask)


# --- fetches


@MUTANTS.register("KAFKA-8052, KIP-320")
def followers_of_any_epoch() -> Context:
    """A leader serves Fetch requests of other leader epochs."""

    def fault(replica: Replica | None, leader_epoch: int) -> ErrorCode:
        if replica is None or replica.leader is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    return together(
        patched(FollowerFetches, fault=staticmethod(fault)),
        patched(fetch, partition_fault=lambda log, leader_epoch: ErrorCode.NONE),
    )


@MUTANTS.register("KIP-903")
def fetches_of_replaced_brokers_count() -> Context:
    """A Fetch of a process that was replaced counts for its successor."""

    def check(self: Leader, broker_id: int, broker_epoch: int) -> ErrorCode:
        known = broker_id in self.followers
        return ErrorCode.NONE if known else ErrorCode.UNKNOWN_LEADER_EPOCH

    eligible = Leader._is_eligible

    def any_epoch(self: Leader, one: FollowerState) -> bool:
        registered = self._settings.broker(one.broker_id)
        if registered is not None:
            one.broker_epoch = registered.broker_epoch
        return eligible(self, one)

    return patched(Leader, check_follower=check, _is_eligible=any_epoch)


@MUTANTS.register("KAFKA-6361, KIP-279")
def divergence_is_not_compared() -> Context:
    """A leader does not compare the epoch of a follower's last record with its own log."""
    from tests.sim.brokers import fetching

    return patched(fetching, _diverging=lambda replica, wanted: None)


@MUTANTS.register("KIP-101")
def divergence_within_an_epoch_is_not_seen() -> Context:
    """A leader compares epochs, and not where they end."""
    from tests.sim.brokers import fetching

    found = fetching._diverging

    def diverging(replica: Replica, wanted: Any) -> tuple[int, int] | None:
        result = found(replica, wanted)
        return None if result is None or result[0] == wanted.last_fetched_epoch else result

    return patched(fetching, _diverging=diverging)


@MUTANTS.register("an obvious mistake")
def followers_read_what_is_committed_only() -> Context:
    """A leader gives its followers no more than is committed."""
    from tests.sim.brokers.partition_log import PartitionLog

    read = FollowerFetches._read

    def committed(self: FollowerFetches, key: Any, wanted: Any, state: Any, contact: Any) -> Any:
        replica = self._broker.replicas.get(key)
        limit = 0 if replica is None else replica.high_watermark
        of_log = PartitionLog.read

        def limited(log: PartitionLog, offset: int, end: int, most: int) -> Any:
            return of_log(log, offset, min(end, limit), most)

        with patched(PartitionLog, read=limited):
            return read(self, key, wanted, state, contact)

    return patched(FollowerFetches, _read=committed)


# --- clients


@MUTANTS.register("an obvious mistake")
def acknowledges_at_once() -> Context:
    """acks=all is answered as soon as the leader has the batch."""

    def produce(self: Replica, entry: Any, acks: int, on_done: Any) -> None:
        is_batch = entry.marker is None
        _produce(self, entry, 1 if is_batch else acks, on_done)

    return patched(Replica, produce=produce)


@MUTANTS.register("an obvious mistake")
def duplicates_are_acknowledged_at_once() -> Context:
    """A batch that comes again is acknowledged, committed or not."""

    def produce(self: Replica, entry: Any, acks: int, on_done: Any) -> None:
        end = self.log.end_offset
        _produce(self, entry, acks, on_done)
        if self.leader is not None and self.log.end_offset == end and self.waiting:
            one = self.waiting[-1]
            if one.on_done is on_done:
                self.waiting.pop()
                on_done(Produced(ErrorCode.NONE, one.offset))

    return patched(Replica, produce=produce)


@MUTANTS.register("broker.md 7: a fenced broker that still acknowledges")
def acknowledges_when_leadership_is_lost() -> Context:
    """Requests that wait are answered with success when another broker becomes leader."""

    def follow(self: Replica, record: Any) -> None:
        waiting, self.waiting = self.waiting, []
        for one in waiting:
            one.on_done(Produced(ErrorCode.NONE, one.offset))
        _follow(self, record)

    return patched(Replica, follow=follow)


@MUTANTS.register("an obvious mistake")
def acknowledges_below_min_isr() -> Context:
    """Nothing compares the ISR with min.insync.replicas."""
    none = property(lambda self: False)
    fault = patched(Leader, fault_of_commit=lambda self: ErrorCode.NONE)
    return together(patched(Leader, is_under_min_isr=none), fault)


@MUTANTS.register("an obvious mistake")
def consumers_read_to_the_end() -> Context:
    """Consumers get records that are not committed."""

    def consume(self: Replica, offset: int, *, read_committed: bool) -> Consumed:
        log, end = self.log, self.log.end_offset
        if not log.start_offset <= offset <= end:
            return Consumed(ErrorCode.OFFSET_OUT_OF_RANGE, (), end, log.start_offset)
        entries = log.read(offset, end, ENTRIES_MAX)
        return Consumed(ErrorCode.NONE, entries, end, log.start_offset)

    return patched(Replica, consume=consume)


@MUTANTS.register("broker.md 7: a log start moved past the high watermark by DeleteRecords")
def records_are_deleted_that_are_not_committed() -> Context:
    """DeleteRecords moves the log start past the high watermark."""

    def delete(self: Replica, before: int) -> None:
        if self.leader is not None:
            end = self.log.end_offset
            self.log.delete_below(end if before < 0 else min(before, end))
            self.advanced()

    return patched(Replica, delete_records=delete)


@MUTANTS.register("KAFKA-17507")
def an_epoch_begins_with_its_first_record() -> Context:
    """A new leader's epoch is not noted before it has a record."""
    from gateway.base.leader_epochs import LeaderEpochs

    def lead(self: Replica, record: Any) -> None:
        with patched(LeaderEpochs, assign=lambda self, epoch, offset: None):
            of_leader(self, record)

    of_leader = Replica.lead
    return patched(Replica, lead=lead)


# --- logs that were compared


@MUTANTS.register("kwire, before schedule 29176")
def leaders_forget_which_logs_they_compared() -> Context:
    """A follower whose records were all deleted by its leader is never told that they were the
    leader's.
    """
    return patched(Leader, has_compared=lambda self, broker_id: False)
