"""Looking for the leader while nobody is known, or none answers: one node after the other is asked
for the log.

Who does not lead says who does (``KafkaRaftClient.maybeSendFetchToAnyBootstrap``, KIP-853). Knows
nothing of logs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from gateway.address import Address
from gateway.quorum import fetching
from gateway.quorum.backoff import Backoff
from gateway.quorum.effects import Failure
from gateway.quorum.node import NO_NODE, Node
from gateway.quorum.partition import Position
from gateway.quorum.roles import Follower
from kwire.messages.fetch_response import PartitionData


class LeaderDiscovery:
    """The part of a node that finds its leader."""

    def __init__(self, node: Node) -> None:
        self._node = node
        settings = node.settings
        self._backoff = Backoff(settings.retry_backoff_s, settings.retry_backoff_max_s, node.random)
        self._at = -math.inf
        self._asked: Address | None = None
        #: Takes the first response of an observer's leader, as
        #: ``KafkaRaftClient.handleFetchResponse`` does.
        self.on_found: Callable[
            [Follower, Address, Position, float, PartitionData], bool | None
        ] = _not_used
        self._turn = int(node.random() * 16)

    def poll(self) -> None:
        """Ask somebody, one at a time."""
        node = self._node
        if node.now < self.deadline():
            return
        address = self._next_address()
        if address is None:
            self._at = node.now + self._backoff.failed()
            return
        self._asked = address
        on_answer, on_failed = partial(self._on_answer, address), partial(self._on_failed, address)
        fetching.fetch(node, address, NO_NODE, on_answer, max_wait_ms=0, on_failed=on_failed)

    def deadline(self) -> float:
        """When :meth:`poll` asks next."""
        at = max(self._at, self._node.retry.not_before)
        return at if self._asked is None else max(at, self._node.peers.ready_at(self._asked))

    def found(self) -> None:
        """A leader answers: the next search begins without a rest."""
        self._backoff.progress()

    def _next_address(self) -> Address | None:
        """The next in turn that can be asked now, not this node itself and not the leader that does
        not answer.
        """
        node = self._node
        own = set(node.settings.endpoints.values())
        known = [node.address_of(id) for id in node.others()]
        named = (
            at for id, at in node.settings.static_voters.items() if id != node.settings.node_id
        )
        configured = (*node.settings.bootstrap, *named)
        every = dict.fromkeys((*configured, *known, *node.addresses.values()))
        leader = (
            node.address_of(node.leader_id)
            if node.leader_id != NO_NODE and len(every) > 2
            else None
        )
        found = [at for at in every if at is not None and at not in own and at != leader]
        for _ in found:
            self._turn += 1
            address = found[self._turn % len(found)]
            if node.now >= node.peers.ready_at(address):
                return address
        return None

    def _on_answer(
        self, address: Address, asked: Position, sent_at: float, message: Any, version: int
    ) -> bool | None:
        """Whoever was found is asked for the log in its own right; the pace of the search is kept
        here, not there.
        """
        self._ended()
        sender = str(address)
        partition = fetching.only_partition(self._node, address, sender, message)
        if partition is None:
            return False
        node = self._node
        usable = fetching.handle_leader_and_epoch(node, sender, partition, message, address)
        if (
            usable
            and node.settings.observer is not None
            and node.cluster_id is not None
            and isinstance(node.role, Follower)
        ):
            return self.on_found(node.role, address, asked, sent_at, partition)
        return None

    def _on_failed(self, address: Address, failure: Failure) -> None:
        self._ended()
        if self._node.settings.observer is not None:
            fetching.failed(self._node, address, failure)

    def _ended(self) -> None:
        self._asked = None
        self._at = self._node.now + self._backoff.failed()


def _not_used(
    role: Follower, address: Address, asked: Position, sent_at: float, partition: PartitionData
) -> bool | None:
    return None
