"""Scripts about a leader: parked Fetches, suspension, a quorum of one, forged requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gateway.quorum.events import ImageLacks, Resign, ShutDown
from tests.sim import acts, forgeries
from tests.sim.history import require
from tests.sim.scenario import busy, elected, family, sized, with_faults

if TYPE_CHECKING:
    from tests.sim.world import World


@family(with_faults(sized(1, 2, 3, 5), late=0.1, answer_twice=0.3, twice=0.3))
def parked_fetches(world: World) -> Iterator[float]:
    """Fetches are parked at a leader that resigns, shuts down or is cut off at the moment when they
    time out or are filled.
    """
    random = world.random
    for _ in range(random.randint(3, 5)):
        yield from elected(world)
        yield 0.3 + random.random() * 0.4
        leader = world.leader
        if leader is None:
            continue
        kind = random.randrange(4)
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


@family(sized(1, 2, 3, 3, 5))
def images_lack(world: World) -> Iterator[float]:
    """Images lack a record that is committed, mostly the leader's; some get it again, and some
    nodes restart without it.
    """
    random = world.random
    for _ in range(random.randint(3, 5)):
        yield from elected(world, at_most=4.0)
        yield from busy(world, random.random())
        leader = world.leader
        node = (
            leader
            if leader is not None and random.random() < 0.6
            else random.choice(world.voters())
        )
        lacks = None if node.image_lacks is not None else "a record of an unknown type"
        world.happen_to(node, ImageLacks(lacks), f"its image lacks {lacks}")
        if random.random() < 0.3:
            world.kill(node, random.choice((0.01, 1.0)))
        yield random.random() * 2.0


@family(sized(2, 3, 5))
def paused_leader(world: World) -> Iterator[float]:
    """A leader is suspended while the others elect another one, and gets requests the moment that
    it resumes.
    """
    random = world.random
    for _ in range(random.randint(2, 3)):
        yield from elected(world)
        leader = world.leader
        if leader is None:
            continue
        if random.random() < 0.5:
            world.propose(leader)
            yield random.random() * 0.01
        for_s = 1.0 + random.random() * 9.0
        world.pause(leader, for_s)
        if random.random() < 0.7:
            acts.describe_at(world, leader)
        world.propose(leader)
        end = world.now + for_s
        while world.now < end - 0.05:
            yield min(0.5, end - world.now)
            if world.leader is not leader:
                world.propose(world.leader)
        acts.describe_at(world, leader)
        yield 0.2


@family(sized(1, observers=1), noise=False)
def lone_voter(world: World) -> Iterator[float]:
    """A quorum of one is idle for an hour, without an election (KAFKA-16144)."""
    yield from elected(world)
    leader = world.leader
    require(leader is not None, "18: a quorum of one has no leader after 8 s")
    assert leader is not None
    epoch, before = leader.raft.epoch, world.events
    # An observer's Fetches alone would make it a long schedule.
    for node in world.members:
        if node is not leader and world.random.random() < 0.9:
            world.kill(node, 3601.0)
    yield 3600.0
    if len(leader.raft.voters) > 1:
        # The observer started after it was to be killed, and has joined: two voters may lose each
        # other.
        return
    require(
        leader.leads and leader.raft.epoch == epoch,
        "14: a quorum of one left epoch {} for {}",
        epoch,
        leader.raft.epoch,
    )
    alone = all(node is leader or not node.up for node in world.members)
    if alone:
        require(
            world.events - before < 4 * 3600, "17: {} events in an idle hour", world.events - before
        )


@family(sized(3, 3, 5))
def forged(world: World) -> Iterator[float]:
    """Forged requests between those of the quorum."""
    random = world.random
    for _ in range(random.randint(10, 25)):
        yield random.random() * 0.4
        forgeries.random_forgery(world, random)
        leader = world.leader
        if leader is not None and world.propose(leader):
            yield random.random() * 0.008
            forgeries.fetch(world, random, leader)
