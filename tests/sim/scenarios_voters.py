"""Scripts about voters and snapshots: voters added, removed, replaced and upgraded (KIP-853)."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

from tests.sim import acts, cluster
from tests.sim.scenario import busy, elected, family, other_leader, paused_until, sized, with_faults
from tests.sim.swarm import Faults, Shape

if TYPE_CHECKING:
    from tests.sim.world import World


@family(sized(2, 3, 4, 5, dynamic=True))
def leader_removed(world: World) -> Iterator[float]:
    """The leader is removed: it commits the change without counting itself, then resigns."""
    random = world.random
    world.shape.changes_voters = True
    for _ in range(random.randint(1, 3)):
        yield from elected(world)
        leader = world.leader
        if leader is None or len(leader.raft.voters) < 2:
            return
        if random.random() < 0.3:
            others = world.others(leader)
            for node in random.sample(others, min(len(others), (len(leader.raft.voters) - 1) // 2)):
                world.isolate([node])
        acts.remove_voter(world, leader, leader.id, leader.disk.directory_id)
        yield random.random() * 0.02
        world.propose(leader)
        if random.random() < 0.3:
            world.kill(leader, 0.1)
        yield random.random() * 3.0
        world.mend()
        yield from busy(world, 0.5)
        if random.random() < 0.5 and world.leader is not None:
            acts.add_voter(world, world.leader, leader)
            yield 1.0


@family(with_faults(sized(3, 3, 5), crash=0.01))
def snapshot_install(world: World) -> Iterator[float]:
    """A follower restarts below the leader's log start; it or the leader dies while the snapshot is
    transferred.
    """
    random = world.random
    yield from elected(world)
    for _ in range(random.randint(1, 3)):
        behind = random.choice(world.members)
        if random.random() < 0.5 and behind.up:
            world.isolate([behind])
            world.propose(behind if behind.leads else world.leader)
        else:
            world.kill(behind, 4.0 * random.random())
        yield from elected(world, but=behind, at_most=5.0)
        yield from busy(world, 0.7)
        if world.shape.dynamic:
            world.shape.changes_voters = True
            acts.change_voters(world, random)
            yield from busy(world, 0.3)
        for node in world.members:
            if node is not behind and random.random() < 0.8:
                world.snapshot(node, 1)
        yield from busy(world, 0.3)
        world.mend()
        yield random.random()
        if random.random() < 0.3 and world.leader is not None:
            world.kill(world.leader, 0.3)
        yield 1.0


@family(sized(3, 3, 4, 5, dynamic=True, observers=2))
def voters_change_apart(world: World) -> Iterator[float]:
    """Voters are added and removed while the quorum is split, and the leader changes before the
    commit.
    """
    random = world.random
    world.shape.changes_voters = True
    for _ in range(random.randint(2, 4)):
        yield from elected(world)
        leader = world.leader
        if leader is None:
            continue
        observers = [
            node
            for node in world.members
            if not leader.raft.voters.has(node.id, node.disk.directory_id) and node.up
        ]
        few = random.sample(
            world.others(leader), min(len(world.others(leader)), random.randint(0, 1))
        )
        cut_off = random.random() < 0.7
        if cut_off and random.random() < 0.5:
            world.isolate([leader, *few, *observers])
        if observers and random.random() < 0.6:
            acts.add_voter(world, leader, random.choice(observers), committed=random.random() < 0.5)
        elif len(leader.raft.voters) > 2:
            node = random.choice(world.voters())
            acts.remove_voter(world, leader, node.id, node.disk.directory_id)
        yield random.choice((0.002, 0.02, 0.3))
        if cut_off:
            world.isolate([leader, *few])
        acts.change_voters(world, random)
        world.propose(leader)
        yield from elected(world, but=leader, at_most=4.0)
        acts.change_voters(world, random)
        yield random.random()
        world.mend()
        yield 0.5


@family(sized(4, dynamic=True, observers=1), noise=False)
def changes_collide(world: World) -> Iterator[float]:
    """Two leaders change the voters so that their majorities need not overlap (Raft's fault of
    2015).
    """
    random = world.random
    world.shape.changes_voters = True
    yield from elected(world)
    first = world.leader
    if first is None:
        return
    newcomer = next(node for node in world.members if node.id >= cluster.OBSERVER_IDS)
    yield from paused_until(world, lambda: newcomer.shown >= 1, 5.0)
    world.isolate([first, newcomer])
    acts.add_voter(world, first, newcomer, committed=False)
    yield from other_leader(world, first, step=0.001)
    second = world.leader
    if second is None or second is first:
        return
    friends = [node for node in world.others(second) if node not in (first, newcomer)]
    world.isolate([second, friends[0]])
    world.mend_between([first, newcomer, *friends[1:]])
    acts.remove_voter(world, second, first.id, first.disk.directory_id)
    yield from busy(world, 1.0 + random.random())
    yield 4.0
    world.mend()
    yield 1.0


@family(sized(3, dynamic=True, observers=2))
def changes_in_a_row(world: World) -> Iterator[float]:
    """A leader without a majority adds observers, which must not become its majority."""
    random = world.random
    world.shape.changes_voters = True
    yield from elected(world)
    leader = world.leader
    if leader is None:
        return
    newcomers = [node for node in world.members if node.id >= cluster.OBSERVER_IDS]
    yield from paused_until(world, lambda: all(node.shown >= 1 for node in newcomers), 5.0)
    world.isolate([leader, *newcomers])
    for node in newcomers:
        acts.add_voter(world, leader, node, committed=random.random() < 0.5)
        yield 0.02 + 0.03 * random.random()
    world.propose(leader)
    yield from other_leader(world, leader)
    yield from busy(world, 1.0)
    world.mend()
    yield 1.0


@family(sized(3, 5, dynamic=True))
def disk_replaced(world: World) -> Iterator[float]:
    """A voter restarts with an empty disk and a new directory id, and replaces its old entry."""
    random = world.random
    yield from elected(world)
    yield from busy(world, 0.5)
    world.shape.changes_voters = True
    for _ in range(12):
        acts.wipe(world, random)
        world.propose(world.leader)
        if random.random() < 0.2 and world.leader is not None:
            world.kill(world.leader, 0.1)
        yield random.random()


def _upgrading(random: Random, shape: Shape, faults: Faults) -> None:
    shape.voters, shape.non_electable, shape.foreign = (
        random.choice((1, 2, 3, 3, 3, 4, 5)),
        0,
        False,
    )
    shape.dynamic, shape.auto_join, shape.upgrades, shape.observers = (
        False,
        random.random() < 0.2,
        True,
        2,
    )
    shape.changes_voters = True


@family(_upgrading)
def upgraded(world: World) -> Iterator[float]:
    """Static voters are put into the log (KIP-853) by leaders that are cut off, killed and replaced
    before the commit; then voters change.
    """
    random = world.random
    for _ in range(random.randint(2, 4)):
        yield from elected(world)
        leader = world.leader
        if leader is None:
            continue
        yield random.choice((0.0, 1.0, 2.5, 4.5))
        kind = random.randrange(5)
        few = random.sample(
            world.others(leader), min(len(world.others(leader)), random.randint(0, 1))
        )
        if kind == 0:
            world.isolate([leader, *few])
        world.upgrade(leader)
        yield random.choice((0.0, 0.002, 0.01, 0.3))
        if kind == 1:
            world.kill(leader, random.choice((0.001, 1.0, 4.0)))
        elif kind == 2:
            world.isolate([leader, *few])
        elif kind == 3:
            world.kill(random.choice(world.voters()), random.choice((0.001, 1.0)))
        for _ in range(random.randint(0, 2)):
            world.propose(leader, 1, random.randint(1, 2))
            acts.change_voters(world, random)
            yield random.random() * 0.3
        if random.random() < 0.3:
            world.snapshot(random.choice(world.members), 1)
        if kind < 3:
            yield from elected(world, but=leader, at_most=4.0)
            acts.upgrade(world, random)
            yield random.random()
        world.mend()
    yield from elected(world)
    yield 2.5
    acts.upgrade(world, random)
    for _ in range(random.randint(1, 4)):
        yield 0.5
        acts.change_voters(world, random)
        world.snapshot(random.choice(world.members), random.choice((0, 1)))
