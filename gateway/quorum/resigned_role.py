"""Sends EndQuorumEpoch as a leader that has resigned, until its epoch ends (KIP-595).

Follows ``KafkaRaftClient.pollResigned``. A node that led the last epoch before a restart begins in
this role, too.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from gateway.quorum import requests
from gateway.quorum.node import NO_NODE, Node
from gateway.quorum.quorum_acknowledgement import is_acknowledged
from gateway.quorum.roles import Resigned
from kwire.messages.end_quorum_epoch_request import EndQuorumEpochRequest


class ResignedRole:
    """Sends EndQuorumEpoch while resigned; leaves the epoch after an election timeout."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def poll(self, role: Resigned) -> None:
        """Send EndQuorumEpoch to the voters; campaign in a new epoch after an election timeout."""
        node = self._node
        # This epoch cannot have another leader, so this node leaves it (``pollResigned``).
        # Unattached in the next epoch, it asks for pre-votes before it campaigns (KIP-996).
        if node.now >= role.election_at:
            node.become_unattached(node.epoch + 1, NO_NODE, afresh=True)
            return
        # In a fixed order: a simulation with the same seed has to give the same trace.
        for id in sorted(role.unaware):
            self._end(role, id)

    def deadline(self, role: Resigned) -> float:
        """Return the time at which :meth:`poll` has to be called next."""
        node, deadline = self._node, role.election_at
        for id in role.unaware:
            address = node.address_of(id)
            if address is not None:
                deadline = min(deadline, node.peers.ready_at(address))
        return deadline

    def _end(self, role: Resigned, id: int) -> None:
        node = self._node
        address = node.address_of(id)
        if address is None or node.now < node.peers.ready_at(address):
            return
        request = partial(
            requests.end_quorum_epoch,
            cluster_id=node.cluster_id,
            epoch=node.epoch,
            leader_id=node.settings.node_id,
            successors=role.successors,
            endpoints=node.settings.endpoints,
        )
        on_answer = partial(self._on_end_answer, role, id)
        key, versions = EndQuorumEpochRequest.API_KEY, requests.END_VERSIONS
        # Repeated until the voter acknowledges it. A voter that misses it waits for its fetch
        # timeout, which costs time and nothing else.
        node.ask(address, id, key, versions, request, on_answer, after=node.state_token)

    def _on_end_answer(self, role: Resigned, id: int, message: Any, version: int) -> bool | None:
        # The epoch and leader in a late response count all the same.
        late = self._node.role is not role
        acknowledged = is_acknowledged(self._node, f"voter {id}", message)
        if acknowledged:
            role.unaware.discard(id)
        return None if late else acknowledged
