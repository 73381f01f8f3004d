"""Bugs of a leader: in commits, Fetch responses, appends and changes of the voters."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

from gateway.quorum import batches, responses
from gateway.quorum.effects import Accepted, Advance, LogRange, NotLeading, Refused
from gateway.quorum.events import Tick
from gateway.quorum.leader_role import LeaderRole
from gateway.quorum.node import Node
from gateway.quorum.raft import Raft
from gateway.quorum.replicated_log import ReplicatedLog
from gateway.quorum.roles import DelayedFetch, Leader
from gateway.quorum.serving import Serving
from gateway.quorum.voter_changes import VoterChanges
from gateway.quorum.voter_history import VoterHistory
from gateway.quorum.voter_set import VoterNode, VoterSet
from kwire.protocol import ErrorCode
from tests.patches import patched, together
from tests.sim.mutant_registry import Mutants

Context = AbstractContextManager[Any]
MUTANTS: Final = Mutants()


def _offsets(leader: Leader) -> list[int]:
    return [progress.offset for progress in leader.progress.values()]


def _commits(
    reached: Any = lambda offsets, voters, flushed: min(offsets[voters.majority - 1], flushed),
    own: Any = lambda node, leader: node.log.flushed,
    past: Any = lambda reached, leader: reached > leader.start_offset,
    offsets: Callable[[Leader], list[int]] = _offsets,
) -> Context:
    """``LeaderRole.advance`` with one of its parts replaced."""

    def advance(self: LeaderRole, leader: Leader) -> None:
        node = self._node
        mine, those = own(node, leader), node.voters
        found = offsets(leader)
        if len(found) < len(those) or node.settings.node_id not in those:
            found.append(mine)
        found.sort(reverse=True)
        to = reached(found, those, mine)
        if not past(to, leader) or to <= leader.high_watermark:
            return
        leader.high_watermark = to
        if to > node.high_watermark:
            node.high_watermark = to
            node.emit(Advance(to))
        self._committed(leader)

    return patched(LeaderRole, advance=advance)


@MUTANTS.register("an obvious mistake")
def commits_alone() -> Context:
    """Records on the leader's disk count as committed."""
    return _commits(reached=lambda offsets, voters, flushed: flushed)


@MUTANTS.register("an obvious mistake")
def commits_with_a_minority() -> Context:
    """Records count as committed with one voter less than a majority."""
    return _commits(
        reached=lambda offsets, voters, flushed: min(offsets[max(0, voters.majority - 2)], flushed)
    )


@MUTANTS.register("Raft 5.4.2, figure 8")
def commits_what_older_epochs_left() -> Context:
    """The high watermark does not wait for a record of the leader's own epoch."""
    return _commits(past=lambda reached, leader: True)


@MUTANTS.register("KAFKA-12619")
def commits_at_its_epochs_start() -> Context:
    """The high watermark may stop at the epoch's start, before its first record."""
    return _commits(past=lambda reached, leader: reached >= leader.start_offset)


@MUTANTS.register("KAFKA-10533")
def counts_what_it_has_not_synced() -> Context:
    """A leader counts its own records before they are on its disk."""
    return _commits(own=lambda node, leader: node.log.end_offset)


@MUTANTS.register("invariant 8")
def observers_count() -> Context:
    """Observers count for the high watermark."""

    def with_observers(leader: Leader) -> list[int]:
        offsets = _offsets(leader)
        seen = [progress.offset for progress in leader.observers.values()]
        most = max(seen, default=-1)
        return [*sorted(offsets)[1:], max(min(offsets), most)] if offsets else []

    follow = Serving._follow

    def advances(self: Serving, leader: Leader, replica: Any, offset: int) -> None:
        follow(self, leader, replica, offset)
        self._leader_role.advance(leader)

    return together(_commits(offsets=with_observers), patched(Serving, _follow=advances))


@MUTANTS.register("KIP-853")
def another_disk_counts_for_the_voter() -> Context:
    """A replica with a voter's id and another directory id counts as that voter."""
    return patched(VoterNode, is_key=lambda self, id, directory_id: self.id == id)


@MUTANTS.register("KAFKA-10533")
def gives_out_what_is_not_on_disk() -> Context:
    """Followers get records that the leader has not synced."""

    def reply(node: Any, number: int, message: Any, read: Any = None) -> None:
        if isinstance(read, LogRange):
            read = LogRange(read.offset, node.log.end_offset, read.max_bytes)
        really(node, number, message, read)

    really = responses.reply
    return patched(responses, reply=reply)


