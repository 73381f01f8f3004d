"""What a follower does to be known right to the quorum (KIP-853): a voter tells where it listens,
an observer joins.

Kafka's ``pollFollowerAsVoter`` and ``pollFollowerAsObserver``. Where the configuration says who
votes, every voter tells every new leader once what it is: no log does, and none will before all
have told (``upgrading``).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from gateway.address import Address
from gateway.quorum import requests
from gateway.quorum.effects import Failure, FailureKind
from gateway.quorum.errors import ErrorCode, error_name
from gateway.quorum.node import Node
from gateway.quorum.roles import Follower
from gateway.quorum.voter_set import VoterNode
from kwire.messages.add_raft_voter_request import AddRaftVoterRequest
from kwire.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from kwire.messages.update_raft_voter_request import UpdateRaftVoterRequest
from kwire.uuid import ZERO_UUID


class VoterRegistration:
    """The part of a follower that keeps its own row in the voter set right."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def poll(self, role: Follower) -> None:
        """Once every fetch timeout, between two Fetches."""
        node = self._node
        if not role.fetched or node.installing is not None:
            return
        if node.history.kraft_version < 1 and (role.update_accepted or not node.is_voter):
            return
        role.update_at = min(role.update_at, node.now + node.settings.fetch_timeout_s)
        address = role.endpoints[node.settings.listener]
        if node.now < role.update_at or node.now < node.peers.ready_at(address):
            return
        role.update_at = node.now + node.settings.fetch_timeout_s
        if node.is_voter:
            self._update(role, address)
        elif node.settings.auto_join and node.settings.directory_id != ZERO_UUID:
            self._join(role, address)

    def _myself(self) -> VoterNode:
        me = self._node.settings
        return VoterNode(me.node_id, me.directory_id, dict(me.endpoints), requests.KRAFT_VERSIONS)

    def _update(self, role: Follower, address: Address) -> None:
        node, myself = self._node, self._myself()
        if node.voters.nodes[myself.id] == myself:
            return
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
        """The leader has heard it, or is one that does not want to: Kafka before 4.1 has no use for
        it in such a quorum.
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
        """Become a voter; one with this id and another disk has to go first."""
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
        """Report ``done`` or ``refused``; :meth:`poll` tries again in time."""
        error = message.error_code
        self._node.report(
            done if error == ErrorCode.NONE else refused,
            error=error_name(error) if error else "",
        )
        return bool(error == ErrorCode.NONE)
