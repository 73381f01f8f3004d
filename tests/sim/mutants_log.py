"""Bugs of a follower and of the log: in Fetches, truncations, snapshots and high watermarks."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Final

from gateway.base.leader_epochs import LeaderEpochs
from gateway.quorum import batches, following, response_checks
from gateway.quorum.effects import Advance, Send, Truncate
from gateway.quorum.following import Following
from gateway.quorum.node import Node
from gateway.quorum.partition import Position
from gateway.quorum.peers import Peers
from gateway.quorum.replicated_log import ReplicatedLog
from gateway.quorum.roles import Follower
from kwire.records import iter_batches
from tests.patches import patched, together
from tests.sim.mutant_registry import Mutants

Context = AbstractContextManager[Any]
MUTANTS: Final = Mutants()


@MUTANTS.register("KAFKA-10533")
def fetches_before_it_is_on_disk() -> Context:
    """The next Fetch, which acknowledges the records, does not wait for the disk."""
    emit = Node.emit

    def at_once(self: Node, effect: Any) -> None:
        fetches = isinstance(effect, Send) and effect.api_key == 1
        emit(
            self, replace(effect, after=min(effect.after, self.state_token)) if fetches else effect
        )

    return patched(Node, emit=at_once)


@MUTANTS.register("KAFKA-13884, 17332")
def observers_do_not_sync() -> Context:
    """An observer, which may be a voter soon, fetches on without waiting for its disk."""
    emit = Node.emit

    def at_once(self: Node, effect: Any) -> None:
        observes = isinstance(effect, Send) and effect.api_key == 1 and not self.is_voter
        emit(
            self, replace(effect, after=min(effect.after, self.state_token)) if observes else effect
        )

    return patched(Node, emit=at_once)


@MUTANTS.register("the text of KIP-595, FetchResponse step 2")
def truncates_to_the_leaders_offset() -> Context:
    """A follower truncates to the leader's offset without looking at its own epochs."""
    return patched(
        following, truncation_offset=lambda log, leaders: min(log.end_offset - 1, leaders.offset)
    )


@MUTANTS.register("invariant 9")
def truncates_what_is_committed() -> Context:
    """A diverging response truncates to the epoch before, even below the high watermark."""

    def diverged(self: Following, leaders: Any, sender: str) -> None:
        node = self._node
        epochs = [base for epoch, base in node.log.epochs]
        target = max(
            [base for base in epochs if base < leaders.offset], default=node.log.start_offset
        )
        if target < node.log.end_offset:
            token = node.next_token()
            node.log.truncate_to(target)
            node.emit(Truncate(token, target))
            node.history.truncate_to(target)

    return patched(Following, _truncate_diverged=diverged)


@MUTANTS.register("KIP-595")
def a_diverging_log_is_not_truncated() -> Context:
    """A follower whose log diverges does not truncate it."""
    return patched(Following, _truncate_diverged=lambda self, leaders, sender: None)


@MUTANTS.register("an obvious mistake")
def late_divergence_counts() -> Context:
    """A diverging response is used late or twice, although the log has changed since."""

    def anyhow(
        self: Following,
        role: Follower,
        address: Any,
        below: Any,
        asked: Any,
        sent_at: float,
        message: Any,
        version: int,
    ) -> bool | None:
        found = message.responses[0].partitions[0].diverging_epoch if message.responses else None
        if found is not None and found.epoch >= 0 and found.end_offset < self._node.log.end_offset:
            asked, now = self._node.log.end, self._node.role
            role = now if isinstance(now, Follower) else role
        return really(self, role, address, below, asked, sent_at, message, version)

    def answered(self: Peers, number: int, message: Any, version: int, now: float) -> None:
        asked = self._asked.get(number)
        once(self, number, message, version, now)
        if asked is not None:
            self._asked[number] = asked

    def ended(self: Peers, peer: Any, number: int) -> None:
        if peer.number == number:
            peer.number, peer.until = 0, math.inf

    really, once = Following._on_fetch_answer, Peers.answered
    return together(
        patched(Following, _on_fetch_answer=anyhow), patched(Peers, answered=answered, _ended=ended)
    )


@MUTANTS.register("invariant 8")
def commits_what_it_does_not_have_yet() -> Context:
    """A follower adopts the leader's high watermark before it has the records."""

    def advance(self: Following, role: Follower) -> None:
        node = self._node
        if role.leader_high_watermark > node.high_watermark:
            node.high_watermark = role.leader_high_watermark
            node.emit(Advance(role.leader_high_watermark))

    return patched(Following, advance=advance)


@MUTANTS.register("KAFKA-13884")
def commits_what_is_not_on_its_disk() -> Context:
    """A follower shows records before they are on its own disk."""

    def advance(self: Following, role: Follower) -> None:
        node = self._node
        reached = min(role.leader_high_watermark, node.log.end_offset)
        if reached > node.high_watermark:
            node.high_watermark = reached
            node.emit(Advance(reached))

    return patched(Following, advance=advance)


