"""The world of one schedule: time, nodes, and what may be done to them. A scenario does it, the
checker watches.

``World(seed, scenario).run()`` raises :class:`Violation`. Equal arguments give an equal run, in
every process.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import random
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.address import Address
from gateway.quorum.events import Cleaned, Event, Propose, SnapshotWritten
from gateway.quorum.settings import RaftSettings
from gateway.quorum.voter_set import VoterNode, VoterSet
from gateway.snapshot_id import SnapshotId
from kwire.message import Message
from kwire.uuid import Uuid
from tests.sim import chance, wire
from tests.sim.batches import Parser, Snapshot
from tests.sim.chance import Chance, Fault
from tests.sim.disk import Disk
from tests.sim.invariants import Checker, Violation
from tests.sim.network import Network
from tests.sim.node import Node
from tests.sim.swarm import Faults, Shape, draw_upgrades

if TYPE_CHECKING:
    from tests.sim.scenarios import Scenario

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
OTHER_CLUSTER_ID = "BBBBBBBBBBBBBBBBBBBBBB"
LISTENER = "CONTROLLER"
#: Events after which a schedule is not one of the short ones that are wanted, and something spins.
EVENTS_MAX = 60_000
OBSERVER_IDS = 101
FOREIGN_ID = 901


class Outcome(NamedTuple):
    """What a schedule was: events stepped, hash of the trace, proposals acknowledged, epochs with a
    leader, faults.

    ``recovery_s``: from healing to a commit, -1 where nothing is healed.
    """

    events: int
    hash: str
    acked: int
    leaders: int
    recovery_s: float
    faults: int


class World:
    """One schedule. ``only``: the faults that may happen, for a smaller one; ``noting``: keep a
    text of everything.
    """

    def __init__(
        self,
        seed: int,
        scenario: Scenario,
        *,
        only: Collection[Fault] | None = None,
        noting: bool = False,
    ) -> None:
        self.seed, self.scenario, self.noting = seed, scenario, noting
        self.rng = random.Random(seed)
        self.chance = Chance(seed, only)
        self.shape, self.faults = Shape.draw(self.rng), Faults.draw(self.rng)
        draw_upgrades(seed, self.shape, self.faults)
        scenario.prepare(self.rng, self.shape, self.faults)
        self.now = 0.0
        self.events = 0
        self.trace: list[tuple[Any, ...]] = []
        self.notes: list[str] = []
        self.nodes: list[Node] = []
        self.ours: list[Node] = []  #: the nodes of the cluster
        self.network = Network(self)
        self.checker = Checker(self.nodes)
        self.answers: list[tuple[Message, Message]] = []  #: to clients: request, answer
        self.healed_at = self.recovered_at = self.recovery_s = -1.0
        self.cluster_id = CLUSTER_ID
        self.wiped: tuple[Node, Uuid] | None = None  #: who lost a disk, and its directory id
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._acts = itertools.count()
        self._numbers = itertools.count(1)
        self._parser = Parser()
        self._files: dict[bytes, Snapshot] = {}
        self._generation = itertools.count(1)
        self._build()

    def run(self) -> Outcome:
        """All of it."""
        for node in self.nodes:
            self.at(self.rng.random() * self.scenario.births_s, partial(self.restart, node))
        self._go(self.scenario.play(self))
        while self._heap and not self._over:
            if self.events > EVENTS_MAX:
                raise Violation(f"17: {self.events} events in {self.now:.1f} simulated s")
            self.now, _, happen = heapq.heappop(self._heap)
            happen()
        hashed = hashlib.sha256(repr(self.trace).encode()).hexdigest()
        checker = self.checker
        return Outcome(
            self.events,
            hashed,
            checker.acked,
            checker.leaders,
            self.recovery_s,
            len(self.chance.taken),
        )

    # --- how it is built

    def _build(self) -> None:
        shape, rng = self.shape, self.rng
        self._over = False
        self.network.codec = shape.codec
        voters = [self._voter(id) for id in range(1, shape.voters + 1)]
        self.first_voters = VoterSet.of(voters)
        witnesses = rng.sample(
            range(1, shape.voters + 1), min(shape.witnesses, (shape.voters - 1) // 2)
        )
        if shape.old_versions:
            for key, known in wire.NEWEST.items():
                oldest = (
                    wire.WITH_DIRECTORIES.get(key, known[0])
                    if shape.dynamic or shape.upgrades
                    else known[0]
                )
                self.network.versions[key] = range(known[0], rng.randint(oldest, known[-1]) + 1)
        for voter in voters:
            self._add(
                voter.id,
                voter.directory_id,
                campaigns=voter.id not in witnesses,
                formatted=shape.dynamic,
            )
        for n in range(shape.observers):
            self._add(OBSERVER_IDS + n, self.new_directory(OBSERVER_IDS + n))
        if shape.foreign:
            self._add(FOREIGN_ID, self.new_directory(FOREIGN_ID), cluster_id=OTHER_CLUSTER_ID)

    def _voter(self, id: int) -> VoterNode:
        return VoterNode(id, self.new_directory(id), {LISTENER: address_of(id)}, (0, 1))

    def new_directory(self, id: int) -> Uuid:
        """A directory id that nobody had."""
        return Uuid(id.to_bytes(8, "big") + next(self._generation).to_bytes(8, "big"))

    def _add(
        self,
        id: int,
        directory_id: Uuid,
        *,
        campaigns: bool = True,
        formatted: bool = False,
        cluster_id: str = CLUSTER_ID,
    ) -> None:
        shape, rng = self.shape, self.rng
        addresses = {one.id: address_of(one.id) for one in self.first_voters}
        # A node of another cluster takes ours for its own voters, itself among them.
        statics = addresses if cluster_id == CLUSTER_ID else {**addresses, id: address_of(id)}
        settings = RaftSettings(
            node_id=id,
            directory_id=directory_id,
            cluster_id=cluster_id,
            listener=LISTENER,
            endpoints={LISTENER: address_of(id)},
            static_voters={} if shape.dynamic else statics,
            bootstrap=tuple(addresses.values()),
            campaigns=campaigns,
            auto_join=shape.auto_join and cluster_id == CLUSTER_ID,
            fetch_max_bytes=shape.fetch_max_bytes,
            snapshot_max_bytes=shape.snapshot_max_bytes,
        )
        disk = Disk(directory_id, self._parser, self.checker.name, self._files)
        disk.formatted = self.first_voters if formatted else None
        node = Node(self, settings, disk, len(self.nodes))
        spread = 1.0 + self.faults.clock_spread
        node.clock_rate = spread ** rng.uniform(-1.0, 1.0)
        self.nodes.append(node)
        if cluster_id == CLUSTER_ID:
            self.ours.append(node)
        self.network.by_address[node.address] = node

    # --- time

    def at(self, time: float, happen: Callable[[], None]) -> None:
        """Let ``happen`` at ``time``, after what was to happen then already."""
        heapq.heappush(self._heap, (time, next(self._order), happen))

    def _go(self, play: Iterator[float]) -> None:
        """Go on with the scenario, which says how many seconds it waits."""
        try:
            wait = next(play)
        except StopIteration:
            self._over = True
            return
        self.at(self.now + wait, lambda: self._go(play))

    def note(self, text: str, *values: object) -> None:
        if self.noting:
            self.notes.append(f"{self.now:9.4f} {text % values}")

    def flush_s(self, node: Node) -> float:
        """How long the disk takes this time."""
        if self.chance.happens(chance.SLOW_DISK, node.place, -1, self.faults.slow_disk):
            return self.chance.number(-3, node.place, node.life, self.events)
        return 0.001 + 0.003 * self.chance.number(-3, node.place, node.life, self.events)

    # --- who there is

    @property
    def leader(self) -> Node | None:
        """Who leads the latest epoch that is led."""
        return max(
            (node for node in self.ours if node.leads),
            key=lambda node: node.raft.epoch,
            default=None,
        )

    def voters(self) -> list[Node]:
        """Nodes that vote, as the latest voters say that anybody's log has."""
        newest = self.voter_set()
        return [node for node in self.ours if newest.has(node.id, node.disk.directory_id)]

    @property
    def dynamic(self) -> bool:
        """Does somebody's log say who votes?"""
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
        """Voters but this one, that are up."""
        return [one for one in self.voters() if one is not node and one.up]

    # --- what may be done

    def may_act(self, text: str, *values: object) -> bool:
        """May the next act of the scenario be done? A smaller schedule leaves some out."""
        if not self.chance.calm and not self.chance.acts(next(self._acts)):
            return False
        self.note("** " + text, *values)
        return True

    def restart(self, node: Node) -> None:
        if not node.up and not node.removed and not node.stopped:
            node.be_born()

    def crash(self, node: Node, why: str, for_s: float | None = None) -> None:
        """Kill a process; it comes back at once, or late, or when everything is healed."""
        node.die(why)
        if for_s is None:
            drawn = self.chance.number(-4, node.place, node.life, 0)
            for_s = 0.01 if drawn < 0.4 else 6.0 * (drawn - 0.4)
        self.at(self.now + for_s, lambda: self.restart(node))

    def pause(self, node: Node, for_s: float) -> None:
        """Stop a process, as SIGSTOP does."""
        if self.may_act("node %d is paused for %.2f s", node.id, for_s):
            node.paused_until = max(node.paused_until, self.now + for_s)

    def kill(self, node: Node, for_s: float | None = None) -> None:
        if self.may_act("node %d is to be killed", node.id):
            self.crash(node, "by the scenario", for_s)

    def cut(self, a: Node, b: Node, *, both: bool = True) -> None:
        """Nothing passes from ``a`` to ``b``, or either way."""
        if self.may_act("cut from %d to %d%s", a.id, b.id, " and back" if both else ""):
            self.network.cut.add((a.place, b.place))
            if both:
                self.network.cut.add((b.place, a.place))

    def isolate(self, nodes: Collection[Node], *, but: Collection[Node] = ()) -> None:
        """Cut ``nodes`` from all others; from ``but`` not."""
        if not self.may_act(
            "cut off %s, but not from %s", [node.id for node in nodes], [node.id for node in but]
        ):
            return
        for a in nodes:
            for b in self.nodes:
                if b not in nodes and b not in but:
                    self.network.cut |= {(a.place, b.place), (b.place, a.place)}

    def mend_between(self, nodes: Collection[Node]) -> None:
        """The links between ``nodes`` work again."""
        if self.may_act("mend the links between %s", [node.id for node in nodes]):
            self.network.cut -= {(a.place, b.place) for a in nodes for b in nodes}

    def mend(self, node: Node | None = None) -> None:
        """All links of ``node``, or of everybody, work again."""
        if self.may_act("mend the links of %s", "all" if node is None else node.id):
            self.network.cut = {
                link for link in self.network.cut if node is not None and node.place not in link
            }

    def propose(
        self,
        node: Node | None,
        batches: int = 1,
        records: int = 1,
        epoch: int | None = None,
        kraft_version: int | None = None,
    ) -> int:
        """Ask ``node``, which leads or does not, to append records. Returns the proposal's number,
        0 for none.
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
        """Ask ``node``, which leads or does not, to put the voters of the configuration into the
        log.
        """
        return self.propose(node, kraft_version=1)

    def happen_to(self, node: Node, event: Event, text: str) -> None:
        """An event of the process itself."""
        if node.up and self.may_act("node %d: %s", node.id, text):
            self.network.deliver(node, event)

    def ask(self, node: Node, request: Message, version: int, text: str) -> None:
        """A request from outside."""
        if node.up and self.may_act("%s to node %d", text, node.id):
            self.network.ask(node, request, version)

    def snapshot(self, node: Node, keep: int) -> None:
        """Write a snapshot of what is committed, and delete old ones with the log below the oldest
        that is kept.
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
        data = f"<{node.id}.{node.life}|{id}|{'#' * 20}>".encode()
        disk.write_snapshot(Snapshot(id, data, prefix, voters, kraft_version))
        node.step(SnapshotWritten(id))
        if node.up and keep:
            disk.clean(keep)
            node.step(Cleaned(disk.log.start_offset, tuple(sorted(disk.snapshots))))

    def wipe(self, node: Node) -> None:
        """Lose a disk; the process comes back with an empty one, formatted without voters, under a
        new directory id.
        """
        if not self.may_act("node %d loses its disk", node.id):
            return
        node.die("its disk is lost")
        self.checker.loses_disk(node)
        node.replace_disk(
            Disk(self.new_directory(node.id), self._parser, self.checker.name, self._files)
        )
        self.at(self.now + 0.5, lambda: self.restart(node))

    # --- what nodes and network tell

    def died(self, node: Node) -> None:
        self.network.died(node)

    def acknowledged(self, number: int, base: int, end: int) -> None:
        """The client of proposal ``number`` is told that it is committed."""
        self.checker.acknowledged(number, base, end)
        if self.healed_at >= 0.0 > self.recovered_at:
            self.recovered_at = self.now

    def answered(self, node: Node, request: Message, answer: Message) -> None:
        """A client got its answer."""
        self.answers.append((request, answer))

    def may_stop(self, node: Node) -> bool:
        """A node that asks another cluster stops; ours never do."""
        return node.settings.cluster_id != CLUSTER_ID


def address_of(id: int) -> Address:
    """Where a node listens, whatever becomes of it."""
    return Address(f"node{id}", 9000 + id % 1000)
