"""Bugs in votes, epochs, roles and requests: who may lead, and what of it is on disk."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from gateway.quorum import checks, election, responses, transitions
from gateway.quorum import node as raft_node
from gateway.quorum.effects import ElectionState, Reply, Send
from gateway.quorum.election import Election
from gateway.quorum.leader_role import LeaderRole
from gateway.quorum.node import NO_NODE, Node
from gateway.quorum.peers import Peers
from gateway.quorum.quorum_requests import QuorumRequests
from gateway.quorum.roles import Candidate, Follower, Leader, Resigned, Unattached
from kwire.messages.vote_response import VoteResponse
from tests.sim.mutants import mutant, patched, together

Context = AbstractContextManager[Any]


@mutant("Raft 5.4.1")
def any_log_is_good_enough() -> Context:
    """A vote is given without comparing logs."""
    return patched(election, _is_up_to_date=lambda theirs, ours: True)


@mutant("Raft 5.4.1")
def the_longer_log_wins() -> Context:
    """Logs are compared by their length alone."""
    return patched(election, _is_up_to_date=lambda theirs, ours: theirs.offset >= ours.offset)


@mutant("Raft 5.4.1")
def the_later_epoch_wins() -> Context:
    """Logs are compared by their last epoch alone."""
    return patched(election, _is_up_to_date=lambda theirs, ours: theirs.epoch >= ours.epoch)


@mutant("Raft 5.2")
def votes_for_everybody() -> Context:
    """A second candidate of the same epoch gets a vote, too."""
    grants = Election._grants

    def generous(
        self: Election, candidate_id: int, directory_id: Any, theirs: Any, pre_vote: bool
    ) -> bool:
        node, state = self._node, self._node.election
        if not pre_vote and isinstance(node.role, Unattached) and state.leader_id == NO_NODE:
            return election._is_up_to_date(theirs, node.log.end)
        return grants(self, candidate_id, directory_id, theirs, pre_vote)

    def vote(self: Node, candidate_id: int, directory_id: Any) -> None:
        self._persist(
            replace(self.election, voted_id=candidate_id, voted_directory_id=directory_id)
        )

    return together(patched(Election, _grants=generous), patched(Node, vote=vote))


@mutant("robustmq#2039")
def votes_before_it_is_on_disk() -> Context:
    """The answer that gives a vote does not wait for the disk."""

    def reply(node: Node, number: int, message: Any, read: Any = None) -> None:
        node.emit(
            Reply(
                number, message, read, 0 if isinstance(message, VoteResponse) else node.state_token
            )
        )

    return patched(responses, reply=reply)


@mutant("KIP-595, Raft 5.2")
def votes_are_not_written() -> Context:
    """A vote is only kept in memory."""

    def vote(self: Node, candidate_id: int, directory_id: Any) -> None:
        self.election = replace(
            self.election, voted_id=candidate_id, voted_directory_id=directory_id
        )

    return patched(Node, vote=vote)


@mutant("a mistake that lies near")
def own_vote_is_not_written() -> Context:
    """A candidate writes its new epoch, and not that it voted for itself."""
    persist = Node._persist

    def forgetful(self: Node, state: ElectionState) -> None:
        persist(
            self,
            replace(state, voted_id=NO_NODE) if state.voted_id == self.settings.node_id else state,
        )
        self.election = state

    return patched(Node, _persist=forgetful)


@mutant("a mistake that lies near")
def asks_for_votes_before_its_own_is_on_disk() -> Context:
    """A candidate's requests do not wait for the disk."""
    return _asks_at_once(52)


@mutant("hashicorp/raft#661")
def epoch_and_vote_are_written_apart() -> Context:
    """quorum-state is replaced twice for one change: the epoch, then the vote; answers wait for the
    first.
    """
    persist = Node._persist

    def twice(self: Node, state: ElectionState) -> None:
        if state == self._stored or state.voted_id == NO_NODE or state.leader_id != NO_NODE:
            return persist(self, state)
        persist(self, replace(state, voted_id=NO_NODE))
        waits_for = self.state_token
        persist(self, state)
        self.state_token = waits_for
        return None

    return patched(Node, _persist=twice)


@mutant("KAFKA-10527")
def leads_on_after_a_restart() -> Context:
    """A leader that restarts leads its epoch as if nothing had happened."""
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


