"""Finds the leader while none is known or none answers: sends Fetch to one node after the other.

A node that does not lead names the leader in its response (KIP-853). It does not use the records of
a response. Follows ``KafkaRaftClient.maybeSendFetchToAnyBootstrap``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from gateway.base.address import Address
from gateway.quorum import fetching
from gateway.quorum.backoff import Backoff
from gateway.quorum.effects import Failure
from gateway.quorum.node import NO_NODE, Node
from gateway.quorum.partition import Position
from gateway.quorum.roles import Follower
from kwire.messages.fetch_response import PartitionData


class LeaderDiscovery:
    """Asks one node after the other until a response names the leader."""

    def __init__(self, node: Node) -> None:
        self._node = node
        settings = node.settings
        self._backoff = Backoff(settings.retry_backoff_s, settings.retry_backoff_max_s, node.random)
        self._at = -math.inf
        self._asked: Address | None = None
        self._is_starved = False  # it was time to ask, and no address was ready
        #: Called with the first response of an observer's leader, which may hold records already.
        self.on_found: Callable[
            [Follower, Address, Position, float, PartitionData], bool | None
        ] = _not_used
        # A random start, so that the observers of one quorum do not all ask the same node first. As
        # ``RequestManager.findReadyBootstrapServer`` does.
        self._turn = int(node.random() * 16)

    def poll(self) -> None:
        """Ask the next node if it is time; one request is in flight at a time."""
        node = self._node
        # One request at a time over all addresses, as in
        # ``RequestManager.findReadyBootstrapServer``.
        if node.now < self.deadline():
            return
        address = self._next_address()
        self._is_starved = address is None
        if address is None:
            # All addresses pause after a failure, or have a request of the follower in flight.
            self._at = node.now + self._backoff.failed()
            return
        self._asked = address
        on_answer, on_failed = partial(self._on_answer, address), partial(self._on_failed, address)
        # ``max_wait_ms`` 0: a node that leads has to name itself now, with records or without.
        fetching.fetch(node, address, NO_NODE, on_answer, max_wait_ms=0, on_failed=on_failed)

    def poll_without_leader(self) -> None:
        """Ask, if no address was ready when it was time: a follower calls this before it sends its
        leader the next request.

        Where the leader's address is the only one known, the two requests take turns. Otherwise a
        leader that has resigned, and closes the connection of each FetchSnapshot, would be asked
        for the rest of a snapshot for ever. Kafka's observer asks it for nothing else until it has
        found a leader.
        """
        if self._is_starved:
            self._at = self._node.now
            self.poll()

    def deadline(self) -> float:
        """Return when :meth:`poll` asks next."""
        at = max(self._at, self._node.retry.not_before)
        return at if self._asked is None else max(at, self._node.peers.ready_at(self._asked))

    def found(self) -> None:
        """Note that a leader answers: the next search begins without a pause."""
        self._backoff.progress()

    def _next_address(self) -> Address | None:
        """Return the next address that can be asked now, None if there is none."""
        node = self._node
        # Neither this node nor, if there are others, the leader that does not answer: the role that
        # follows it keeps asking it.
        own = set(node.settings.endpoints.values())
        known = [node.address_of(id) for id in node.others()]
        named = (
            at for id, at in node.settings.static_voters.items() if id != node.settings.node_id
        )
        configured = (*node.settings.bootstrap, *named)
        # A dict and not a set: the order is fixed, and with it the run of a simulation.
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
        """Take the epoch and leader of the response; the return value as ``peers.OnAnswer``."""
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
        # No pause for this address: if it leads, the follower role fetches from it at once. The
        # pace of the search is kept by this class.
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
