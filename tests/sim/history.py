"""The history of a schedule that no single node has: leaders, votes, appends, commits, proposals.

``History`` holds the state that the invariants compare the nodes with; the checks are in
``invariants_*.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gateway.quorum.voter_set import VoterSet
from kwire.uuid import Uuid
from tests.sim.batches import Batch, Log
from tests.sim.disk import Disk

if TYPE_CHECKING:
    from tests.sim.node import Node


class Violation(Exception):
    """An invariant does not hold; the text says which."""


def require(holds: bool, invariant: str, *values: object) -> None:
    if not holds:
        raise Violation(invariant.format(*values))


class Proposal(NamedTuple):
    """Records that a client proposed: to which node, in which epoch; ``floor``: the end offset of
    everything acknowledged before.
    """

    number: int
    node: int
    epoch: int
    values: frozenset[bytes]
    floor: int
    kraft_version: int | None = None


class History:
    """Facts about all nodes, over all restarts. It reads every node, disks included."""

    def __init__(self, nodes: list[Node]) -> None:
        self._nodes = nodes
        self._names: dict[tuple[int, bytes], int] = {}
        #: (base offset, epoch) -> name of the log up to the batch
        self._first: dict[tuple[int, int], int] = {}
        self._leaders: dict[int, tuple[int, Uuid]] = {}
        self._led: set[int] = set()
        #: (node, directory, epoch) -> candidate, on disk
        self._voted: dict[tuple[int, Uuid, int], int] = {}
        #: the same -> candidate's directory, on the wire
        self._granted: dict[tuple[int, Uuid, int], Uuid] = {}
        self._voters_of_epoch: dict[int, list[VoterSet]] = {}
        self.committed = Log()  #: the committed log of the whole cluster
        self._committed_in: dict[int, int] = {}  # epoch -> committed end offset in it
        self.committed_voters: list[VoterSet] = []
        self.proposals: dict[int, Proposal] = {}
        self._of_value: dict[bytes, int] = {}  # record value -> number of the proposal
        #: record value -> (offset, epoch) it was appended at
        self._seen: dict[bytes, tuple[int, int]] = {}
        self._refused: set[int] = set()
        self._lost_disks: list[tuple[int, Disk]] = []
        self.upgraded = False  #: static voters are in some node's log
        self.acked_end = 0
        self.acked = 0

    def loses_disk(self, node: Node) -> None:
        """Keep a lost disk in the count of majorities: its copy may have committed records."""
        self._lost_disks.append((node.id, node.disk))

    def name(self, before: int, batch: Batch) -> int:
        """The name of a log that consists of the one named ``before`` and ``batch``."""
        key = (before, batch.data)
        found = self._names.get(key)
        if found is None:
            found = self._names[key] = len(self._names) + 1
        return found

    @property
    def leaders(self) -> int:
        """The number of epochs that had a leader."""
        return len(self._leaders)

    def _led_by(self, node: Node, epoch: int) -> bool:
        return self._leaders.get(epoch) == (node.id, node.disk.directory_id)
