"""Bugs to be put into the core one at a time, where it observes: what the simulation is worth is
how many of them it finds.

Each is a change that a tired person could make, most of them known from Kafka's own history or from
the text of KIP-595.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

from gateway.quorum import (
    batches,
    transitions,
)
from gateway.quorum.backoff import Backoff
from gateway.quorum.effects import Advance, Persist
from gateway.quorum.fetching import only_partition
from gateway.quorum.following import Following
from gateway.quorum.leader_discovery import LeaderDiscovery
from gateway.quorum.node import NO_NODE, Node
from gateway.quorum.peers import Peers
from gateway.quorum.raft import Raft
from gateway.quorum.roles import Follower
from kwire.records import iter_batches

Mutant = Callable[[], contextlib.AbstractContextManager[Any]]
MUTANTS: dict[str, Mutant] = {}


def mutant(make: Mutant) -> Mutant:
    MUTANTS[make.__name__] = make
    return make


def patched(owner: Any, name: str, new: Any) -> Any:
    return mock.patch.object(owner, name, new)


@mutant
def late_answers_count() -> Any:
    """Responses are matched with no request."""
    begin, answered = Peers.begin, Peers.answered
    kept: dict[tuple[int, int], Any] = {}

    def keep(
        self: Peers,
        address: Any,
        timeout_s: float,
        now: float,
        on_answer: Any,
        on_failed: Any = None,
    ) -> int:
        number = begin(self, address, timeout_s, now, on_answer, on_failed)
        kept[id(self), number] = on_answer
        return number

    def any_time(self: Peers, number: int, message: Any, version: int, now: float) -> None:
        if number in self._asked:
            answered(self, number, message, version, now)
        else:
            kept[id(self), number](message, version)

    # Both checks are gone: later responses must not be refused because the log has moved on.
    return mock.patch.multiple(Peers, begin=keep, answered=any_time)


@mutant
def old_epochs_are_believed() -> Any:
    """A node that is behind may name a leader of its epoch."""
    said = transitions.handle_common_response

    def believed(node: Node, sender: str, error: int, epoch: int, *rest: Any) -> bool:
        return said(node, sender, error, max(epoch, node.epoch), *rest)

    return patched(transitions, "handle_common_response", believed)


@mutant
def epochs_are_not_remembered() -> Any:
    """quorum-state is never written."""
    return changed_effects(
        lambda effects: [effect for effect in effects if not isinstance(effect, Persist)]
    )


@mutant
def leader_of_the_last_epoch_stays() -> Any:
    """A new epoch without a leader keeps the old one's."""
    become = Node.become_unattached

    def keep(self: Node, epoch: int, leader_id: int = NO_NODE, *, afresh: bool = False) -> None:
        become(self, epoch, self.leader_id if leader_id == NO_NODE else leader_id, afresh=afresh)

    return patched(Node, "become_unattached", keep)


@mutant
def high_watermark_beyond_the_log() -> Any:
    """The leader's high watermark is taken over before the records are here."""

    def believe(self: Following, role: Follower) -> None:
        if role.leader_high_watermark > self._node.high_watermark:
            self._node.high_watermark = role.leader_high_watermark
            self._node.emit(Advance(role.leader_high_watermark))

    return patched(Following, "advance", believe)


@mutant
def high_watermark_follows_the_leader_down() -> Any:
    """A new leader, which does not know it yet, tells a lower one (KAFKA-12460)."""

    really = Following._continue

    def follow(self: Following, role: Follower, given: Any, high_watermark: int) -> None:
        really(self, role, given, high_watermark)
        if high_watermark < self._node.high_watermark:
            self._node.high_watermark = max(0, high_watermark)
            self._node.emit(Advance(self._node.high_watermark))

    return patched(Following, "_continue", follow)


@mutant
def high_watermark_before_the_logs_agree() -> Any:
    """A response that says that the logs differ moves the high watermark all the same."""
    take = Following._take

    def believe(self: Following, role: Follower, partition: Any, *rest: Any) -> bool:
        if partition.diverging_epoch.epoch >= 0:
            role.leader_high_watermark = max(role.leader_high_watermark, partition.high_watermark)
            self.advance(role)
        return take(self, role, partition, *rest)

    return patched(Following, "_take", believe)


@mutant
def everything_in_the_log_is_committed() -> Any:
    """Records are shown as soon as the leader sends them."""
    really = Following._continue

    def proceed(self: Following, role: Follower, given: Any, high_watermark: int) -> None:
        really(self, role, given, given.end.offset if given else high_watermark)

    return patched(Following, "_continue", proceed)


