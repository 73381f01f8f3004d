"""Runs one schedule: the world holds the time, the nodes and the network, and has a method for each
act of a scenario; the checker watches.

``World(seed, scenario).run()`` raises :class:`Violation`. Equal arguments give an equal run, in
every process.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING

from gateway.quorum.events import Cleaned, Event, Propose, SnapshotWritten
from gateway.quorum.voter_set import VoterSet
from kwire.message import Message
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.uuid import Uuid
from tests.sim import cluster
from tests.sim.batches import Parser, Snapshot
from tests.sim.chance import Fault
from tests.sim.cluster import CLUSTER_ID
from tests.sim.disk import Disk
from tests.sim.invariants import Checker
from tests.sim.network import Network
from tests.sim.node import Node
from tests.sim.outcome import Outcome
from tests.sim.swarm import Faults, Shape, draw_upgrades
from tests.sim.timeline import Timeline

if TYPE_CHECKING:
    from tests.sim.scenario import Scenario


class World(Timeline[Node]):
    """One schedule. ``only``: the faults that may happen, None for all. ``noting``: keep a trace in
    ``notes``.
    """

    network: Network
    checker: Checker

    def __init__(
        self,
        seed: int,
        scenario: Scenario,
        *,
        only: Collection[Fault] | None = None,
        noting: bool = False,
    ) -> None:
        super().__init__(seed, only=only, noting=noting)
        self.scenario = scenario
        self.shape, self.faults = Shape.draw(self.random), Faults.draw(self.random)
        draw_upgrades(seed, self.shape, self.faults)
        scenario.prepare(self.random, self.shape, self.faults)
        self.nodes: list[Node] = []
        self.members: list[Node] = []  #: all nodes but one of another cluster
        self.network = Network(self)
        self.checker = Checker(self.nodes)
        self.answers: list[tuple[Message, Message]] = []  #: to clients: request, answer
        self.healed_at = self.recovered_at = -1.0
        self.cluster_id = CLUSTER_ID
        self.wiped: tuple[Node, Uuid] | None = (
            None  #: the node that lost a disk, and that disk's directory id
        )
        self._numbers = itertools.count(1)
        self._parser = Parser()
        self._files: dict[bytes, Snapshot] = {}
        self._generation = itertools.count(1)
        self.first_voters = cluster.first_voters(self)
        cluster.build(self)

    def run(self) -> Outcome:
        """Run the schedule to its end."""
        for node in self.nodes:
            self.at(
                self.random.random() * self.scenario.starts_within_s, partial(self.restart, node)
            )
        return self.outcome_of(self.scenario.play(self))

    def new_directory(self, id: int) -> Uuid:
        """A directory id that no node had before."""
        return Uuid(id.to_bytes(8, "big") + next(self._generation).to_bytes(8, "big"))

    def new_disk(self, directory_id: Uuid) -> Disk:
        """An empty disk."""
        return Disk(directory_id, self._parser, self.checker.name, self._files)

    # --- the quorum

    @property
    def leader(self) -> Node | None:
        """The leader of the latest epoch that has one."""
        return max(
            (node for node in self.members if node.leads),
            key=lambda node: node.raft.epoch,
            default=None,
        )

    def voters(self) -> list[Node]:
        """The voters: of the leader's log, else of the last committed voter set."""
        newest = self.voter_set()
        return [node for node in self.members if newest.has(node.id, node.disk.directory_id)]

    @property
    def dynamic(self) -> bool:
        """Whether some log sets the voters."""
        return self.shape.dynamic or self.checker.upgraded

    def voter_set(self) -> VoterSet:
        if not self.dynamic:
            return self.first_voters
        leader = self.leader
        if leader is not None:
            found: VoterSet = leader.raft.voters
            return found
        return (
            self.checker.committed_voters[-1]
            if self.checker.committed_voters
            else self.first_voters
        )

    def others(self, node: Node | None) -> list[Node]:
        """The other voters that are up."""
        return [one for one in self.voters() if one is not node and one.up]

    # --- acts

    def propose(
        self,
        node: Node | None,
        batches: int = 1,
        records: int = 1,
        epoch: int | None = None,
        kraft_version: int | None = None,
    ) -> int:
        """Propose records to ``node``, leader or not. Return the proposal's number, 0 if it is
        down.
        """
        what = "an upgrade" if kraft_version is not None else "records"
        if node is None or not node.up or not self.may_act("propose %s to %d", what, node.id):
            return 0
        number = next(self._numbers)
        made = [[b"%d/%d/%d" % (number, b, r) for r in range(records)] for b in range(batches)]
        epoch = node.raft.epoch if epoch is None else epoch
        self.checker.proposed(
            number, node, epoch, [value for batch in made for value in batch], kraft_version
        )
        self.network.deliver(node, Propose(number, epoch, made, kraft_version))
        return number

    def upgrade(self, node: Node | None) -> int:
        """Propose to ``node``, leader or not, to put the static voters into the log."""
        return self.propose(node, kraft_version=1)

    def happen_to(self, node: Node, event: Event, text: str) -> None:
        """Deliver an event that the process itself causes."""
        if node.up and self.may_act("node %d: %s", node.id, text):
            self.network.deliver(node, event)

    def ask(self, node: Node, request: Message, version: int, text: str) -> None:
        """Send a request of a client, or a forged one."""
        if node.up and self.may_act("%s to node %d", text, node.id):
            self.network.ask(node, request, version)

    def snapshot(self, node: Node, keep: int) -> None:
        """Write a snapshot at the high watermark. With ``keep``, delete all but so many snapshots,
        and the log below the oldest of these.
        """
        disk, end = node.disk, node.shown
        if (
            not node.up
            or end <= disk.log.start_offset
            or end in {id.end_offset for id in disk.snapshots}
        ):
            return
        epoch, prefix = disk.log.epoch_before(end), disk.log.prefix_at(end)
        if (
            epoch is None
            or prefix is None
            or node.paused_until > self.now
            or not self.may_act("node %d writes a snapshot", node.id)
        ):
            return
        voters, kraft_version = disk.voters_at(end)
        id = SnapshotId(end, epoch)
        data = f"<{node.id}.{node.incarnation}|{id}|{'#' * 20}>".encode()
        disk.write_snapshot(Snapshot(id, data, prefix, voters, kraft_version))
        node.step(SnapshotWritten(id))
        if node.up and keep:
            disk.clean(keep)
            node.step(Cleaned(disk.log.start_offset, tuple(sorted(disk.snapshots))))

    def wipe(self, node: Node) -> None:
        """Lose a disk. The process restarts with an empty one, formatted without voters, under a
        new directory id.
        """
        if not self.may_act("node %d loses its disk", node.id):
            return
        node.halt("its disk is lost")
        self.checker.loses_disk(node)
        node.replace_disk(self.new_disk(self.new_directory(node.id)))
        self.at(self.now + 0.5, lambda: self.restart(node))

    # --- reports of nodes and network

    def halted(self, node: Node) -> None:
        self.network.halted(node)

    def acknowledged(self, number: int, base: int, end: int) -> None:
        """The client of proposal ``number`` gets the acknowledgement."""
        self.checker.acknowledged(number, base, end)
        if self.healed_at >= 0.0 > self.recovered_at:
            self.recovered_at = self.now

    def answered(self, node: Node, request: Message, answer: Message) -> None:
        """A client gets its response."""
        self.answers.append((request, answer))

    def may_stop(self, node: Node) -> bool:
        """Whether a node may stop by itself: only one that fetched from another cluster."""
        return node.settings.cluster_id != CLUSTER_ID
