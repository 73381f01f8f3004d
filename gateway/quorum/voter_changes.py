"""Adds, removes and updates voters as the leader, one change at a time (KIP-853).

A change is in force when it is appended, and answered when it is committed. Any two majorities of
two sets that differ by one voter share a node, so a change adds or removes one. Follows
``AddVoterHandler``, ``RemoveVoterHandler`` and ``UpdateVoterHandler``.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Final

from gateway.base.address import Address
from gateway.base.error_text import error_with_code
from gateway.quorum import checks, requests, responses
from gateway.quorum.effects import Failure
from gateway.quorum.events import Requested
from gateway.quorum.leader_role import LeaderRole
from gateway.quorum.node import Node
from gateway.quorum.roles import Leader, VoterChange
from gateway.quorum.voter_set import VoterNode, VoterSet
from kwire.message import Message
from kwire.messages.add_raft_voter_request import AddRaftVoterRequest
from kwire.messages.add_raft_voter_response import AddRaftVoterResponse
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.messages.api_versions_response import ApiVersionsResponse
from kwire.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from kwire.messages.remove_raft_voter_response import RemoveRaftVoterResponse
from kwire.messages.update_raft_voter_request import UpdateRaftVoterRequest
from kwire.messages.update_raft_voter_response import CurrentLeader, UpdateRaftVoterResponse
from kwire.protocol import ErrorCode
from kwire.uuid import ZERO_UUID, Uuid

_FEATURE: Final = "kraft.version"
#: Longest wait of AddRaftVoter: its ``timeout_ms`` may be 24 days, and other changes wait for it.
_TIMEOUT_MAX_S: Final = 60.0
#: Fetch timeouts within which a new voter must have been at the log's end. One that lags may be
#: needed for a majority at once, and would stop all commits until it has caught up. Kafka is
#: content with a Fetch within the last hour (``LeaderState.isReplicaCaughtUp``).
_CAUGHT_UP_FACTOR: Final = 2.0


class VoterChanges:
    """Handles AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter while this node leads."""

    def __init__(self, node: Node, leader_role: LeaderRole) -> None:
        self._node = node
        self._leader_role = leader_role

    # --- requests ---

    def on_add(self, asked: Requested) -> None:
        """Add a voter, once it has answered which versions of kraft.version it supports."""
        node, request = self._node, asked.message
        assert isinstance(request, AddRaftVoterRequest), request
        endpoints = checks.addresses(request.listeners)
        # The same order of checks as in ``handleAddVoterRequest`` and ``AddVoterHandler``, because
        # the client sees the first error only.
        error, text = self._refusal(request.cluster_id)
        if not error and not _is_key(request.voter_id, request.voter_directory_id):
            error, text = (
                ErrorCode.INVALID_REQUEST,
                "Add voter request didn't include a valid voter",
            )
        # Without an endpoint at the name that the voters use among themselves no voter could reach
        # it.
        if not error and node.settings.listener not in endpoints:
            text = (
                "Add voter request didn't include the endpoint for the default listener "
                f"{node.settings.listener}"
            )
            error = ErrorCode.INVALID_REQUEST
        if not error:
            error, text = self._not_now("adding")
        # By the id alone: two voters of one id with two directories would be one node with two
        # votes.
        if not error and request.voter_id in node.voters:
            listed = ", ".join(map(str, node.voters.nodes))
            error, text = (
                ErrorCode.DUPLICATE_VOTER,
                f"Voter {request.voter_id} is already one of the voters {listed}",
            )
        address = endpoints.get(node.settings.listener)
        # As in ``AddVoterHandler``: the only request in flight to an address may be a Vote or
        # BeginQuorumEpoch, which comes first.
        if not error and address is not None and node.now < node.peers.ready_at(address):
            error, text = (
                ErrorCode.REQUEST_TIMED_OUT,
                f"New voter {request.voter_id} is not ready to receive requests",
            )
        if error or address is None:
            responses.reply(
                node, asked.number, AddRaftVoterResponse(error_code=error, error_message=text)
            )
        else:
            self._begin_adding(asked, request, endpoints, address)

    def on_remove(self, asked: Requested) -> None:
        """Remove a voter. A leader that removes itself leads until the record is committed."""
        node, request, leader = self._node, asked.message, self._node.role
        assert isinstance(request, RemoveRaftVoterRequest), request
        error, text = self._refusal(request.cluster_id)
        if not error and not _is_key(request.voter_id, request.voter_directory_id):
            error, text = (
                ErrorCode.INVALID_REQUEST,
                "Remove voter request didn't include a valid voter",
            )
        if not error:
            error, text = self._not_now("removing")
        voter = node.voters.nodes.get(request.voter_id)
        # A wrong directory id is an unknown voter: the node with this id has been formatted again,
        # and is not the one that the client wants to remove (KIP-853).
        unknown = (
            voter is None
            or voter.directory_id != request.voter_directory_id
            or len(node.voters) == 1
        )
        # The last voter stays: an empty quorum has no leader that could add a voter again.
        if not error and unknown:
            listed = ", ".join(map(str, node.voters.nodes))
            error, text = (
                ErrorCode.VOTER_NOT_FOUND,
                f"Cannot remove voter {request.voter_id} from the set of voters {listed}",
            )
        if error or voter is None or not isinstance(leader, Leader):
            responses.reply(
                node, asked.number, RemoveRaftVoterResponse(error_code=error, error_message=text)
            )
            return
        until = node.now + node.settings.request_timeout_s
        change = leader.change = VoterChange("removing", asked.number, until, voter)
        self._append(leader, change, node.voters.without(voter.id))

    def on_update(self, asked: Requested) -> None:
        """Take the endpoints and supported versions of a voter; the answer does not wait for a
        commit.

        In a static quorum every follower sends them in every epoch. They stay in memory there, for
        the upgrade of kraft.version.
        """
        request = asked.message
        assert isinstance(request, UpdateRaftVoterRequest), request
        self._answer_update(asked, self._update(request))

    def _update(self, request: UpdateRaftVoterRequest) -> ErrorCode:
        node, leader = self._node, self._node.role
        if checks.is_other_cluster(node, request.cluster_id):
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        # The epoch that the request names, unlike that of AddRaftVoter: a follower sends it and
        # knows the epoch.
        error = checks.leader_only(node, request.current_leader_epoch)
        if error:
            return error
        assert isinstance(leader, Leader), "only a leader gets here"
        endpoints = checks.addresses(request.listeners)
        feature = request.k_raft_version_feature
        versions = feature.min_supported_version, feature.max_supported_version
        told = VoterNode(request.voter_id, request.voter_directory_id, endpoints, versions)
        if node.settings.listener not in endpoints or not _is_key(told.id, told.directory_id):
            return ErrorCode.INVALID_REQUEST
        if not versions[0] <= node.history.kraft_version <= versions[1]:
            return ErrorCode.INVALID_REQUEST
        if node.history.kraft_version < 1:
            return self._update_static(leader, told)
        error, _ = self._not_now("updating")
        if error:
            return error
        known = node.voters.nodes.get(told.id)
        if known is None or known.directory_id != told.directory_id:
            return ErrorCode.VOTER_NOT_FOUND
        # The same entry again would be a record, and would make other changes wait for its commit.
        if known != told:
            self._leader_role.append_voters(leader, node.voters.with_node(told))
        return ErrorCode.NONE

    def _update_static(self, leader: Leader, told: VoterNode) -> ErrorCode:
        if leader.high_watermark < 0:
            return ErrorCode.REQUEST_TIMED_OUT
        if told.id not in self._node.voters or told.id == self._node.settings.node_id:
            return ErrorCode.VOTER_NOT_FOUND
        leader.registered[told.id] = told
        return ErrorCode.NONE

    def _answer_update(self, asked: Requested, error: ErrorCode) -> None:
        node = self._node
        answer = UpdateRaftVoterResponse(error_code=error)
        if error != ErrorCode.INCONSISTENT_CLUSTER_ID:
            at = node.leader_endpoint(asked.listener) or Address("", 0)
            answer.current_leader = CurrentLeader(
                leader_id=node.leader_id, leader_epoch=node.epoch, host=at.host, port=at.port
            )
        responses.reply(node, asked.number, answer)

    # --- conditions of every change ---

    def _refusal(self, cluster_id: str | None) -> tuple[ErrorCode, str]:
        """Return the error, and its text, if this node is not the leader of the sender's
        cluster.
        """
        node = self._node
        if checks.is_other_cluster(node, cluster_id):
            return ErrorCode.INCONSISTENT_CLUSTER_ID, f"This is cluster {node.cluster_id}"
        error = checks.leader_only(node, node.epoch)
        leads = f"node {node.leader_id} leads" if node.leader_id >= 0 else "nobody is known to lead"
        return error, f"This node does not lead: {leads} epoch {node.epoch}" if error else ""

    def _not_now(self, doing: str) -> tuple[ErrorCode, str]:
        """Return the error and its text if no change can begin now, else NONE and an empty text."""
        # One change at a time, each committed before the next, and the first only after a record of
        # this leader's own epoch. Otherwise two leaders could each commit with a majority of their
        # own (KIP-853; the known bug in the single-server changes of Ongaro's thesis).
        node, leader = self._node, self._node.role
        assert isinstance(leader, Leader), "only a leader gets here"
        self.poll(leader)
        if leader.change is not None:
            return (
                ErrorCode.REQUEST_TIMED_OUT,
                "Request timed out waiting for leader to handle previous voter change request",
            )
        if leader.high_watermark < 0:
            text = (
                "Request timed out waiting for leader to establish HWM and fence previous voter "
                "changes"
            )
            return ErrorCode.REQUEST_TIMED_OUT, text
        if node.history.kraft_version < 1:
            text = (
                f"Cluster doesn't support {doing} voter because the {_FEATURE} feature is "
                f"{node.history.kraft_version}"
            )
            return ErrorCode.UNSUPPORTED_VERSION, text
        # Also the record of UpdateRaftVoter, which is no pending change. Seeded bugs in tests/sim:
        # ``voters_change_twice_at_once``, ``voters_change_before_the_epoch_is_established``.
        if node.history.offset >= leader.high_watermark:
            text = (
                "Request timed out waiting for voters to commit the latest voter change at "
                f"{node.history.offset}"
            )
            # A retriable error, as in Kafka: the admin client repeats the request until its own
            # time is over.
            return ErrorCode.REQUEST_TIMED_OUT, f"{text} with HWM {leader.high_watermark}"
        return ErrorCode.NONE, ""

    # --- adding ---

    def _begin_adding(
        self,
        asked: Requested,
        request: AddRaftVoterRequest,
        endpoints: dict[str, Address],
        address: Address,
    ) -> None:
        node, leader = self._node, self._node.role
        assert isinstance(leader, Leader) and leader.change is None, "one change at a time"
        timeout_s = (
            min(request.timeout_ms / 1000.0, _TIMEOUT_MAX_S) if request.timeout_ms > 0 else 0.0
        )
        voter = VoterNode(request.voter_id, request.voter_directory_id, endpoints)
        until = node.now + (timeout_s or node.settings.request_timeout_s)
        acknowledged = request.ack_when_committed
        change = leader.change = VoterChange("adding", asked.number, until, voter, acknowledged)
        node.ask(
            address,
            voter.id,
            ApiVersionsRequest.API_KEY,
            requests.API_VERSIONS_VERSIONS,
            lambda version: requests.api_versions(),
            partial(self._on_api_versions, leader, change),
            after=node.state_token,
            on_failed=partial(self._on_no_api_versions, leader, change),
        )

    def _on_no_api_versions(self, leader: Leader, change: VoterChange, failure: Failure) -> None:
        if self._is_current(leader, change):
            text = (
                f"Aborted add voter operation for {change.node.id} since it could not be asked for "
                f"its versions: {failure.text}"
            )
            self._finish(leader, ErrorCode.REQUEST_TIMED_OUT, text)

    def _on_api_versions(
        self, leader: Leader, change: VoterChange, message: Any, version: int
    ) -> bool:
        node, voter = self._node, change.node
        assert isinstance(message, ApiVersionsResponse), message
        # A second response must not append the voters again
        # (``AddVoterHandlerState.expectingApiResponse``).
        if not self._is_current(leader, change) or change.offset >= 0:
            return True
        if message.error_code:
            text = (
                "Aborted add voter operation since API_VERSIONS returned an error "
                f"{error_with_code(message.error_code)}"
            )
            self._finish(leader, ErrorCode.REQUEST_TIMED_OUT, text)
            return False
        ranges = [
            (row.min_version, row.max_version)
            for row in message.supported_features
            if row.name == _FEATURE
        ]
        # A node that names no kraft.version is one from before KIP-853, which knows version 0
        # alone.
        low, high = ranges[0] if ranges else (0, 0)
        wanted = node.history.kraft_version
        # INVALID_REQUEST and no retriable error: this node will not support it later either.
        if not low <= wanted <= high:
            text = (
                f"Aborted add voter operation for {voter.id}: {_FEATURE} {low} to {high} doesn't "
                f"support version {wanted}"
            )
            self._finish(leader, ErrorCode.INVALID_REQUEST, text)
        elif not self._has_caught_up(leader, voter):
            text = f"Aborted add voter operation for {voter.id} since it is lagging behind"
            self._finish(leader, ErrorCode.REQUEST_TIMED_OUT, text)
        else:
            new = VoterNode(voter.id, voter.directory_id, voter.endpoints, (low, high))
            self._append(leader, change, node.voters.with_node(new))
            if not change.ack_when_committed and change.number is not None:
                self._answer(change, ErrorCode.NONE, None)
        return True

    def _has_caught_up(self, leader: Leader, voter: VoterNode) -> bool:
        observer = leader.observers.get((voter.id, voter.directory_id))
        if observer is None:
            return False
        return (
            self._node.now - observer.caught_up_at
            <= _CAUGHT_UP_FACTOR * self._node.settings.fetch_timeout_s
        )

    # --- commit ---

    def _append(self, leader: Leader, change: VoterChange, voters: VoterSet) -> None:
        # Any two majorities then share a voter (``VoterSet.hasOverlappingMajority``).
        assert abs(len(voters) - len(self._node.voters)) == 1, "one voter at a time"
        change.offset = self._node.log.end_offset
        offset = self._leader_role.append_voters(leader, voters)
        assert offset == change.offset, "the voters stand where they were not expected"

    def committed(self, leader: Leader) -> None:
        """Answer the change if it is committed now; resign if it removed this leader."""
        change = leader.change
        if change is not None and 0 <= change.offset < leader.high_watermark:
            self._finish(leader, ErrorCode.NONE, None)
        # Not before: until the record is committed the removed leader alone may hold it (KIP-853).
        if not self._node.is_voter and self._node.history.offset < leader.high_watermark:
            leader.removed = True

    def poll(self, leader: Leader) -> None:
        """Answer a change that takes too long. Its record may still be committed."""
        if leader.change is not None and self._node.now >= leader.change.until:
            self._finish(leader, ErrorCode.REQUEST_TIMED_OUT, None)

    def deadline(self, leader: Leader) -> float:
        """Return the time at which :meth:`poll` has to be called next."""
        return leader.change.until if leader.change is not None else math.inf

    def cancel(self, number: int) -> None:
        """Continue the change without an answer: its client has disconnected."""
        leader = self._node.role
        if (
            isinstance(leader, Leader)
            and leader.change is not None
            and leader.change.number == number
        ):
            # The record is in the log, and a record cannot be taken back.
            leader.change.number = None

    def stopped_leading(self, leader: Leader) -> None:
        """Answer the pending change: only the next leader knows whether it is committed."""
        if leader.change is not None:
            self._finish(
                leader, ErrorCode.NOT_LEADER_OR_FOLLOWER, "This node does not lead any more"
            )

    def _is_current(self, leader: Leader, change: VoterChange) -> bool:
        return self._node.role is leader and leader.change is change

    def _finish(self, leader: Leader, error: ErrorCode, text: str | None) -> None:
        change, leader.change = leader.change, None
        assert change is not None, "no change to finish"
        if change.number is not None:
            self._answer(change, error, text)

    def _answer(self, change: VoterChange, error: ErrorCode, text: str | None) -> None:
        assert change.number is not None, "answered twice"
        answer: Message
        if change.kind == "adding":
            answer = AddRaftVoterResponse(error_code=error, error_message=text)
        else:
            answer = RemoveRaftVoterResponse(error_code=error, error_message=text)
        responses.reply(self._node, change.number, answer)
        change.number = None


def _is_key(id: int, directory_id: Uuid) -> bool:
    """Return whether id and directory id name one voter (``ReplicaKey`` with a directory id)."""
    return id >= 0 and directory_id != ZERO_UUID