@mutant
def high_watermark_forgotten_at_the_start() -> Any:
    """A restart begins with the high watermark at 0."""
    init = Node.__init__

    def forget(self: Node, settings: Any, stored: Any, **more: Any) -> None:
        init(self, settings, replace(stored, high_watermark=0), **more)

    return patched(Node, "__init__", forget)


@mutant
def batches_with_a_wrong_checksum_are_taken() -> Any:
    """The CRC is left to the log, which refuses them when they are counted already
    (KAFKA-18723).
    """
    return patched(batches, "iter_batches", lambda data, **checks: iter_batches(data))


@mutant
def advance_before_the_disk_is_done() -> Any:
    """The high watermark is shown before the records are durable."""

    def early(self: Following, role: Follower) -> None:
        reached = min(role.leader_high_watermark, self._node.log.end_offset)
        if reached > self._node.high_watermark:
            self._node.high_watermark = reached
            self._node.emit(Advance(reached))

    return patched(Following, "advance", early)


@mutant
def no_back_off() -> Any:
    """A fruitless request is repeated at once."""
    return patched(Backoff, "failed", lambda self: 1e-6)


@mutant
def back_off_begins_anew() -> Any:
    """Every failure is the first."""
    failed = Backoff.failed

    def first(self: Backoff) -> float:
        self.progress()
        return failed(self)

    return patched(Backoff, "failed", first)


@mutant
def resigned_leader_is_obeyed_at_once() -> Any:
    """NOT_LEADER with a leader in it resets the pause, even when that leader is the one who
    refuses.
    """
    answered = Following._on_fetch_answer

    def obey(
        self: Following,
        role: Follower,
        address: Any,
        below: Any,
        asked: Any,
        at: float,
        message: Any,
        version: int,
    ) -> Any:
        useful = answered(self, role, address, below, asked, at, message, version)
        partition = None if message.error_code else only_partition(self._node, address, "", message)
        named = (
            partition is not None
            and partition.error_code
            and partition.current_leader.leader_id >= 0
        )
        if named:
            self._node.retry.progress()
        return True if named else useful

    return patched(Following, "_on_fetch_answer", obey)


@mutant
def dead_leader_is_asked_for_ever() -> Any:
    """No other node is asked while a leader is known."""
    poll = LeaderDiscovery.poll

    def alone(self: LeaderDiscovery) -> None:
        if not isinstance(self._node.role, Follower):
            poll(self)

    return mock.patch.multiple(
        LeaderDiscovery,
        poll=alone,
        deadline=lambda self: 1e9 if isinstance(self._node.role, Follower) else _deadline(self),
    )


_deadline = LeaderDiscovery.deadline


@mutant
def others_are_asked_for_ever() -> Any:
    """Once the leader was of no help it is never asked again."""
    ask = Following._ask_leader
    doubt = Following._suspect_leader

    def remember(self: Following, role: Follower) -> None:
        doubt(self, role)
        self._node.peers.at(role.endpoints[""]).ready_at = 1e9

    return mock.patch.multiple(Following, _suspect_leader=remember, _ask_leader=ask)


@mutant
def history_without_a_look_at_it() -> Any:
    """The batches of a Fetch from offset 1 are appended to an empty log without a check."""

    def take(self: Following, role: Follower, partition: Any, *rest: Any) -> bool:
        data = bytes(partition.records)
        heads = list(iter_batches(data))
        end, begins = (
            heads[-1].next_offset,
            [(head.partition_leader_epoch, head.base_offset) for head in heads],
        )
        self._history.below = None
        self._node.append(data, end, begins)
        return True

    return patched(Following, "_take_history", take)


@mutant
def replica_id_before_the_voters_are_known() -> Any:
    """The replica id is used at once, even a voter's."""
    return patched(
        Node, "replica", property(lambda self: (self.settings.node_id, self.settings.directory_id))
    )


def changed_effects(change: Callable[[list[Any]], list[Any]]) -> Any:
    step = Raft.step
    return patched(Raft, "step", lambda self, *given: change(step(self, *given)))


@contextlib.contextmanager
def put_in(name: str) -> Iterator[None]:
    """The core with one bug in it."""
    with MUTANTS[name]():
        yield


from tests.gateway.quorum.observer import mutants_logs  # noqa: E402, F401 - they register here
