"""Handles BeginQuorumEpoch and EndQuorumEpoch, which leaders send to the other voters (KIP-595).

Follows ``handleBeginQuorumEpochRequest`` and ``handleEndQuorumEpochRequest``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from gateway.quorum import checks, responses, transitions
from gateway.quorum.epoch_bounds import request_believed
from gateway.quorum.events import Requested
from gateway.quorum.node import Node
from gateway.quorum.roles import Follower, Nominee
from kwire.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from kwire.messages.begin_quorum_epoch_response import BeginQuorumEpochResponse
from kwire.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from kwire.messages.end_quorum_epoch_response import EndQuorumEpochResponse
from kwire.protocol import ErrorCode
from kwire.uuid import ZERO_UUID

#: Successors read from one request: no quorum has more voters.
_SUCCESSORS_MAX: Final = 1024


class QuorumRequests:
    """Handles BeginQuorumEpoch and EndQuorumEpoch in every role."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def on_begin(self, asked: Requested) -> None:
        """Answer a leader that has begun its epoch, or reminds this node of it."""
        node, request = self._node, asked.message
        assert isinstance(request, BeginQuorumEpochRequest), request
        if checks.is_other_cluster(node, request.cluster_id):
            return responses.refuse(
                node, asked, BeginQuorumEpochResponse, ErrorCode.INCONSISTENT_CLUSTER_ID
            )
        partition = checks.only_partition(request.topics)
        if partition is None:
            return responses.refuse(
                node, asked, BeginQuorumEpochResponse, ErrorCode.INVALID_REQUEST
            )
        # Before the voter key is looked at, as in ``handleBeginQuorumEpochRequest``: the epoch and
        # its leader are real, whichever voter the request was meant for.
        error = self._take_over(partition, request.leader_endpoints)
        if not error and not checks.is_meant_for(
            node, request.voter_id, partition.voter_directory_id
        ):
            error = ErrorCode.INVALID_VOTER_KEY
        # A leader that is known already repeats the request to a voter that does not fetch, as a
        # sign of life.
        if not error:
            self._reset_election_timer(partition.leader_id, request.leader_endpoints)
        return responses.begin_quorum_epoch(node, asked, error)

    def on_end(self, asked: Requested) -> None:
        """Answer a leader that has resigned, and that names its preferred successors."""
        node, request = self._node, asked.message
        assert isinstance(request, EndQuorumEpochRequest), request
        if checks.is_other_cluster(node, request.cluster_id):
            return responses.refuse(
                node, asked, EndQuorumEpochResponse, ErrorCode.INCONSISTENT_CLUSTER_ID
            )
        partition = checks.only_partition(request.topics)
        if partition is None:
            return responses.refuse(node, asked, EndQuorumEpochResponse, ErrorCode.INVALID_REQUEST)
        error = self._take_over(partition, request.leader_endpoints)
        role = node.role
        # Another leader of this epoch cannot end it: ``_take_over`` has refused that.
        if not error and isinstance(role, Follower) and role.leader_id == partition.leader_id:
            self._ended(role, partition)
        return responses.end_quorum_epoch(node, asked, error)

    def _take_over(self, partition: Any, endpoints: Iterable[Any]) -> ErrorCode:
        """Take the epoch and its leader; return an error, and change nothing, if they are
        impossible.

        Kafka throws IllegalStateException in that case, which stops the process.
        """
        node, leader_id, epoch = self._node, partition.leader_id, partition.leader_epoch
        error = checks.voter_only(node, leader_id, epoch)
        if error:
            return error
        # A later election gives this node the epoch, if it is real, by a response of its peers.
        if not request_believed(node, leader_id, epoch):
            node.doubt(f"a request of node {leader_id}", epoch)
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if not transitions.maybe_transition(node, epoch, leader_id, checks.addresses(endpoints)):
            node.protocol_violation(
                f"node {leader_id}",
                f"it says that it leads epoch {epoch}, which {node.leader_id} leads",
            )
            return ErrorCode.INVALID_REQUEST
        return ErrorCode.NONE

    def _reset_election_timer(self, leader_id: int, endpoints: Iterable[Any]) -> None:
        """Follow the leader again, or begin the fetch timeout anew: the leader is alive."""
        node, role = self._node, self._node.role
        # A prospective node remembers the leader that fell silent. That leader now sends again, in
        # the same epoch.
        if isinstance(role, Nominee) and node.leader_id == leader_id:
            given = checks.addresses(endpoints)
            address = given.get(node.settings.listener) or node.address_of(leader_id)
            if address is not None:
                node.become_follower(
                    node.epoch, leader_id, {**given, node.settings.listener: address}
                )
        elif isinstance(role, Follower) and role.leader_id == leader_id:
            role.fetch_until = node.now + role.timeout_s
            role.ended = role.successor = False

    def _ended(self, role: Follower, partition: Any) -> None:
        """Campaign soon: at once as the first successor, later the further down in the list
        (``strictExponentialElectionBackoffMs``).
        """
        node = self._node
        position, count = self._position(partition)
        role.ended = True
        role.successor = position == 0
        longest = node.settings.election_backoff_max_s
        if position < 0:
            # Not named: a voter whose log the resigned leader did not know, or a new one.
            rest_s = longest
        elif position == 0:
            rest_s = 0.0
        else:
            # Both exponents are bounded, because a list of 1024 entries would overflow a float.
            rest_s = min(
                longest, longest / 2.0 ** min(count - 1, 60) * 2.0 ** min(position - 1, 60)
            )
        role.fetch_until = node.now + rest_s

    def _position(self, partition: Any) -> tuple[int, int]:
        """Return this node's place in the list of successors, or -1, and the list's length."""
        # Version 1 names candidates with directory ids (KIP-853), version 0 ids alone.
        me = self._node.settings
        named = [
            (one.candidate_id, one.candidate_directory_id)
            for one in partition.preferred_candidates[:_SUCCESSORS_MAX]
        ]
        named = named or [
            (id, ZERO_UUID) for id in partition.preferred_successors[:_SUCCESSORS_MAX]
        ]
        places = (
            place
            for place, (id, directory_id) in enumerate(named)
            if id == me.node_id and directory_id in (ZERO_UUID, me.directory_id)
        )
        return next(places, -1), len(named)