@MUTANTS.register("KAFKA-12331")
def an_epoch_begins_at_offset_zero() -> Context:
    """The LEADER_CHANGE batch always has offset 0."""
    control_batch = batches.control_batch
    return patched(
        batches,
        control_batch=lambda messages, base, epoch, wall_ms: control_batch(
            messages, 0, epoch, wall_ms
        ),
    )


@MUTANTS.register("KAFKA-12376, 13148")
def only_the_first_batch_is_appended() -> Context:
    """Only the first batch of a proposal is appended, and all of its records are accepted."""

    def propose(self: LeaderRole, event: Any) -> None:
        node = self._node
        before = node.log.end_offset
        if len(event.batches) > 1 and isinstance(node.role, Leader):
            really(self, type(event)(event.number, event.epoch, event.batches[:1]))
            count = sum(map(len, event.batches))
            effects = node.take()
            for effect in effects:
                node.emit(
                    Accepted(event.number, before, before + count)
                    if isinstance(effect, Accepted)
                    else effect
                )
        else:
            really(self, event)

    really = LeaderRole.propose
    return patched(LeaderRole, propose=propose)


@MUTANTS.register("KAFKA-14996")
def refused_and_appended() -> Context:
    """A proposal of several batches is refused after the first is in the log."""

    def propose(self: LeaderRole, event: Any) -> None:
        if len(event.batches) > 2:
            really(self, type(event)(event.number, event.epoch, event.batches[:1]))
            self._node.emit(Refused(event.number, False, "too many"))
        else:
            really(self, event)

    really = LeaderRole.propose
    return patched(LeaderRole, propose=propose)


@MUTANTS.register("Kafka's epoch fencing of BatchAccumulator")
def proposals_of_older_epochs_are_taken() -> Context:
    """Records that the controller wrote for an older epoch are appended in the current one."""

    def propose(self: LeaderRole, event: Any) -> None:
        role = self._node.role
        if isinstance(role, Leader) and event.epoch < role.epoch:
            event = type(event)(event.number, role.epoch, event.batches)
        really(self, event)

    really = LeaderRole.propose
    return patched(LeaderRole, propose=propose)


@MUTANTS.register("KIP-595")
def acknowledges_when_appended() -> Context:
    """The controller gets the high watermark as soon as its records are in the log."""

    def propose(self: LeaderRole, event: Any) -> None:
        really(self, event)
        if isinstance(self._node.role, Leader):
            self._node.emit(Advance(self._node.log.end_offset))

    really = LeaderRole.propose
    return patched(LeaderRole, propose=propose)


@MUTANTS.register("an obvious mistake")
def fetch_positions_are_not_validated() -> Context:
    """A leader serves a Fetch without comparing the logs."""
    from gateway.quorum.replicated_log import VALID

    return patched(ReplicatedLog, validate=lambda self, offset, epoch: VALID)


@MUTANTS.register("the text of KIP-595, FetchRequest step 3")
def diverging_epoch_as_the_text_has_it() -> Context:
    """DivergingEpoch is the largest epoch that is less than the fetcher's, not the largest that is
    not above it.
    """
    end_offset_for_epoch = ReplicatedLog.end_offset_for_epoch

    def less(self: ReplicatedLog, epoch: int) -> tuple[int, int]:
        found, end = end_offset_for_epoch(self, epoch - 1)
        return (found, end) if found >= 0 else (0, self.start_offset)

    validate = ReplicatedLog.validate

    def literal(self: ReplicatedLog, offset: int, epoch: int) -> Any:
        verdict = validate(self, offset, epoch)
        if verdict.diverging is None:
            return verdict
        found, end = less(self, epoch)
        return type(verdict)(diverging=type(verdict.diverging)(end, found))

    return patched(ReplicatedLog, validate=literal)


@MUTANTS.register("KIP-595")
def offsets_are_compared_and_not_epochs() -> Context:
    """A Fetch below the leader's log end is valid, whatever its epoch."""
    from gateway.quorum.replicated_log import VALID

    validate = ReplicatedLog.validate

    def by_offset(self: ReplicatedLog, offset: int, epoch: int) -> Any:
        verdict = validate(self, offset, epoch)
        return VALID if verdict.diverging is not None and offset <= self.end_offset else verdict

    return patched(ReplicatedLog, validate=by_offset)


