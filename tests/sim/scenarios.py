"""What happens in a schedule: everything at random (``swarm``), or a story that once went wrong
somewhere, with some noise.

A story is a generator: it does something to the world, and yields how many seconds it waits. Every
story ends in healing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.quorum.events import Resign, ShutDown
from gateway.quorum.partition import TOPIC_NAME
from kwire.messages import vote_request
from kwire.messages.vote_request import VoteRequest
from tests.sim import acts
from tests.sim.healing import heal
from tests.sim.invariants import Violation, require
from tests.sim.swarm import Faults, Shape

if TYPE_CHECKING:
    from tests.sim.node import Node
    from tests.sim.world import World

Story = Callable[["World"], Iterator[float]]
Tweak = Callable[[random.Random, Shape, Faults], None]


class Scenario(NamedTuple):
    """A family of schedules: ``births_s``: nodes start within so many seconds; ``heals``: it ends
    in healing.
    """

    name: str
    story: Story
    tweak: Tweak
    noise: bool
    births_s: float
    heals: bool

    def prepare(self, rng: random.Random, shape: Shape, faults: Faults) -> None:
        """Make of what was drawn for the swarm what this family wants."""
        if self.name != "swarm" and shape.upgrades:
            shape.upgrades = shape.auto_join = False
        if not self.noise or (self.name != "swarm" and rng.random() < 0.5):
            quiet(faults)
        elif self.name != "swarm":
            soften(faults)
        self.tweak(rng, shape, faults)
        shape.changes_voters = shape.changes_voters or faults.voter_changes > 0.0
        if (shape.dynamic and (shape.changes_voters or faults.wipes)) or (
            shape.upgrades and shape.changes_voters
        ):
            shape.witnesses = 0  # the last one that stands for election could be removed

    def play(self, world: World) -> Iterator[float]:
        """The story, and the healing after it."""
        yield from self.story(world)
        if self.heals:
            yield from heal(world)


SCENARIOS: Final[dict[str, Scenario]] = {}


def family(
    tweak: Tweak, *, noise: bool = True, births_s: float = 0.3, heals: bool = True
) -> Callable[[Story], Story]:
    """Make a story a family of schedules."""

    def register(story: Story) -> Story:
        SCENARIOS[story.__name__] = Scenario(story.__name__, story, tweak, noise, births_s, heals)
        return story

    return register


def quiet(faults: Faults) -> None:
    """No faults but those of the story."""
    for name in Faults.__slots__:
        if name != "latency":
            setattr(faults, name, 0.0)


def soften(faults: Faults) -> None:
    """Some noise from the network and of crashes; none of the acts of the swarm."""
    for name in (
        "cuts",
        "pauses",
        "kills",
        "voter_changes",
        "forgeries",
        "handovers",
        "wipes",
        "wall_jumps",
        "upgrades",
    ):
        setattr(faults, name, 0.0)
    faults.lose, faults.late, faults.reset = (
        faults.lose * 0.3,
        faults.late * 0.5,
        faults.reset * 0.5,
    )


def _sized(*voters: int, dynamic: bool | None = None, observers: int | None = None) -> Tweak:
    """So many voters, one of the numbers; none is a witness."""

    def tweak(rng: random.Random, shape: Shape, faults: Faults) -> None:
        shape.voters, shape.witnesses, shape.foreign = rng.choice(voters), 0, False
        if dynamic is not None:
            shape.dynamic, shape.auto_join = dynamic, False
        if observers is not None:
            shape.observers = observers

    return tweak


def _with(tweak: Tweak, **values: float) -> Tweak:
    """The same, and faults of those rates."""

    def both(rng: random.Random, shape: Shape, faults: Faults) -> None:
        tweak(rng, shape, faults)
        for name, value in values.items():
            setattr(faults, name, value)

    return both


# --- words of the stories


def until(
    world: World, holds: Callable[[], bool], at_most: float = 6.0, step: float = 0.02
) -> Iterator[float]:
    """Wait until something holds, but not for ever; look every ``step`` seconds."""
    end = world.now + at_most
    while not holds() and world.now < end:
        yield step


def another(world: World, old: Node | None, step: float = 0.02) -> Iterator[float]:
    """Wait for a leader that is not ``old``."""
    yield from until(world, lambda: world.leader is not None and world.leader is not old, step=step)


def elected(world: World, *, but: Node | None = None, at_most: float = 8.0) -> Iterator[float]:
    """Wait for a leader that has committed in its epoch; not ``but``."""

    def holds() -> bool:
        leader = world.leader
        return (
            leader is not None
            and leader is not but
            and leader.high_watermark > leader.own_epoch_offset
        )

    yield from until(world, holds, at_most)


def busy(world: World, seconds: float) -> Iterator[float]:
    """Clients propose to the leader for a while."""
    end = world.now + seconds
    while world.now < end:
        world.propose(world.leader, world.rng.choice((1, 1, 2)), world.rng.choice((1, 2)))
        yield world.rng.random() * 2.0 / world.shape.proposals


# --- stories


def _as_drawn(_rng: random.Random, _shape: Shape, _faults: Faults) -> None:
    """The swarm takes what was drawn."""


@family(_as_drawn, births_s=1.0)
def swarm(world: World) -> Iterator[float]:
    """Everything at random."""
    rng, rate = random.Random(world.seed + 1), acts.acts_per_second(world)
    while world.now < world.shape.duration:
        yield rng.expovariate(rate)
        acts.random_act(world, rng)


@family(_sized(3, 5))
def figure8(world: World) -> Iterator[float]:
    """Leaders die after giving their records to a minority, and come back (figure 8 of the Raft
    paper).
    """
    rng = world.rng
    away: Node | None = None
    for _ in range(rng.randint(3, 5)):
        yield from another(world, away)
        leader = world.leader
        if leader is None:
            continue
        others = world.others(leader)
        few = rng.sample(
            others,
            min(len(others), rng.randint(0, len(world.voters()) // 2 - (rng.random() < 0.5))),
        )
        world.isolate([leader], but=few)
        world.propose(leader, 1, rng.randint(1, 2))
        yield rng.choice((0.005, 0.05, 0.6))
        if away is not None:
            world.mend(away)
        if rng.random() < 0.6:
            world.kill(leader, rng.choice((0.5, 2.0)))
        else:
            world.isolate([leader])
        away = leader
    world.mend()
    yield from busy(world, 1.0)


@family(_sized(3, 3, 5))
def back_to_back(world: World) -> Iterator[float]:
    """The old leader is healed at the moment its successor dies."""
    rng = world.rng
    old: Node | None = None
    for _ in range(rng.randint(3, 5)):
        yield from elected(world, but=old)
        leader = world.leader
        if leader is None:
            continue
        world.propose(leader, rng.choice((1, 3)), rng.randint(1, 3))
        yield rng.choice((0.0, 0.003, 0.02))
        if old is not None:
            world.mend(old)
        world.isolate([leader])
        for _ in range(rng.randint(0, 3)):
            world.propose(leader)
        old = leader
    world.mend()


@family(_sized(3, 5))
def minority_tail(world: World) -> Iterator[float]:
    """A leader without its majority goes on taking records, which the others never see."""
    rng = world.rng
    for _ in range(rng.randint(2, 3)):
        yield from elected(world)
        leader = world.leader
        if leader is None:
            continue
        others, some = world.others(leader), len(world.voters()) // 2 - 1
        few = rng.sample(others, min(len(others), some)) if rng.random() < 0.5 else []
        world.isolate([leader, *few])
        for _ in range(rng.randint(1, 5)):
            world.propose(leader, 1, rng.randint(1, 3))
            yield 0.02
        yield from elected(world, but=leader, at_most=5.0)
        yield from busy(world, rng.random())
        world.mend()
        yield rng.random()


@family(_with(_sized(3, 3, 4, 5), crash=0.02))
def crash_after_vote(world: World) -> Iterator[float]:
    """Elections, one after the other, whose candidates and voters die between writing, sending and
    answering.
    """
    rng = world.rng
    for _ in range(rng.randint(4, 7)):
        yield rng.random() * 2.0
        leader = world.leader
        if leader is not None and rng.random() < 0.7:
            world.kill(leader, rng.choice((0.01, 1.0)))
        world.propose(world.leader)


@family(_with(_sized(2, 3, 3, 5), slow_disk=0.6))
def unflushed_tail(world: World) -> Iterator[float]:
    """Leaders and followers on slow disks lose what was not synced, and are back at once."""
    rng = world.rng
    for _ in range(rng.randint(3, 6)):
        yield from until(world, lambda: world.leader is not None, 5.0)
        for _ in range(rng.randint(1, 4)):
            world.propose(world.leader, 1, rng.randint(1, 3))
            yield rng.random() * 0.1
        yield rng.choice((0.0, 0.05, 0.3))
        for node in [
            node for node in world.voters() if node.up and (node.leads or rng.random() < 0.3)
        ]:
            world.kill(node, rng.choice((0.001, 0.001, 0.5)))


@family(_sized(3, 5, 5))
def epochs_apart(world: World) -> Iterator[float]:
    """Several leaders in a row get nothing but their own tail; their logs differ by two epochs and
    more.
    """
    rng = world.rng
    yield from elected(world)
    for _ in range(rng.randint(2, 4)):
        yield from until(world, lambda: world.leader is not None, 5.0)
        leader = world.leader
        if leader is None:
            continue
        world.isolate([leader])
        for _ in range(rng.randint(1, 3)):
            world.propose(leader, rng.randint(1, 2), rng.randint(1, 3))
        if rng.random() < 0.5:
            yield rng.random()
            # Out of the fetch timeout's sight it restarts, and joins again when another one goes.
            world.kill(leader, 0.2)
        down = [
            node
            for node in world.voters()
            if node is not leader and any(node.place in link for link in world.network.cut)
        ]
        if len(down) >= len(world.voters()) // 2:
            world.mend(rng.choice(down))
    world.mend()
    yield 2.0


@family(_with(_sized(1, 2, 3, 5), late=0.1, answer_twice=0.3, twice=0.3))
def parked_fetches(world: World) -> Iterator[float]:
    """Fetches wait at a leader that resigns, is asked to end, or is cut off, at the moment they run
    out or are filled.
    """
    rng = world.rng
    for _ in range(rng.randint(3, 5)):
        yield from elected(world)
        yield 0.3 + rng.random() * 0.4
        leader = world.leader
        if leader is None:
            continue
        kind = rng.randrange(4)
        if kind == 0:
            world.happen_to(leader, Resign(leader.raft.epoch, "a fault"), "its controller resigns")
        elif kind == 1:
            world.happen_to(leader, ShutDown(1.0), "it is asked to end")
        elif kind == 2:
            world.propose(leader)
            world.isolate([leader])
        world.propose(leader)
        if kind == 2:
            yield 2.0
            world.mend()


@family(_sized(2, 3, 5))
def paused_leader(world: World) -> Iterator[float]:
    """A leader stands still while others elect another one, and is asked at once when it goes
    on.
    """
    rng = world.rng
    for _ in range(rng.randint(2, 3)):
        yield from elected(world)
        leader = world.leader
        if leader is None:
            continue
        if rng.random() < 0.5:
            world.propose(leader)
            yield rng.random() * 0.01
        for_s = 1.0 + rng.random() * 9.0
        world.pause(leader, for_s)
        if rng.random() < 0.7:
            acts.describe_at(world, leader)
        world.propose(leader)
        end = world.now + for_s
        while world.now < end - 0.05:
            yield min(0.5, end - world.now)
            if world.leader is not leader:
                world.propose(world.leader)
        acts.describe_at(world, leader)
        yield 0.2


@family(_sized(1, observers=1), noise=False)
def lone_voter(world: World) -> Iterator[float]:
    """A quorum of one is idle for an hour, and elects nobody (KAFKA-16144)."""
    yield from elected(world)
    leader = world.leader
    require(leader is not None, "18: a quorum of one has no leader after 8 s")
    assert leader is not None
    epoch, before = leader.raft.epoch, world.events
    # An observer's Fetches alone would make it a long schedule.
    for node in world.ours:
        if node is not leader and world.rng.random() < 0.9:
            world.kill(node, 3601.0)
    yield 3600.0
    if (
        len(leader.raft.voters) > 1
    ):  # the observer was born after it was to be killed, and has joined: two may lose each other
        return
    require(
        leader.leads and leader.raft.epoch == epoch,
        "14: a quorum of one left epoch {} for {}",
        epoch,
        leader.raft.epoch,
    )
    alone = all(node is leader or not node.up for node in world.ours)
    if alone:
        require(
            world.events - before < 4 * 3600, "17: {} events in an idle hour", world.events - before
        )


@family(_with(_sized(5, observers=0), latency=0.0), noise=False, births_s=0.0)
def equal_timers(world: World) -> Iterator[float]:
    """Five voters start at the same moment, and again and again lose their leader (KAFKA-18345)."""
    for _ in range(3):
        begun = world.now
        yield from elected(world, at_most=12.0)
        if world.leader is None:
            raise Violation(
                f"18: five voters with equal timers have no leader after {world.now - begun:.1f} s"
            )
        world.kill(world.leader, 0.0)


@family(_sized(2, 3, 4, 5, dynamic=True))
def leader_removed(world: World) -> Iterator[float]:
    """The leader is removed from the voters: it commits that without counting itself, then goes."""
    rng = world.rng
    world.shape.changes_voters = True
    for _ in range(rng.randint(1, 3)):
        yield from elected(world)
        leader = world.leader
        if leader is None or len(leader.raft.voters) < 2:
            return
        if rng.random() < 0.3:
            others = world.others(leader)
            for node in rng.sample(others, min(len(others), (len(leader.raft.voters) - 1) // 2)):
                world.isolate([node])
        acts.remove_voter(world, leader, leader.id, leader.disk.directory_id)
        yield rng.random() * 0.02
        world.propose(leader)
        if rng.random() < 0.3:
            world.kill(leader, 0.1)
        yield rng.random() * 3.0
        world.mend()
        yield from busy(world, 0.5)
        if rng.random() < 0.5 and world.leader is not None:
            acts.add_voter(world, world.leader, leader)
            yield 1.0


@family(_with(_sized(3, 3, 5), crash=0.01))
def snapshot_install(world: World) -> Iterator[float]:
    """A follower comes back behind the leader's log start, and dies while it takes the snapshot; so
    does the leader.
    """
    rng = world.rng
    yield from elected(world)
    for _ in range(rng.randint(1, 3)):
        behind = rng.choice(world.ours)
        if rng.random() < 0.5 and behind.up:
            world.isolate([behind])
            world.propose(behind if behind.leads else world.leader)
        else:
            world.kill(behind, 4.0 * rng.random())
        yield from elected(world, but=behind, at_most=5.0)
        yield from busy(world, 0.7)
        if world.shape.dynamic:
            world.shape.changes_voters = True
            acts.change_voters(world, rng)
            yield from busy(world, 0.3)
        for node in world.ours:
            if node is not behind and rng.random() < 0.8:
                world.snapshot(node, 1)
        yield from busy(world, 0.3)
        world.mend()
        yield rng.random()
        if rng.random() < 0.3 and world.leader is not None:
            world.kill(world.leader, 0.3)
        yield 1.0


@family(_sized(3, 3, 4, 5, dynamic=True, observers=2))
def voters_change_apart(world: World) -> Iterator[float]:
    """Voters are added and removed while the quorum is split, and its leader changes before that is
    committed.
    """
    rng = world.rng
    world.shape.changes_voters = True
    for _ in range(rng.randint(2, 4)):
        yield from elected(world)
        leader = world.leader
        if leader is None:
            continue
        observers = [
            node
            for node in world.ours
            if not leader.raft.voters.has(node.id, node.disk.directory_id) and node.up
        ]
        few = rng.sample(world.others(leader), min(len(world.others(leader)), rng.randint(0, 1)))
        cut_off = rng.random() < 0.7
        if cut_off and rng.random() < 0.5:
            world.isolate([leader, *few, *observers])
        if observers and rng.random() < 0.6:
            acts.add_voter(world, leader, rng.choice(observers), committed=rng.random() < 0.5)
        elif len(leader.raft.voters) > 2:
            node = rng.choice(world.voters())
            acts.remove_voter(world, leader, node.id, node.disk.directory_id)
        yield rng.choice((0.002, 0.02, 0.3))
        if cut_off:
            world.isolate([leader, *few])
        acts.change_voters(world, rng)
        world.propose(leader)
        yield from elected(world, but=leader, at_most=4.0)
        acts.change_voters(world, rng)
        yield rng.random()
        world.mend()
        yield 0.5


@family(_sized(4, dynamic=True, observers=1), noise=False)
def changes_collide(world: World) -> Iterator[float]:
    """Two leaders change the voters, neither of them with what the other's majority needs (Raft's
    mistake of 2015).
    """
    rng = world.rng
    world.shape.changes_voters = True
    yield from elected(world)
    first = world.leader
    if first is None:
        return
    newcomer = next(node for node in world.ours if node.id >= acts.FIRST_OBSERVER)
    yield from until(world, lambda: newcomer.shown >= 1, 5.0)
    world.isolate([first, newcomer])
    acts.add_voter(world, first, newcomer, committed=False)
    yield from another(world, first, step=0.001)
    second = world.leader
    if second is None or second is first:
        return
    friends = [node for node in world.others(second) if node not in (first, newcomer)]
    world.isolate([second, friends[0]])
    world.mend_between([first, newcomer, *friends[1:]])
    acts.remove_voter(world, second, first.id, first.disk.directory_id)
    yield from busy(world, 1.0 + rng.random())
    yield 4.0
    world.mend()
    yield 1.0


@family(_sized(3, dynamic=True, observers=2))
def changes_in_a_row(world: World) -> Iterator[float]:
    """A leader without its majority makes itself one of newcomers, if it may add them all."""
    rng = world.rng
    world.shape.changes_voters = True
    yield from elected(world)
    leader = world.leader
    if leader is None:
        return
    newcomers = [node for node in world.ours if node.id >= acts.FIRST_OBSERVER]
    yield from until(world, lambda: all(node.shown >= 1 for node in newcomers), 5.0)
    world.isolate([leader, *newcomers])
    for node in newcomers:
        acts.add_voter(world, leader, node, committed=rng.random() < 0.5)
        yield 0.02 + 0.03 * rng.random()
    world.propose(leader)
    yield from another(world, leader)
    yield from busy(world, 1.0)
    world.mend()
    yield 1.0


def _any_size(rng: random.Random, shape: Shape, faults: Faults) -> None:
    shape.voters, shape.witnesses = rng.randint(1, 7), 0


@family(_any_size, births_s=2.0)
def cold_start(world: World) -> Iterator[float]:
    """One to seven voters, none of which knows anything, start one after the other."""
    yield from until(world, lambda: world.leader is not None, 5.0)
    yield from busy(world, 0.5)
    for node in world.voters():
        if world.rng.random() < 0.5:
            world.kill(node, world.rng.random() * 2.0)
    yield 1.0


@family(_sized(3, 5, dynamic=True))
def disk_replaced(world: World) -> Iterator[float]:
    """A voter comes back with an empty disk and a new directory id, and is put in its own place."""
    rng = world.rng
    yield from elected(world)
    yield from busy(world, 0.5)
    world.shape.changes_voters = True
    for _ in range(12):
        acts.wipe(world, rng)
        world.propose(world.leader)
        if rng.random() < 0.2 and world.leader is not None:
            world.kill(world.leader, 0.1)
        yield rng.random()


@family(_sized(3, 3, 5))
def forged(world: World) -> Iterator[float]:
    """Requests that no node of the quorum sent, between those that they do send."""
    rng = world.rng
    for _ in range(rng.randint(10, 25)):
        yield rng.random() * 0.4
        acts.forge(world, rng)
        leader = world.leader
        if leader is not None and world.propose(leader):
            yield rng.random() * 0.008
            acts.forge_fetch(world, rng, leader)


@family(_sized(1, 3, 5), noise=False, heals=False)
def last_epoch(world: World) -> Iterator[float]:
    """A candidate names the last epoch that 32 bits can hold: no node ever goes beyond, and none
    dies of it.
    """
    yield from elected(world)
    for node in world.ours:
        part = vote_request.PartitionData(
            partition_index=0,
            replica_epoch=(1 << 31) - 1 - world.rng.randint(0, 2),
            replica_id=acts.OUTSIDER,
        )
        topic = vote_request.TopicData(topic_name=TOPIC_NAME, partitions=[part])
        world.ask(
            node,
            VoteRequest(cluster_id=world.cluster_id, topics=[topic]),
            0,
            "a Vote of the last epoch",
        )
        yield 0.5
    yield 10.0
    require(all(node.up for node in world.ours), "17: a node died of the last epoch")


@family(_sized(2, 3, 4, 5))
def handed_over(world: World) -> Iterator[float]:
    """Leaders end in order, one after the other, and name who is to follow."""
    rng = world.rng
    for _ in range(rng.randint(3, 5)):
        yield from elected(world)
        yield from busy(world, rng.random() * 0.3)
        if world.leader is not None:
            world.happen_to(world.leader, ShutDown(2.0), "it is asked to end")
        yield rng.random()


def _splits(rng: random.Random, shape: Shape, faults: Faults) -> None:
    shape.voters, shape.witnesses = rng.choice((3, 5)), 0
    faults.twice, faults.late, faults.latency = 0.5, 0.3, 0.2


@family(_splits)
def late_messages(world: World) -> Iterator[float]:
    """Messages of old epochs arrive in new ones, twice, while leaders change often."""
    rng = world.rng
    for _ in range(rng.randint(4, 6)):
        yield from until(world, lambda: world.leader is not None, 4.0)
        yield from busy(world, rng.random())
        leader = world.leader
        if leader is not None:
            world.happen_to(leader, Resign(leader.raft.epoch, "a fault"), "its controller resigns")
            if rng.random() < 0.5:
                world.kill(leader, 0.2)


def _upgrading(rng: random.Random, shape: Shape, faults: Faults) -> None:
    shape.voters, shape.witnesses, shape.foreign = rng.choice((1, 2, 3, 3, 3, 4, 5)), 0, False
    shape.dynamic, shape.auto_join, shape.upgrades, shape.observers = (
        False,
        rng.random() < 0.2,
        True,
        2,
    )
    shape.changes_voters = True


@family(_upgrading)
def upgraded(world: World) -> Iterator[float]:
    """Voters of the configuration are put into the log (KIP-853), by leaders that are cut off,
    killed and followed by others before that is committed; then voters change.
    """
    rng = world.rng
    for _ in range(rng.randint(2, 4)):
        yield from elected(world)
        leader = world.leader
        if leader is None:
            continue
        yield rng.choice((0.0, 1.0, 2.5, 4.5))
        kind = rng.randrange(5)
        few = rng.sample(world.others(leader), min(len(world.others(leader)), rng.randint(0, 1)))
        if kind == 0:
            world.isolate([leader, *few])
        world.upgrade(leader)
        yield rng.choice((0.0, 0.002, 0.01, 0.3))
        if kind == 1:
            world.kill(leader, rng.choice((0.001, 1.0, 4.0)))
        elif kind == 2:
            world.isolate([leader, *few])
        elif kind == 3:
            world.kill(rng.choice(world.voters()), rng.choice((0.001, 1.0)))
        for _ in range(rng.randint(0, 2)):
            world.propose(leader, 1, rng.randint(1, 2))
            acts.change_voters(world, rng)
            yield rng.random() * 0.3
        if rng.random() < 0.3:
            world.snapshot(rng.choice(world.ours), 1)
        if kind < 3:
            yield from elected(world, but=leader, at_most=4.0)
            acts.upgrade(world, rng)
            yield rng.random()
        world.mend()
    yield from elected(world)
    yield 2.5
    acts.upgrade(world, rng)
    for _ in range(rng.randint(1, 4)):
        yield 0.5
        acts.change_voters(world, rng)
        world.snapshot(rng.choice(world.ours), rng.choice((0, 1)))


#: Of ten schedules so many are of the swarm; the others are of the stories in turn.
_SWARM_OF_TEN: Final = 5
STORIES: Final = tuple(name for name in SCENARIOS if name != "swarm")


def scenario_of(seed: int) -> Scenario:
    """The family that a seed belongs to when none is asked for."""
    if seed % 10 < _SWARM_OF_TEN:
        return SCENARIOS["swarm"]
    return SCENARIOS[
        STORIES[(seed // 10 * (10 - _SWARM_OF_TEN) + seed % 10 - _SWARM_OF_TEN) % len(STORIES)]
    ]
