"""Looking for the leader while nobody is known, or none answers: one node after the other is asked for the log.

Who does not lead says who does (``KafkaRaftClient.maybeSendFetchToAnyBootstrap``, KIP-853). Knows nothing of logs.
"""

from __future__ import annotations

import math
from typing import Any, Final

from gateway.address import Address
from gateway.quorum.backoff import Backoff
from gateway.quorum.effects import Failure
from gateway.quorum.raft import fetching
from gateway.quorum.raft.node import NOBODY, Node
from gateway.quorum.requests import Position

#: The longest rest between two that are asked.
_REST_MAX_S: Final = 0.5


class Seeking:
    """The part of a node that finds its leader."""

    def __init__(self, node: Node) -> None:
        self._node = node
        low = node.settings.retry_backoff_s
        self._backoff = Backoff(low, max(low, _REST_MAX_S), node.dice)
        self._at = -math.inf
        self._asked: Address | None = None
        self._turn = int(node.dice() * 16)

    def poll(self) -> None:
        """Ask somebody, one at a time."""
        node = self._node
        if node.now < self.deadline():
            return
        address = self._somebody()
        if address is None:
            self._at = node.now + self._backoff.failed()
            return
        self._asked = address
        fetching.fetch(node, address, NOBODY, self._on_answer, max_wait_ms=0, on_failed=self._on_failed)

    def deadline(self) -> float:
        """When :meth:`poll` asks next."""
        if self._asked is not None:
            return max(self._at, self._node.peers.ready_at(self._asked))
        return self._at

    def found(self) -> None:
        """A leader answers: the next search begins without a rest."""
        self._backoff.progress()

    def _somebody(self) -> Address | None:
        """The next in turn that can be asked now, not this node itself and not the leader that does not answer."""
        node = self._node
        mine = set(node.settings.endpoints.values())
        known = [node.address_of(id) for id in node.others()]
        named = (at for id, at in node.settings.static_voters.items() if id != node.settings.node_id)
        configured = (*node.settings.bootstrap, *named)
        every = dict.fromkeys((*configured, *known, *node.addresses.values()))
        leader = node.address_of(node.leader_id) if node.leader_id != NOBODY and len(every) > 2 else None
        found = [at for at in every if at is not None and at not in mine and at != leader]
        for _ in found:
            self._turn += 1
            address = found[self._turn % len(found)]
            if node.now >= node.peers.ready_at(address):
                return address
        return None

    def _on_answer(self, asked: Position, sent_at: float, message: Any, version: int) -> bool | None:
        """Whoever was found is asked for the log in its own right; the pace of the search is kept here, not there."""
        self._ended()
        partition = fetching.only_partition(self._node, "a node", message)
        if partition is None:
            return False
        fetching.hear(self._node, "a node", partition, message)
        return None

    def _on_failed(self, failure: Failure) -> None:
        self._ended()

    def _ended(self) -> None:
        self._asked = None
        self._at = self._node.now + self._backoff.failed()