@mutant("Raft 5.1")
def epochs_are_not_written() -> Context:
    """A new epoch is only written when there is a vote or a leader in it."""
    persist = Node._persist

    def lazy(self: Node, state: ElectionState) -> None:
        if state.voted_id == NO_NODE and state.leader_id == NO_NODE:
            self.election = state
        else:
            persist(self, state)

    return patched(Node, _persist=lazy)


@mutant("KIP-996")
def a_vote_is_forgotten_by_who_stands_itself() -> Context:
    """A voter whose time is up, and which asks for pre-votes in the same epoch, forgets whom it
    voted for in that.
    """
    campaign = Election.campaign

    def forgetful(self: Election) -> None:
        node = self._node
        if node.election.leader_id == NO_NODE:
            node.election = replace(node.election, voted_id=NO_NODE)
        campaign(self)

    return patched(Election, campaign=forgetful)


@mutant("Raft 5.2")
def votes_of_an_older_election_count() -> Context:
    """An answer to a candidate counts for the candidate that the node is by now."""
    on_answer = Election._on_vote_answer

    def counted(
        self: Election, requester: Any, voter_id: int, message: Any, version: int
    ) -> bool | None:
        role = self._node.role
        return on_answer(
            self, role if isinstance(role, Candidate) else requester, voter_id, message, version
        )

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
        found = says(node, sender, error, epoch, leader_id, endpoints, asked)
        return found or (epoch < node.epoch and isinstance(node.role, Candidate))

    return together(
        patched(Election, _on_vote_answer=counted),
        patched(transitions, handle_common_response=usable),
    )


@mutant("KIP-996")
def a_pre_vote_is_a_vote() -> Context:
    """The answers to a pre-vote elect."""

    def become_candidate(self: Election, retries: int) -> None:
        node = self._node
        asked = dict(node.role.votes) if hasattr(node.role, "votes") else {}
        really(self, retries)
        if isinstance(node.role, Candidate):
            node.role.votes.update(asked)
            self._count(node.role)

    really = Election._become_candidate
    return patched(Election, _become_candidate=become_candidate)


