"""Places the replicas of new partitions, striped over racks and their nodes
(``StripedReplicaPlacer``).

Replicas spread evenly over racks first, and over the nodes of a rack second. Fenced nodes come last
in their rack and are never the first replica, which leads. The stripes begin at random offsets, so
that topics of one partition do not all get the first node. This module does not know topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from gateway.controller.errors import ApiError
from kwire.protocol import ErrorCode

#: A number from 0 up to, and without, the one given.
RandomBelow = Callable[[int], int]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class UsableNode:
    """A node that replicas can be placed on (``UsableBroker``)."""

    node_id: int
    rack: str | None = None
    fenced: bool = False


def place(
    nodes: Iterable[UsableNode], partitions: int, replicas: int, random_below: RandomBelow
) -> Iterator[list[int]]:
    """Yield the replicas of each new partition, the leader first.

    Raises ApiError INVALID_REPLICATION_FACTOR if the nodes are too few, before it yields.
    """
    racks = _Racks(list(nodes), random_below)
    # Before the first partition: a request is refused as a whole, and not after half of its
    # partitions.
    racks.check(replicas)
    return (racks.next(replicas) for _ in range(partitions))


@dataclass(slots=True)
class _Ring:
    """Nodes in turn; each round begins one node later than the one before
    (``StripedReplicaPlacer.BrokerList``).
    """

    nodes: list[int]
    offset: int = 0
    index: int = 0
    round: int = 0

    def next(self, round_: int) -> int | None:
        """Return the next node of this round; None when each had its turn."""
        if not self.nodes:
            return None
        # A new round: every node may be chosen again, and the stripe moves by one.
        if self.round != round_:
            self.round, self.index, self.offset = round_, 0, (self.offset + 1) % len(self.nodes)
        if self.index >= len(self.nodes):
            return None
        self.index += 1
        return self.nodes[(self.index - 1 + self.offset) % len(self.nodes)]


@dataclass(slots=True)
class _Rack:
    """The nodes of one rack, unfenced ones before fenced ones."""

    fenced: _Ring = field(default_factory=lambda: _Ring([]))
    unfenced: _Ring = field(default_factory=lambda: _Ring([]))

    def next(self, round_: int) -> int | None:
        # Fenced nodes of a rack after its unfenced ones: the rack matters more than the fencing.
        node = self.unfenced.next(round_)
        return self.fenced.next(round_) if node is None else node


class _Racks:
    """All racks, which take turns (``StripedReplicaPlacer.RackList``)."""

    def __init__(self, nodes: list[UsableNode], random_below: RandomBelow) -> None:
        self._random_below = random_below
        self._total = len(nodes)
        self._unfenced = sum(not node.fenced for node in nodes)
        by_name: dict[str | None, _Rack] = {}
        # In a fixed order, so that the random numbers alone decide
        # (``StripedReplicaPlacer.RackList``).
        for node in sorted(nodes, key=lambda node: node.node_id):
            rack = by_name.setdefault(node.rack, _Rack())
            (rack.fenced if node.fenced else rack.unfenced).nodes.append(node.node_id)
        # Nodes without a rack are in one of their own, which comes first (``Optional.empty``).
        self._racks = [
            by_name[name]
            for name in sorted(by_name, key=lambda name: (name is not None, name or ""))
        ]
        for rack in self._racks:
            for ring in (rack.fenced, rack.unfenced):
                ring.offset = random_below(len(ring.nodes)) if ring.nodes else 0
        self._offset = random_below(len(self._racks)) if self._racks else 0
        self._round = 0

    def check(self, replicas: int) -> None:
        """Raise ApiError unless every partition can have so many replicas, the first unfenced."""
        if not self._unfenced:
            raise _impossible(
                "All brokers are currently fenced, or have all their log directories cordoned."
            )
        # Fenced nodes count: they take replicas, and come back.
        if replicas > self._total:
            raise _impossible(
                f"The target replication factor of {replicas} cannot be reached because only "
                f"{self._total} broker(s) are registered or some brokers have all their log "
                "directories cordoned."
            )

    def next(self, replicas: int) -> list[int]:
        """Return the replicas of the next partition."""
        # With one unfenced node there is nothing to shuffle: it leads every partition.
        if self._round and self._round % self._unfenced == 0 and self._unfenced > 1:
            # After as many partitions as unfenced nodes the same assignments would repeat.
            self._shuffle()
        # The leader first, whatever rack it is in: a partition must begin with a live one.
        first, leader = self._leader()
        chosen, at = [leader], self._offset
        while len(chosen) < replicas:
            node = None
            if at == first:
                first = -1  # its rack gave the leader already: the turn is used up
            else:
                node = self._racks[at].next(self._round)
            at = (at + 1) % len(self._racks)
            if node is not None:
                chosen.append(node)
        self._round += 1
        self._offset = (self._offset + 1) % len(self._racks)
        return chosen

    def _leader(self) -> tuple[int, int]:
        """Return the first rack from the offset on that has an unfenced node left, and the node."""
        at = self._offset
        # It ends: ``check`` has found an unfenced node, and each gets its turn in every round.
        while (node := self._racks[at].unfenced.next(self._round)) is None:
            at = (at + 1) % len(self._racks)
        return at, node

    def _shuffle(self) -> None:
        _shuffle(self._racks, self._random_below)
        for rack in self._racks:
            _shuffle(rack.fenced.nodes, self._random_below)
            _shuffle(rack.unfenced.nodes, self._random_below)


def _shuffle(items: list[_T], random_below: RandomBelow) -> None:
    for last in range(len(items) - 1, 0, -1):
        # ``Collections.shuffle`` of Java: every order is equally probable.
        other = random_below(last + 1)
        items[last], items[other] = items[other], items[last]


def _impossible(why: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, why)
