"""Bugs in epochs, roles and timers: which leader a node follows, and when it gives up."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Final

from gateway.quorum import checks, election, epoch_bounds, node, quorum_requests, transitions
from gateway.quorum.effects import ElectionState
from gateway.quorum.election import Election
from gateway.quorum.leader_role import LeaderRole
from gateway.quorum.node import NO_NODE, Node
from gateway.quorum.peers import Peers
from gateway.quorum.quorum_requests import QuorumRequests
from gateway.quorum.resigned_role import ResignedRole
from gateway.quorum.roles import Follower, Leader, Resigned, Unattached
from tests.patches import patched, together
from tests.sim.mutant_registry import Mutants

Context = AbstractContextManager[Any]
MUTANTS: Final = Mutants()


@MUTANTS.register("KAFKA-10527")
def leads_on_after_a_restart() -> Context:
    """A leader that restarts continues to lead its epoch."""
    resigned = Node.become_resigned

    def lead_on(self: Node, unaware: set[int], successors: Any = ()) -> None:
        if isinstance(self.role, Leader):
            return resigned(self, unaware, successors)
        from gateway.quorum.roles import Progress

        voters = {
            one.id: Progress(one.id, one.directory_id)
            for one in self.voters
            if one.id != self.settings.node_id
        }
        epochs = dict(self.log.epochs)
        start = epochs.get(self.epoch, self.log.end_offset)
        # Not by _enter, which asserts that a node does not lead after a restart.
        self.role = Leader(self.epoch, start, self.now, voters, self.now, self.now + 3.0)
        self.announce_leader()
        return None

    return patched(Node, become_resigned=lead_on)


@MUTANTS.register("Raft 5.1")
def epochs_are_not_written() -> Context:
    """A new epoch is stored only once there is a vote or a leader in it."""
    persist = Node._persist

    def lazy(self: Node, state: ElectionState) -> None:
        if state.voted_id == NO_NODE and state.leader_id == NO_NODE:
            self.election = state
        else:
            persist(self, state)

    return patched(Node, _persist=lazy)


@MUTANTS.register("Raft 5.1")
def announcements_of_older_epochs_are_believed() -> Context:
    """A voter follows the leader of an epoch that is over."""
    voter_only = checks.voter_only

    def anything(node: Any, sender_id: int, epoch: int) -> Any:
        error = voter_only(node, sender_id, epoch)
        if error and 0 <= epoch < node.epoch and not isinstance(node.role, Leader):
            node._enter(Unattached(node.now + 1.0), ElectionState(epoch))
            return voter_only(node, sender_id, epoch)
        return error

    return patched(checks, voter_only=anything)


@MUTANTS.register("reading of KafkaRaftClient.maybeTransition")
def a_second_leader_named_raises() -> Context:
    """A request that names a second leader for the epoch raises, as in Kafka."""
    consistent = checks.is_consistent_leader

    def or_die(node: Any, epoch: int, leader_id: int) -> bool:
        if not consistent(node, epoch, leader_id):
            raise RuntimeError(f"{leader_id} cannot lead epoch {epoch}")
        return True

    return patched(transitions, is_consistent_leader=or_die)


@MUTANTS.register("Raft 5.2")
def a_second_leader_of_an_epoch_is_believed() -> Context:
    """A second leader named for an epoch replaces the first."""

    def follow(node: Any, epoch: int, leader_id: int, endpoints: Any) -> bool:
        if (
            epoch == node.epoch
            and leader_id not in (NO_NODE, node.settings.node_id, node.leader_id)
            and node.leader_id >= 0
        ):
            node.election = replace(node.election, leader_id=NO_NODE)
            if not isinstance(node.role, Leader):
                transitions._follow(node, epoch, leader_id, endpoints)
                return True
        return hear(node, epoch, leader_id, endpoints)

    hear = transitions.maybe_transition
    return patched(transitions, maybe_transition=follow)


@MUTANTS.register("reading of KafkaRaftClient.handleVoteRequest")
def any_epoch_of_a_request_is_believed() -> Context:
    """A request raises the epoch to any number, as in Kafka."""
    believed = lambda node, sender_id, epoch: True  # noqa: E731
    return together(
        patched(election, request_believed=believed),
        patched(quorum_requests, request_believed=believed),
    )


@MUTANTS.register("KIP-853")
def unknown_senders_are_never_believed() -> Context:
    """A voter that this node does not know yet raises its epoch never."""
    believed = epoch_bounds.request_believed

    def known_only(node: Any, sender_id: int, epoch: int) -> bool:
        return epoch <= node.epoch or (
            sender_id in node.voters.nodes and believed(node, sender_id, epoch)
        )

    return together(
        patched(election, request_believed=known_only),
        patched(quorum_requests, request_believed=known_only),
    )


@MUTANTS.register("an obvious mistake")
def an_epoch_out_of_reach_on_disk_is_believed() -> Context:
    """A node begins in the epoch that is on its disk, whatever that is."""
    return patched(
        node,
        _first_state=lambda stored, last_epoch, observes: (
            stored.election or ElectionState(last_epoch)
        ),
    )


@MUTANTS.register("KAFKA-10817, 12440, 13528")
def cluster_ids_are_not_compared() -> Context:
    """Requests with another cluster id are served."""
    return patched(checks, is_other_cluster=lambda node, cluster_id: False)


@MUTANTS.register("KAFKA-15489")
def leads_without_followers() -> Context:
    """A leader without fetching followers does not resign."""
    return patched(LeaderRole, _silent_at=lambda self, leader: math.inf)


@MUTANTS.register("KAFKA-16144")
def a_lone_voter_resigns() -> Context:
    """The leader of a quorum of one resigns for lack of Fetches."""

    def silent_at(self: LeaderRole, leader: Leader) -> float:
        heard = [max(voter.fetched_at, leader.began_at) for voter in leader.progress.values()] or [
            leader.began_at
        ]
        return max(heard) + 3.0

    return patched(LeaderRole, _silent_at=silent_at)


@MUTANTS.register("KAFKA-10677")
def parked_fetches_are_forgotten() -> Context:
    """Fetches parked at a leader that resigns get no response."""
    from gateway.quorum.serving import Serving

    return patched(Serving, stopped_leading=lambda self, leader: leader.delayed.clear())


@MUTANTS.register("KAFKA-18345, 14280")
def timeouts_are_not_random() -> Context:
    """Election and fetch timeouts have no random part."""
    return together(
        patched(Node, random_election_timeout=lambda self: self.settings.election_timeout_s),
        patched(Node, random_fetch_timeout=lambda self: self.settings.fetch_timeout_s),
        patched(Election, _rest=lambda self, role: 0.0),
    )


@MUTANTS.register("KAFKA-17751, 19605")
def a_timer_is_never_set_again() -> Context:
    """The timer of BeginQuorumEpoch requests is never set to a later time."""

    def poll(self: LeaderRole, leader: Leader) -> None:
        before = leader.begin_at
        really(self, leader)
        leader.begin_at = min(before, leader.begin_at)

    really = LeaderRole.poll
    return patched(LeaderRole, poll=poll)


@MUTANTS.register("an obvious mistake")
def late_responses_count() -> Context:
    """A late response is taken for the response to the current request."""

    def answered(self: Peers, number: int, message: Any, version: int, now: float) -> None:
        asked = self._asked.get(number)
        if asked is not None:
            peer, on_answer, _ = asked
            peer.number, peer.until = 0, math.inf
            on_answer(message, version)

    return together(patched(Peers, answered=answered), _fetch_answers_at_any_time())


@MUTANTS.register("an obvious mistake")
def resigned_stays_resigned() -> Context:
    """A leader that resigned never begins an election itself."""

    def poll(self: ResignedRole, role: Resigned) -> None:
        role.election_at = self._node.now + 3600.0
        for id in sorted(role.unaware):
            self._end(role, id)

    return patched(ResignedRole, poll=poll)


@MUTANTS.register("KIP-595")
def voters_outlive_their_leader() -> Context:
    """A follower's fetch timeout never expires."""

    def patience(self: QuorumRequests) -> float:
        return math.inf

    return together(
        patched(Node, random_fetch_timeout=patience),
        patched(Follower, __init__=_patient(Follower.__init__)),
    )


def _patient(init: Any) -> Any:
    def made(self: Follower, *values: Any, **named: Any) -> None:
        init(self, *values, **named)
        self.fetch_until = self.timeout_s = math.inf

    return made


def _fetch_answers_at_any_time() -> Context:
    from gateway.quorum.following import Following

    on_answer = Following._on_fetch_answer

    def anyhow(
        self: Any, role: Any, address: Any, below: Any, asked: Any, *more: Any
    ) -> bool | None:
        return on_answer(self, role, address, below, self._node.log.end, *more)

    return patched(Following, _on_fetch_answer=anyhow)