@MUTANTS.register("KAFKA-12460")
def high_watermark_follows_the_leader_down() -> Context:
    """A follower adopts the lower high watermark of a new leader."""

    def advance(self: Following, role: Follower) -> None:
        node = self._node
        reached = min(max(role.leader_high_watermark, 0), node.log.flushed)
        if reached != node.high_watermark:
            node.high_watermark = reached
            node.emit(Advance(reached))

    return patched(Following, advance=advance)


@MUTANTS.register("invariant 7")
def everything_fetched_counts_as_committed() -> Context:
    """A follower counts all fetched records as committed."""

    def advance(self: Following, role: Follower) -> None:
        node = self._node
        if node.log.flushed > node.high_watermark:
            node.high_watermark = node.log.flushed
            node.emit(Advance(node.log.flushed))

    return patched(Following, advance=advance)


@MUTANTS.register("an obvious mistake")
def appends_late_responses() -> Context:
    """Records of a late response are appended at the current log end, from any leader."""

    def anyhow(
        self: Following,
        role: Follower,
        address: Any,
        below: Any,
        asked: Any,
        sent_at: float,
        message: Any,
        version: int,
    ) -> bool | None:
        if isinstance(self._node.role, Follower):
            role = self._node.role
        return really(self, role, address, below, self._node.log.end, sent_at, message, version)

    really = Following._on_fetch_answer
    from gateway.quorum import transitions

    says = transitions.handle_common_response

    def usable(
        node: Any,
        sender: str,
        error: int,
        epoch: int,
        leader_id: int,
        endpoints: Any,
        asked: Any = None,
    ) -> bool:
        return says(node, sender, error, epoch, leader_id, endpoints, asked) or (
            not error and epoch < node.epoch
        )

    def anywhere(partition: Any, log_end: Position, leader_epoch: int) -> Any:
        begin = (
            int.from_bytes(partition.records[:8], "big") if partition.records else log_end.offset
        )
        return given(partition, Position(begin, 0), leader_epoch)

    given = response_checks.given_batches
    return together(
        patched(Following, _on_fetch_answer=anyhow),
        patched(transitions, handle_common_response=usable),
        patched(response_checks, given_batches=anywhere),
    )


@MUTANTS.register("KAFKA-14618")
def a_snapshot_ends_one_record_early() -> Context:
    """The end offset of a snapshot is taken for the offset of its last record."""

    def truncate_to_snapshot(self: ReplicatedLog, id: Any) -> None:
        really(self, id)
        self.start_offset = self.end_offset = self.flushed = id.end_offset - 1

    really = ReplicatedLog.truncate_to_snapshot
    return patched(ReplicatedLog, truncate_to_snapshot=truncate_to_snapshot)


@MUTANTS.register("KIP-630")
def a_snapshot_has_no_epoch() -> Context:
    """The epoch of an installed snapshot is forgotten."""

    def truncate_to_snapshot(self: ReplicatedLog, id: Any) -> None:
        really(self, id)
        self._start_epoch = 0

    really = ReplicatedLog.truncate_to_snapshot
    return patched(ReplicatedLog, truncate_to_snapshot=truncate_to_snapshot)


@MUTANTS.register("KAFKA-18723")
def crcs_are_not_checked() -> Context:
    """Fetched records are appended without a check of their CRC."""
    return patched(batches, iter_batches=lambda data, check_crc: iter_batches(data))


@MUTANTS.register("KIP-630")
def a_fetch_below_the_log_start_gets_no_snapshot() -> Context:
    """A leader does not send a Fetch below its log start to a snapshot."""
    validate = ReplicatedLog.validate

    def log_only(self: ReplicatedLog, offset: int, epoch: int) -> Any:
        verdict = validate(self, offset, epoch)
        return type(verdict)() if verdict.snapshot is not None else verdict

    return patched(ReplicatedLog, validate=log_only)


@MUTANTS.register("invariant 3")
def truncation_keeps_epochs() -> Context:
    """The epochs of truncated records stay in the epoch cache."""

    def truncate_to(self: ReplicatedLog, offset: int) -> None:
        epochs = self.epochs
        really(self, offset)
        self._epochs = LeaderEpochs([one for one in epochs if one[1] <= offset] or epochs[:1])

    really = ReplicatedLog.truncate_to
    return patched(ReplicatedLog, truncate_to=truncate_to)


@MUTANTS.register("KAFKA-10533")
def truncation_forgets_what_is_on_disk() -> Context:
    """After a truncation, records count as durable before they are synced."""

    def truncate_to(self: ReplicatedLog, offset: int) -> None:
        really(self, offset)
        self.flushed = offset
        self._unsynced.clear()

    def append(self: ReplicatedLog, token: int, end_offset: int, batches: Any) -> None:
        before = self.flushed == self.end_offset and not self._unsynced
        add(self, token, end_offset, batches)
        if before and len(self.epochs) > 2:
            self.flushed = end_offset

    really, add = ReplicatedLog.truncate_to, ReplicatedLog.append
    return patched(ReplicatedLog, truncate_to=truncate_to, append=append)