@mutant("Raft 5.2")
def half_the_votes_are_enough() -> Context:
    """A candidate wins with half of the voters, where a majority is needed."""

    def count(self: Election, role: Any) -> None:
        voters = self._node.voters
        granted = sum(role.votes.get(id, False) for id in voters.nodes)
        if granted >= max(1, len(voters) // 2):
            if isinstance(role, Candidate):
                self._elected(role)
            else:
                self._become_candidate(role.retries)

    take = LeaderRole.take

    def unchecked(self: LeaderRole, candidate: Candidate) -> None:
        for id in self._node.voters.nodes:
            candidate.votes[id] = True
        take(self, candidate)

    return together(patched(Election, _count=count), patched(LeaderRole, take=unchecked))


@mutant("KIP-595")
def a_vote_for_a_newer_epoch_does_not_move_ours() -> Context:
    """A vote is given in an epoch that the voter does not take over."""
    on_request = Election.on_vote_request

    def stay(self: Election, asked: Any) -> None:
        node = self._node
        unattached = Node.become_unattached

        def no_move(
            self: Node, epoch: int, leader_id: int = NO_NODE, *, afresh: bool = False
        ) -> None:
            if epoch == self.epoch:
                unattached(self, epoch, leader_id, afresh=afresh)

        with patched(Node, become_unattached=no_move):
            if isinstance(node.role, Unattached):
                on_request(self, asked)
                return
        on_request(self, asked)

    return patched(Election, on_vote_request=stay)


@mutant("Raft 5.1")
def what_follows_a_newer_epoch_is_older() -> Context:
    """A leader's announcement is believed in an epoch that is over."""
    voter_only = checks.voter_only

    def anything(node: Any, sender_id: int, epoch: int) -> Any:
        error = voter_only(node, sender_id, epoch)
        if error and 0 <= epoch < node.epoch and not isinstance(node.role, Leader):
            node._enter(Unattached(node.now + 1.0), ElectionState(epoch))
            return voter_only(node, sender_id, epoch)
        return error

    return patched(checks, voter_only=anything)


@mutant("reading of KafkaRaftClient.maybeTransition")
def two_leaders_named_kill_the_process() -> Context:
    """A request that names another leader for the epoch throws, as Kafka's does."""
    consistent = checks.is_consistent_leader

    def or_die(node: Any, epoch: int, leader_id: int) -> bool:
        if not consistent(node, epoch, leader_id):
            raise RuntimeError(f"{leader_id} cannot lead epoch {epoch}")
        return True

    return patched(transitions, is_consistent_leader=or_die)


@mutant("Raft 5.2")
def anybody_leads_who_says_so() -> Context:
    """A second leader named for an epoch takes the place of the first."""

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


@mutant("reading of QuorumState.transitionToCandidate")
def epochs_go_on_after_the_last() -> Context:
    """Nothing keeps an epoch below 2^31."""
    return together(
        *(patched(module, EPOCH_MAX=1 << 40) for module in (raft_node, election, transitions)),
        patched(Node, become_resigned=Node.become_resigned),
    )


@mutant("KAFKA-10817, 12440, 13528")
def cluster_ids_are_not_compared() -> Context:
    """Nodes of another cluster are served like our own."""
    return patched(checks, is_other_cluster=lambda node, cluster_id: False)


@mutant("KAFKA-15489")
def leads_without_followers() -> Context:
    """A leader that nobody fetches from leads on."""
    return patched(LeaderRole, _silent_at=lambda self, leader: math.inf)


@mutant("KAFKA-16144")
def a_lone_voter_resigns() -> Context:
    """A quorum of one waits for fetches, too."""

    def silent_at(self: LeaderRole, leader: Leader) -> float:
        heard = [max(voter.fetched_at, leader.began_at) for voter in leader.progress.values()] or [
            leader.began_at
        ]
        return max(heard) + 3.0

    return patched(LeaderRole, _silent_at=silent_at)


@mutant("KAFKA-10677")
def parked_fetches_are_forgotten() -> Context:
    """Who waits for a leader that resigns gets no answer."""
    from gateway.quorum.serving import Serving

    return patched(Serving, stopped_leading=lambda self, leader: leader.delayed.clear())


@mutant("KAFKA-18345, 14280")
def rivals_rest_equally_long() -> Context:
    """Nothing about elections is left to chance."""
    return together(
        patched(Node, random_election_timeout=lambda self: self.settings.election_timeout_s),
        patched(Node, random_fetch_timeout=lambda self: self.settings.fetch_timeout_s),
        patched(Election, _rest=lambda self, role: 0.0),
    )


@mutant("KAFKA-17751, 19605")
def a_timer_is_never_set_again() -> Context:
    """The reminder of voters that are away is due for ever."""

    def poll(self: LeaderRole, leader: Leader) -> None:
        before = leader.begin_at
        really(self, leader)
        leader.begin_at = min(before, leader.begin_at)

    really = LeaderRole.poll
    return patched(LeaderRole, poll=poll)


@mutant("a mistake that lies near")
def late_answers_count() -> Context:
    """An answer is taken for the one that is waited for, whatever its number."""

    def answered(self: Peers, number: int, message: Any, version: int, now: float) -> None:
        asked = self._asked.get(number)
        if asked is not None:
            peer, on_answer, _ = asked
            peer.number, peer.until = 0, math.inf
            on_answer(message, version)

    return together(patched(Peers, answered=answered), _fetch_answers_at_any_time())


@mutant("a mistake that lies near")
def resigned_stays_resigned() -> Context:
    """A leader that resigned waits for somebody else to begin a new epoch."""

    def poll_resigned(self: LeaderRole, role: Resigned) -> None:
        role.election_at = self._node.now + 3600.0
        for id in sorted(role.unaware):
            self._end(role, id)

    return patched(LeaderRole, poll_resigned=poll_resigned)


@mutant("KIP-595")
def voters_outlive_their_leader() -> Context:
    """A follower waits for its leader for ever."""

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


def _asks_at_once(api_key: int) -> Context:
    emit = Node.emit

    def at_once(self: Node, effect: Any) -> None:
        emit(
            self,
            replace(effect, after=0)
            if isinstance(effect, Send) and effect.api_key == api_key
            else effect,
        )

    return patched(Node, emit=at_once)
