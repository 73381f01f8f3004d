"""Bugs in elections: which votes are given and counted, and which of them are on disk."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Final

from gateway.quorum import election, responses, transitions
from gateway.quorum.effects import ElectionState, Reply, Send
from gateway.quorum.election import Election
from gateway.quorum.leader_role import LeaderRole
from gateway.quorum.node import NO_NODE, Node
from gateway.quorum.raft import Raft
from gateway.quorum.roles import Candidate, Unattached
from kwire.messages.vote_response import VoteResponse
from tests.patches import patched, together
from tests.sim.mutant_registry import Mutants

Context = AbstractContextManager[Any]
MUTANTS: Final = Mutants()


@MUTANTS.register("Raft 5.4.1")
def any_log_is_good_enough() -> Context:
    """A vote is given without comparing logs."""
    return patched(election, _is_up_to_date=lambda candidate, own: True)


@MUTANTS.register("Raft 5.4.1")
def the_longer_log_wins() -> Context:
    """Logs are compared by their length alone."""
    return patched(election, _is_up_to_date=lambda candidate, own: candidate.offset >= own.offset)


@MUTANTS.register("Raft 5.4.1")
def the_later_epoch_wins() -> Context:
    """Logs are compared by their last epoch alone."""
    return patched(election, _is_up_to_date=lambda candidate, own: candidate.epoch >= own.epoch)


@MUTANTS.register("Raft 5.2")
def votes_twice_in_an_epoch() -> Context:
    """A second candidate of the same epoch gets a vote, too."""
    grants = Election._grants

    def generous(
        self: Election, candidate_id: int, directory_id: Any, log_end: Any, pre_vote: bool
    ) -> bool:
        node, state = self._node, self._node.election
        if not pre_vote and isinstance(node.role, Unattached) and state.leader_id == NO_NODE:
            return election._is_up_to_date(log_end, node.log.end)
        return grants(self, candidate_id, directory_id, log_end, pre_vote)

    def vote(self: Node, candidate_id: int, directory_id: Any) -> None:
        self._persist(
            replace(self.election, voted_id=candidate_id, voted_directory_id=directory_id)
        )

    return together(patched(Election, _grants=generous), patched(Node, vote=vote))


@MUTANTS.register("robustmq#2039")
def votes_before_it_is_on_disk() -> Context:
    """The response that grants a vote does not wait for the disk."""

    def reply(node: Node, number: int, message: Any, read: Any = None) -> None:
        node.emit(
            Reply(
                number, message, read, 0 if isinstance(message, VoteResponse) else node.state_token
            )
        )

    return patched(responses, reply=reply)


@MUTANTS.register("KIP-595, Raft 5.2")
def votes_are_not_written() -> Context:
    """A vote is only kept in memory."""

    def vote(self: Node, candidate_id: int, directory_id: Any) -> None:
        self.election = replace(
            self.election, voted_id=candidate_id, voted_directory_id=directory_id
        )

    return patched(Node, vote=vote)


@MUTANTS.register("an obvious mistake")
def own_vote_is_not_written() -> Context:
    """A candidate stores its new epoch, but not its vote for itself."""
    persist = Node._persist

    def forgetful(self: Node, state: ElectionState) -> None:
        persist(
            self,
            replace(state, voted_id=NO_NODE) if state.voted_id == self.settings.node_id else state,
        )
        self.election = state

    return patched(Node, _persist=forgetful)


@MUTANTS.register("an obvious mistake")
def asks_for_votes_before_its_own_is_on_disk() -> Context:
    """A candidate's requests do not wait for the disk."""
    return _asks_at_once(52)


@MUTANTS.register("hashicorp/raft#661")
def epoch_and_vote_are_written_apart() -> Context:
    """quorum-state is replaced twice for one change, the epoch and then the vote; responses wait
    for the first.
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


@MUTANTS.register("KIP-996")
def a_prospective_forgets_its_vote() -> Context:
    """A voter that becomes prospective forgets its vote of the same epoch."""
    campaign = Election.campaign

    def forgetful(self: Election) -> None:
        node = self._node
        if node.election.leader_id == NO_NODE:
            node.election = replace(node.election, voted_id=NO_NODE)
        campaign(self)

    return patched(Election, campaign=forgetful)


@MUTANTS.register("Raft 5.2")
def votes_of_an_older_election_count() -> Context:
    """A vote for a candidate counts in a later election of the same node."""
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


@MUTANTS.register("KIP-996")
def a_pre_vote_is_a_vote() -> Context:
    """Granted pre-votes count as votes."""

    def become_candidate(self: Election, retries: int) -> None:
        node = self._node
        asked = dict(node.role.votes) if hasattr(node.role, "votes") else {}
        really(self, retries)
        if isinstance(node.role, Candidate):
            node.role.votes.update(asked)
            self._count(node.role)

    really = Election._become_candidate
    return patched(Election, _become_candidate=become_candidate)


@MUTANTS.register("Raft 5.2")
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

    become_leader = LeaderRole.become_leader

    def unchecked(self: LeaderRole, candidate: Candidate) -> None:
        for id in self._node.voters.nodes:
            candidate.votes[id] = True
        become_leader(self, candidate)

    return together(patched(Election, _count=count), patched(LeaderRole, become_leader=unchecked))


@MUTANTS.register("KIP-595")
def a_vote_does_not_advance_the_epoch() -> Context:
    """A vote is granted in an epoch that the voter does not adopt."""
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


@MUTANTS.register("an obvious mistake")
def leads_without_a_whole_image() -> Context:
    """A node campaigns although its image lacks what is committed."""
    whole = Node.__dict__["is_electable"].fget

    def is_electable(self: Node) -> bool:
        lacks, self.image_lacks = self.image_lacks, None
        try:
            return bool(whole(self))
        finally:
            self.image_lacks = lacks

    return patched(Node, is_electable=property(is_electable))


@MUTANTS.register("an obvious mistake")
def a_whole_image_is_not_noticed() -> Context:
    """A node whose image is whole again does not campaign before it has seen a leader."""

    def set_election_time(self: Raft, role: Unattached) -> None:
        if not self._node.is_electable:
            role.election_at = math.inf

    return patched(Raft, _set_election_time=set_election_time)
