"""Keeps this node's entry in the voter set up to date: UpdateRaftVoter, or AddRaftVoter (KIP-853).

A voter sends its endpoints and supported versions, an observer with auto-join adds itself. In a
static quorum every voter sends UpdateRaftVoter to each new leader once, because the leader needs
the directory ids of all voters to upgrade kraft.version (``upgrading``). Follows
``pollFollowerAsVoter`` and ``pollFollowerAsObserver``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from gateway.base.address import Address
from gateway.base.error_text import error_with_code
from gateway.quorum import requests
from gateway.quorum.effects import Failure, FailureKind
from gateway.quorum.node import Node
from gateway.quorum.roles import Follower
from gateway.quorum.voter_set import VoterNode
from kwire.messages.add_raft_voter_request import AddRaftVoterRequest
from kwire.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from kwire.messages.update_raft_voter_request import UpdateRaftVoterRequest
from kwire.protocol import ErrorCode
from kwire.uuid import ZERO_UUID


class VoterRegistration:
    """Sends UpdateRaftVoter, or AddRaftVoter with auto-join, while this node follows."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def poll(self, role: Follower) -> None:
        """Send a request once every fetch timeout, between two Fetches."""
        node = self._node
        # Not before the leader has answered a Fetch: the node may be far behind, and its voter set
        # old.
        if not role.fetched or node.installing is not None:
            return
        if node.history.kraft_version < 1 and (role.update_accepted or not node.is_voter):
            return
        # Not at once: the first Fetches bring the voter set up to date. Kafka waits for three fetch
        # timeouts (``FollowerState.updateVoterPeriodMs``).
        role.update_at = min(role.update_at, node.now + node.settings.fetch_timeout_s)
        address = role.endpoints[node.settings.listener]
        if node.now < role.update_at or node.now < node.peers.ready_at(address):
            return
        # Before the request: the leader answers after it has appended, and the node sees the record
        # only in a later Fetch. Seeded bug in tests/sim: ``voters_register_with_one_leader_only``.
        role.update_at = node.now + node.settings.fetch_timeout_s
        if node.is_voter:
            self._update(role, address)
        # Without a directory id the voter set could not tell this node from one with the same id
        # and another disk.
        elif node.settings.auto_join and node.settings.directory_id != ZERO_UUID:
            self._join(role, address)

    def _myself(self) -> VoterNode:
        me = self._node.settings
        return VoterNode(me.node_id, me.directory_id, dict(me.endpoints), requests.KRAFT_VERSIONS)

    def _update(self, role: Follower, address: Address) -> None:
        node, myself = self._node, self._myself()
        # Nothing to tell: the endpoints or the supported versions have not changed.
        if node.voters.nodes[myself.id] == myself:
            return
        # The voter set of a static quorum is empty of directory ids, so a voter always differs from
        # its entry, and ``update_accepted`` ends the repetition.
        static = node.history.kraft_version < 1
        request = requests.update_voter(node.cluster_id, node.epoch, myself)
        on_answer = (
            partial(self._on_update_answer, role)
            if static
            else partial(self._on_answer, "voter updated", "voter not updated")
        )
        on_failed = partial(self._on_update_failed, role) if static else None
        key, versions = UpdateRaftVoterRequest.API_KEY, requests.UPDATE_VOTER_VERSIONS
        node.ask(
            address,
            role.leader_id,
            key,
            versions,
            lambda version: request,
            on_answer,
            after=node.token,
            on_failed=on_failed,
        )

    def _on_update_answer(self, role: Follower, message: Any, version: int) -> bool:
        """Stop repeating the update once the leader of a static quorum took it, or does not support
        it: Kafka before 4.1 has no use for it there.
        """
        error = message.error_code
        role.update_accepted = role.update_accepted or error in (
            ErrorCode.NONE,
            ErrorCode.UNSUPPORTED_VERSION,
        )
        return bool(error == ErrorCode.NONE)

    def _on_update_failed(self, role: Follower, failure: Failure) -> None:
        role.update_accepted = (
            role.update_accepted or failure.kind is FailureKind.UNSUPPORTED_VERSION
        )

    def _join(self, role: Follower, address: Address) -> None:
        """Ask the leader to add this node as a voter, or to remove the former one with its id."""
        # A voter with this id and another directory id is this node before it lost its disk. Two
        # voters cannot share an id, so the former one is removed first (KIP-853, KIP-1186).
        node, myself = self._node, self._myself()
        settings, former = node.settings, node.voters.nodes.get(myself.id)
        if former is not None:
            request = requests.remove_voter(node.cluster_id, former.id, former.directory_id)
            on_answer = partial(self._on_answer, "former voter removed", "former voter not removed")
            key, versions = RemoveRaftVoterRequest.API_KEY, requests.REMOVE_VOTER_VERSIONS
            node.ask(
                address,
                role.leader_id,
                key,
                versions,
                lambda version: request,
                on_answer,
                after=node.token,
            )
            return
        add = partial(
            requests.add_voter,
            cluster_id=node.cluster_id,
            node=myself,
            timeout_ms=int(settings.request_timeout_s * 1000),
        )
        on_answer = partial(self._on_answer, "voter added", "voter not added")
        node.ask(
            address,
            role.leader_id,
            AddRaftVoterRequest.API_KEY,
            requests.ADD_VOTER_VERSIONS,
            add,
            on_answer,
            after=node.token,
        )

    def _on_answer(self, done: str, refused: str, message: Any, version: int) -> bool:
        """Report ``done`` or ``refused``.

        The node learns the outcome from the log, and repeats the request after the next fetch
        timeout if its entry is still not right.
        """
        error = message.error_code
        self._node.report(
            done if error == ErrorCode.NONE else refused,
            error=error_with_code(error) if error else "",
        )
        return bool(error == ErrorCode.NONE)