@MUTANTS.register("KIP-595")
def a_fetch_counts_before_logs_are_compared() -> Context:
    """The offset of a Fetch counts for the high watermark before the logs are compared."""

    def answer(self: Serving, leader: Leader, asked: DelayedFetch, now_or_never: bool) -> bool:
        offset = asked.partition.fetch_offset
        if asked.replica is not None and offset <= self._node.log.end_offset:
            self._follow(leader, asked.replica, offset)
        return really(self, leader, asked, now_or_never)

    really = Serving._answer
    return patched(Serving, _answer=answer)


@MUTANTS.register("KIP-853")
def cut_off_voters_still_vote() -> Context:
    """A truncated KRAFT_VOTERS record stays in force."""
    return patched(VoterHistory, truncate_to=lambda self, offset: None)


@MUTANTS.register("Raft 4.1, KIP-853")
def voters_are_old_after_a_snapshot() -> Context:
    """The voters of an installed snapshot are not read."""

    def truncate_to_snapshot(
        self: VoterHistory, id: Any, voters: VoterSet | None, kraft_version: int
    ) -> None:
        really(self, id, self.voters, kraft_version)

    really = VoterHistory.truncate_to_snapshot
    return patched(VoterHistory, truncate_to_snapshot=truncate_to_snapshot)


@MUTANTS.register("KIP-853")
def a_removed_leader_counts_itself() -> Context:
    """A leader that is no longer a voter still counts its own log."""
    return _commits()  # which counts it always


@MUTANTS.register("KIP-853")
def majorities_are_counted_without_the_leader() -> Context:
    """Half of an even number of voters counts as a majority."""
    return patched(VoterSet, majority=property(lambda self: max(1, (len(self.nodes) + 1) // 2)))


@MUTANTS.register("Raft's single-server changes, 2015")
def voters_change_before_the_epoch_is_established() -> Context:
    """A new leader changes the voters before a record of its own epoch is committed."""

    def not_now(self: VoterChanges, doing: str) -> Any:
        leader = self._node.role
        error, text = really(self, doing)
        if isinstance(leader, Leader) and leader.change is None and leader.high_watermark < 0:
            return ErrorCode.NONE, ""
        return error, text

    really = VoterChanges._not_now
    return patched(VoterChanges, _not_now=not_now)


@MUTANTS.register("KIP-853")
def voters_change_twice_at_once() -> Context:
    """A change of the voters does not wait until the one before is committed."""

    def not_now(self: VoterChanges, doing: str) -> Any:
        leader = self._node.role
        if (
            isinstance(leader, Leader)
            and leader.high_watermark >= 0
            and self._node.history.kraft_version >= 1
        ):
            leader.change = None
            return ErrorCode.NONE, ""
        return really(self, doing)

    really = VoterChanges._not_now
    return patched(VoterChanges, _not_now=not_now)


@MUTANTS.register("etcd#20418")
def a_paused_leader_answers() -> Context:
    """A leader that was suspended serves a request before it checks its timers."""

    def step(self: Raft, event: Any, now: float, wall_ms: int) -> Any:
        role = self._node.role
        if isinstance(role, Leader) and now >= role.silent_at and not isinstance(event, Tick):
            role.silent_at, was = math.inf, role.silent_at
            try:
                return really(self, event, now, wall_ms)
            finally:
                role.silent_at = was
        return really(self, event, now, wall_ms)

    really = Raft.step
    return patched(Raft, step=step)


@MUTANTS.register("KAFKA-13104, 14124")
def the_controller_is_not_deposed() -> Context:
    """A deposed leader's controller still waits for its proposals."""
    emit = Node.emit

    def silent(self: Node, effect: Any) -> None:
        if not isinstance(effect, NotLeading):
            emit(self, effect)

    return patched(Node, emit=silent)


@MUTANTS.register("KAFKA-15100")
def diverging_answers_wait() -> Context:
    """A Fetch whose log diverges is parked like one without new records."""

    def answer(self: Serving, leader: Leader, asked: DelayedFetch, now_or_never: bool) -> bool:
        partition = asked.partition
        verdict = self._node.log.validate(partition.fetch_offset, partition.last_fetched_epoch)
        if verdict.diverging is not None and not now_or_never:
            return False
        return really(self, leader, asked, now_or_never)

    def delay(self: Serving, leader: Leader, waiting: DelayedFetch) -> None:
        store(self, leader, waiting)
        waiting.until = math.inf

    really, store = Serving._answer, Serving._delay
    return patched(Serving, _answer=answer, _delay=delay)
