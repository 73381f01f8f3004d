"""Scripts about relays: observers that follow other observers, up to three levels."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

from tests.sim.cluster import RELAY_IDS
from tests.sim.scenario import busy, elected, family
from tests.sim.swarm import Faults, Shape

if TYPE_CHECKING:
    from tests.sim.node import Node
    from tests.sim.world import World


def _tree(random: Random, shape: Shape, faults: Faults) -> None:
    """One to three voters, with two or three levels below them."""
    shape.voters, shape.non_electable, shape.foreign = random.choice((1, 3, 3, 5)), 0, False
    shape.auto_join, shape.observers = False, random.choice((0, 0, 1))
    shape.relays = random.choice(((1, 1), (1, 1, 1), (2, 1), (2, 2), (2, 1, 1)))
    faults.forgeries = 0.0


def _relays(world: World) -> list[Node]:
    return [node for node in world.members if node.id >= RELAY_IDS]


@family(_tree)
def relays(world: World) -> Iterator[float]:
    """Relays are killed, cut off, suspended, and lose their disks, while leaders change above them
    with records that are never committed.
    """
    random = world.random
    for _ in range(random.randint(3, 6)):
        yield from elected(world)
        yield from busy(world, random.random())
        relay, leader = random.choice(_relays(world)), world.leader
        kind = random.randrange(8)
        if kind == 0:
            world.kill(relay)
        elif kind == 1:
            world.cut(relay, random.choice(world.nodes))
        elif kind == 2:
            world.pause(relay, 0.5 + 3.0 * random.random())
        elif kind == 3:
            world.kill(leader) if leader is not None else None
        elif kind in (4, 5) and leader is not None:
            yield from _diverge(world, leader)
        elif kind == 6:
            # Those below a relay need the records that a snapshot of its own replaces.
            for node in [*world.voters(), relay]:
                world.snapshot(node, random.choice((0, 1)))
        else:
            world.wipe(relay)
        yield from busy(world, 0.5 + random.random())
        if random.random() < 0.6:
            world.mend()


def _diverge(world: World, leader: Node) -> Iterator[float]:
    """A leader that its voters do not hear appends records, which a relay copies; another leader
    then has other records at their offsets.
    """
    first = [node for node in _relays(world) if node.id < RELAY_IDS + world.shape.relays[0]]
    world.isolate([leader, *first[: world.random.randint(1, len(first))]])
    for _ in range(world.random.randint(1, 3)):
        world.propose(leader)
        yield 0.05
    yield from elected(world, but=leader, at_most=5.0)
    yield from busy(world, world.random.random())
    if world.random.random() < 0.5:
        world.kill(world.random.choice(_relays(world)))
    world.mend()
