"""Grants this node's vote, and campaigns for those of others (KIP-595, pre-vote of KIP-996).

Of the log it knows only the end. Follows ``handleVoteRequest``, ``pollUnattachedAsVoter``,
``pollProspective`` and ``pollCandidate``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from gateway.quorum import checks, requests, responses, transitions
from gateway.quorum.effects import ElectionState, Failure, FailureKind
from gateway.quorum.epoch_bounds import request_believed
from gateway.quorum.events import Requested
from gateway.quorum.node import EPOCH_MAX, NO_NODE, Node
from gateway.quorum.partition import Position
from gateway.quorum.roles import (
    Candidate,
    Follower,
    Leader,
    Nominee,
    Prospective,
    Resigned,
    Unattached,
)
from kwire.messages.vote_request import VoteRequest
from kwire.messages.vote_response import VoteResponse
from kwire.protocol import ErrorCode
from kwire.uuid import ZERO_UUID, Uuid

#: Seconds of the first pause after a lost election; each further one is twice as long, up to
#: ``election_backoff_max_s``.
_REST_S = 0.1


class Election:
    """Votes for candidates, and campaigns for this node."""

    def __init__(self, node: Node, elected: Callable[[Candidate], None]) -> None:
        self._node = node
        self._elected = elected  #: called when a majority voted for this node

    # --- votes for others ---

    def on_vote_request(self, asked: Requested) -> None:
        """Answer a Vote request.

        The node moves to a newer epoch, if it believes it, even if it does not grant the vote (Raft
        5.1): otherwise a candidate with a short log could never be told of the epoch to beat.
        """
        node = self._node
        request = asked.message
        assert isinstance(request, VoteRequest), request
        # Before anything is taken from the request: the epoch of another cluster's candidate must
        # not depose this cluster's leader (KAFKA-12440). Seeded bug in tests/sim:
        # ``cluster_ids_are_not_compared``.
        if checks.is_other_cluster(node, request.cluster_id):
            return responses.refuse(node, asked, VoteResponse, ErrorCode.INCONSISTENT_CLUSTER_ID)
        partition = checks.only_partition(request.topics)
        if partition is None:
            return responses.refuse(node, asked, VoteResponse, ErrorCode.INVALID_REQUEST)
        error = self._vote_error(partition)
        if error:
            return responses.vote(node, asked, error)
        epoch, candidate_id = partition.replica_epoch, partition.replica_id
        log_end = Position(partition.last_offset, partition.last_offset_epoch)
        if not request_believed(node, candidate_id, epoch):
            node.doubt(f"a Vote of node {candidate_id}", epoch)
            return responses.vote(node, asked, ErrorCode.UNKNOWN_LEADER_EPOCH)
        # Also for a pre-vote: it names the epoch in which the sender is, and not the one that it
        # would begin.
        if epoch > node.epoch:
            node.become_unattached(epoch)
        # After the epoch, as in Kafka: the candidate's epoch is real even if it has a wrong idea of
        # this node's directory id.
        if not checks.is_meant_for(node, request.voter_id, partition.voter_directory_id):
            return responses.vote(node, asked, ErrorCode.INVALID_VOTER_KEY)
        directory_id = partition.replica_directory_id
        granted = self._grants(candidate_id, directory_id, log_end, partition.pre_vote)
        # A granted pre-vote is stored nowhere and binds to nothing (KIP-996), so a node may grant
        # several in one epoch.
        if granted and not partition.pre_vote:
            self._grant(candidate_id, directory_id)
        return responses.vote(node, asked, ErrorCode.NONE, granted)

    def _vote_error(self, partition: Any) -> ErrorCode:
        """Return the error of a Vote request that no node of a quorum sends."""
        epoch, last_epoch = partition.replica_epoch, partition.last_offset_epoch
        if partition.last_offset < 0 or last_epoch < 0 or epoch > EPOCH_MAX:
            return ErrorCode.INVALID_REQUEST
        # A candidate's epoch is new, so its log holds no record of it. A pre-vote names the epoch
        # that the log may already have records of (KIP-996).
        if last_epoch > epoch or (last_epoch == epoch and not partition.pre_vote):
            return ErrorCode.INVALID_REQUEST
        # This node sends itself no request: the sender has this node's id by mistake.
        if partition.replica_id == self._node.settings.node_id:
            return ErrorCode.INVALID_REQUEST
        return checks.voter_only(self._node, partition.replica_id, epoch)

    def _grants(
        self, candidate_id: int, directory_id: Uuid, candidate_end: Position, pre_vote: bool
    ) -> bool:
        """Return whether this node grants the vote, by its role (``EpochState.canGrantVote``)."""
        node, role = self._node, self._node.role
        # In every role and for pre-votes too: a leader without a committed record would have the
        # others truncate it. Seeded bug in tests/sim: ``any_log_is_good_enough``.
        if not _is_up_to_date(candidate_end, node.log.end):
            return False
        # A leader that has committed nothing yet may be cut off from the majority that elected it.
        if isinstance(role, Leader):
            return pre_vote and role.high_watermark < 0
        if isinstance(role, Follower):
            # A follower whose leader answers refuses, so that a node with a broken link cannot
            # depose a working leader (KIP-996). It grants a pre-vote if the leader never answered,
            # has fallen silent, or has sent EndQuorumEpoch.
            return pre_vote and (not role.fetched or role.ended or node.now >= role.fetch_until)
        # Its own candidacy, or its vote for another candidate, is no reason to refuse a pre-vote:
        # Kafka 4.3 nodes whose own fetch timeout has passed grant one.
        if pre_vote:
            return True
        # A candidate has voted for itself in this epoch, and a resigned leader led it.
        if isinstance(role, Candidate | Resigned):
            return False
        state = node.election
        if state.voted_id != NO_NODE:
            # The candidate may repeat a request whose response was lost. With another directory id
            # it is another voter, which lost its disk and the vote that it had (KIP-853).
            same_directory = (
                ZERO_UUID in (state.voted_directory_id, directory_id)
                or state.voted_directory_id == directory_id
            )
            return state.voted_id == candidate_id and same_directory
        # The leader may be known by its id alone, without an address to follow it at. The epoch has
        # been won all the same, so no vote in it is of use.
        return state.leader_id == NO_NODE

    def _grant(self, candidate_id: int, directory_id: Uuid) -> None:
        """Record the vote, and give the candidate an election timeout to win."""
        node, role = self._node, self._node.role
        assert isinstance(role, Unattached | Prospective), (
            "a node that knows a leader does not vote"
        )
        if node.election.voted_id == candidate_id:
            # A second copy of the request. The vote is on disk, and the timeout must not begin
            # anew: a candidate that repeats its request could otherwise hold up the next election.
            return
        # Written before it is answered: ``responses.reply`` names the token of this write. A crash
        # between the two wastes the vote; in the other order the node could vote again for another
        # candidate. Seeded bug in tests/sim: ``votes_before_it_is_on_disk``.
        node.vote(candidate_id, directory_id)
        if isinstance(role, Unattached):
            role.election_at = node.election_at()
        else:
            # The node gives up its own campaign: its vote of this epoch is given.
            node.become_unattached(node.epoch, afresh=True)

    # --- campaigning ---

    def poll_unattached(self, role: Unattached) -> None:
        """Campaign when the election timeout has passed."""
        if self._node.now >= role.election_at:
            self.campaign()

    def poll_follower(self, role: Follower) -> None:
        """Campaign when the leader has been silent for too long, or has named this node as its
        successor.
        """
        if self._node.now >= role.fetch_until and self._node.may_campaign:
            self.campaign()

    def poll_nominee(self, role: Nominee) -> None:
        """Send Vote to the voters that have not answered; give up when the time has passed."""
        node = self._node
        if node.now >= role.give_up_at:
            self._time_is_up(role)
            return
        for id in node.others():
            if id not in role.votes:
                self._ask_for_vote(role, id)

    def nominee_deadline(self, role: Nominee) -> float:
        """Return the time at which :meth:`poll_nominee` has to be called next."""
        node, deadline = self._node, role.give_up_at
        for id in node.others():
            if id not in role.votes:
                address = node.address_of(id)
                if address is not None:
                    deadline = min(deadline, node.peers.ready_at(address))
        return deadline

    def campaign(self) -> None:
        """Ask for pre-votes, or at once for votes if the leader has named this node as successor.

        The other followers of a leader that sent EndQuorumEpoch may not have received it yet, and
        would refuse the pre-vote (KAFKA-20895). The leader that pre-votes protect has resigned.
        """
        node = self._node
        if not node.may_campaign:
            self.wait()
            return
        # Counted from the first campaign on. Kafka's ``updateElectionStartMs`` begins anew with
        # each candidacy, so that its election-latency leaves out the elections that were lost.
        node.election_began = min(node.election_began, node.now)
        role = node.role
        if isinstance(role, Follower) and role.successor:
            self._become_candidate(0)
            return
        # A follower has had a leader since the last election, so its pauses begin with the
        # shortest.
        retries = role.retries if isinstance(role, Unattached | Candidate) else 0
        prospective = Prospective(
            {node.settings.node_id: True}, node.now + node.random_election_timeout(), retries
        )
        # The election state stays as it is: a pre-vote belongs to the current epoch, and the vote
        # that was given in it must not be given again. Seeded bug in tests/sim:
        # ``a_prospective_forgets_its_vote``.
        node.enter(prospective, node.election)
        # The only voter of a quorum has its majority already.
        self._count(prospective)

    def wait(self) -> None:
        """Wait for another election, or end the campaign: this node may not be elected now."""
        role = self._node.role
        if isinstance(role, Unattached):
            role.election_at = self._node.election_at()
        elif isinstance(role, Prospective | Candidate):
            self._lost(role)

    def _become_candidate(self, retries: int) -> None:
        """Begin a new epoch, in which this node votes for itself."""
        node = self._node
        assert node.may_campaign and node.epoch < EPOCH_MAX, "may not stand for election"
        me = node.settings
        # Epoch and vote go into one write. A crash between two writes would leave a node in the new
        # epoch that is free to vote for another candidate (hashicorp/raft#661). Seeded bugs in
        # tests/sim: ``epoch_and_vote_are_written_apart``, ``own_vote_is_not_written``.
        state = ElectionState(node.epoch + 1, NO_NODE, me.node_id, me.directory_id)
        candidate = Candidate(
            {me.node_id: True}, node.now + node.random_election_timeout(), retries
        )
        node.enter(candidate, state)
        self._count(candidate)

    def _ask_for_vote(self, role: Nominee, id: int) -> None:
        node = self._node
        address = node.address_of(id)
        if address is None or node.now < node.peers.ready_at(address):
            return
        pre_vote = isinstance(role, Prospective)
        request = partial(
            requests.vote,
            cluster_id=node.cluster_id,
            epoch=node.epoch,
            candidate=(node.settings.node_id, node.settings.directory_id),
            voter=node.voters.nodes[id],
            log_end=node.log.end,
            pre_vote=pre_vote,
        )
        versions = requests.PRE_VOTE_VERSIONS if pre_vote else requests.VOTE_VERSIONS
        on_answer = partial(self._on_vote_answer, role, id)
        on_failed = partial(self._on_vote_failed, role, id)
        # After every effect so far: the request names the end of the log, and a voter counts on
        # those records being on disk. Seeded bug in tests/sim:
        # ``asks_for_votes_before_its_own_is_on_disk``.
        node.ask(
            address,
            id,
            VoteRequest.API_KEY,
            versions,
            request,
            on_answer,
            after=node.token,
            on_failed=on_failed,
        )

    def _on_vote_failed(self, requester: Nominee, voter_id: int, failure: Failure) -> None:
        """Note that a voter did not answer."""
        if self._node.role is not requester:
            return
        # A voter of an older release has no pre-vote, and must not prevent the election: KIP-996
        # counts it as granted. Its real vote is still needed.
        if failure.kind == FailureKind.UNSUPPORTED_VERSION and isinstance(requester, Prospective):
            requester.votes[voter_id] = True
        else:
            requester.silent.add(voter_id)
        self._count(requester)

    def _on_vote_answer(
        self, requester: Nominee, voter_id: int, message: Any, version: int
    ) -> bool | None:
        node, sender = self._node, f"voter {voter_id}"
        # Read before the response can change the role. The epoch and leader in a late response
        # count; the vote belongs to a campaign that is over. Seeded bug in tests/sim:
        # ``votes_of_an_older_election_count``.
        late = node.role is not requester
        assert isinstance(message, VoteResponse), message
        partition = checks.only_partition(message.topics)
        if message.error_code or partition is None:
            node.protocol_violation(
                sender,
                f"a Vote answer with error {message.error_code} and {len(message.topics)} topics",
            )
            return False
        usable = transitions.handle_common_response(
            node,
            sender,
            partition.error_code,
            partition.leader_epoch,
            partition.leader_id,
            message.node_endpoints,
        )
        if late:
            return None
        # The set of voters may have changed while the request was on its way (KIP-853).
        if not usable or node.role is not requester or voter_id not in node.voters:
            return False
        requester.votes[voter_id] = bool(partition.vote_granted)
        self._count(requester)
        return True

    def _count(self, role: Nominee) -> None:
        """End the campaign if it is won, or cannot be won any more."""
        node = self._node
        voters = node.voters
        # Votes are counted among the voters of now, and not among those that were asked. A voter
        # without an answer counts on neither side.
        granted = sum(role.votes.get(id, False) for id in voters.nodes)
        refused = sum(not role.votes.get(id, True) for id in voters.nodes)
        assert granted + refused <= len(voters), "more votes than voters"
        if granted >= voters.majority:
            if isinstance(role, Candidate):
                self._elected(role)
            else:
                self._become_candidate(role.retries)
        # So many refusals that the other voters are no majority (``isVoteRejected``): Kafka too
        # does not wait for the election timeout then.
        elif refused > len(voters) - voters.majority or self._has_asked_all(role):
            if isinstance(role, Prospective):
                self._lost(role)
            else:
                # The candidate stays in its epoch during the pause: another one may still win it.
                role.give_up_at = min(role.give_up_at, node.now + self._rest(role))

    def _has_asked_all(self, role: Nominee) -> bool:
        """Return whether every voter has answered or failed: then only a new campaign can win."""
        return all(id in role.votes or id in role.silent for id in self._node.others())

    def _rest(self, role: Nominee) -> float:
        """Return the seconds to pause after a lost election."""
        longest = self._node.settings.election_backoff_max_s
        whole = min(longest, _REST_S * 2.0 ** min(role.retries, 30))
        # Jitter also at the upper bound: two candidates with equal pauses would split every later
        # vote too (KAFKA-18345). At least half of the pause is kept: Kafka's
        # ``binaryExponentialElectionBackoffMs`` draws from 0 on, and two candidates that both draw
        # 0 collide at once.
        return whole * (0.5 + 0.5 * self._node.random())

    def _time_is_up(self, role: Nominee) -> None:
        if isinstance(role, Candidate):
            role.retries += 1
            # With a pre-vote again: a node that cannot be elected must not raise the epoch.
            self.campaign()
        else:
            self._lost(role)

    def _lost(self, role: Nominee) -> None:
        """Follow the leader again if there was one, else wait for the next election."""
        node = self._node
        # Half to one election timeout, and not a fetch timeout: the leader has been silent for one
        # already, and voters that refused may grant the pre-vote by now.
        rest_s = node.settings.election_timeout_s * (0.5 + 0.5 * node.random())
        leader_id, epoch = node.leader_id, node.epoch
        address = (
            node.address_of(leader_id)
            if leader_id not in (NO_NODE, node.settings.node_id)
            else None
        )
        # An unattached node asks the other nodes for the leader's address; a follower would have no
        # address to fetch from.
        if address is None:
            node.become_unattached(epoch, leader_id, afresh=True)
            if isinstance(node.role, Unattached):
                node.role.election_at = (
                    min(node.role.election_at, node.now + rest_s) if node.is_electable else math.inf
                )
        else:
            endpoints = {**node.leader_endpoints, node.settings.listener: address}
            node.become_follower(epoch, leader_id, endpoints, within_s=rest_s)


def _is_up_to_date(candidate_end: Position, local_end: Position) -> bool:
    """Return whether the candidate's log is at least as up to date as this node's (Raft 5.4.1).

    A later last epoch wins whatever the lengths: the longer log of an older epoch may hold records
    that were never committed.
    """
    return (candidate_end.epoch, candidate_end.offset) >= (local_end.epoch, local_end.offset)
