"""Scripts about elections: leaders that die, tails that differ, epochs apart, late messages."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

from gateway.base.leader_epochs import OUT_OF_REACH
from gateway.quorum.events import Resign, ShutDown
from tests.sim import forgeries
from tests.sim.history import Violation, require
from tests.sim.scenario import busy, elected, family, other_leader, paused_until, sized, with_faults
from tests.sim.swarm import Faults, Shape

if TYPE_CHECKING:
    from tests.sim.node import Node
    from tests.sim.world import World


@family(sized(3, 5))
def figure8(world: World) -> Iterator[float]:
    """Leaders die after replicating their records to a minority, and restart (figure 8 of the Raft
    paper).
    """
    random = world.random
    away: Node | None = None
    for _ in range(random.randint(3, 5)):
        yield from other_leader(world, away)
        leader = world.leader
        if leader is None:
            continue
        others = world.others(leader)
        few = random.sample(
            others,
            min(len(others), random.randint(0, len(world.voters()) // 2 - (random.random() < 0.5))),
        )
        world.isolate([leader], but=few)
        world.propose(leader, 1, random.randint(1, 2))
        yield random.choice((0.005, 0.05, 0.6))
        if away is not None:
            world.mend(away)
        if random.random() < 0.6:
            world.kill(leader, random.choice((0.5, 2.0)))
        else:
            world.isolate([leader])
        away = leader
    world.mend()
    yield from busy(world, 1.0)


@family(sized(3, 3, 5))
def back_to_back(world: World) -> Iterator[float]:
    """The old leader's links are restored at the moment when its successor is cut off."""
    random = world.random
    old: Node | None = None
    for _ in range(random.randint(3, 5)):
        yield from elected(world, but=old)
        leader = world.leader
        if leader is None:
            continue
        world.propose(leader, random.choice((1, 3)), random.randint(1, 3))
        yield random.choice((0.0, 0.003, 0.02))
        if old is not None:
            world.mend(old)
        world.isolate([leader])
        for _ in range(random.randint(0, 3)):
            world.propose(leader)
        old = leader
    world.mend()


@family(sized(3, 5))
def minority_tail(world: World) -> Iterator[float]:
    """A leader without a majority goes on appending records, which the others never get."""
    random = world.random
    for _ in range(random.randint(2, 3)):
        yield from elected(world)
        leader = world.leader
        if leader is None:
            continue
        others, some = world.others(leader), len(world.voters()) // 2 - 1
        few = random.sample(others, min(len(others), some)) if random.random() < 0.5 else []
        world.isolate([leader, *few])
        for _ in range(random.randint(1, 5)):
            world.propose(leader, 1, random.randint(1, 3))
            yield 0.02
        yield from elected(world, but=leader, at_most=5.0)
        yield from busy(world, random.random())
        world.mend()
        yield random.random()


@family(with_faults(sized(3, 3, 4, 5), crash=0.02))
def crash_after_vote(world: World) -> Iterator[float]:
    """Elections in a row, in which candidates and voters die between storing, sending and
    responding.
    """
    random = world.random
    for _ in range(random.randint(4, 7)):
        yield random.random() * 2.0
        leader = world.leader
        if leader is not None and random.random() < 0.7:
            world.kill(leader, random.choice((0.01, 1.0)))
        world.propose(world.leader)


@family(with_faults(sized(2, 3, 3, 5), slow_disk=0.6))
def unflushed_tail(world: World) -> Iterator[float]:
    """Leaders and followers on slow disks lose unsynced records and restart at once."""
    random = world.random
    for _ in range(random.randint(3, 6)):
        yield from paused_until(world, lambda: world.leader is not None, 5.0)
        for _ in range(random.randint(1, 4)):
            world.propose(world.leader, 1, random.randint(1, 3))
            yield random.random() * 0.1
        yield random.choice((0.0, 0.05, 0.3))
        for node in [
            node for node in world.voters() if node.up and (node.leads or random.random() < 0.3)
        ]:
            world.kill(node, random.choice((0.001, 0.001, 0.5)))


@family(sized(3, 5, 5))
def epochs_apart(world: World) -> Iterator[float]:
    """Several leaders in a row append tails that they do not replicate, so that logs differ by two
    epochs and more.
    """
    random = world.random
    yield from elected(world)
    for _ in range(random.randint(2, 4)):
        yield from paused_until(world, lambda: world.leader is not None, 5.0)
        leader = world.leader
        if leader is None:
            continue
        world.isolate([leader])
        for _ in range(random.randint(1, 3)):
            world.propose(leader, random.randint(1, 2), random.randint(1, 3))
        if random.random() < 0.5:
            yield random.random()
            # It restarts while cut off, and is mended when another leader is cut off.
            world.kill(leader, 0.2)
        down = [
            node
            for node in world.voters()
            if node is not leader and any(node.place in link for link in world.network.cut)
        ]
        if len(down) >= len(world.voters()) // 2:
            world.mend(random.choice(down))
    world.mend()
    yield 2.0


@family(with_faults(sized(5, observers=0), latency=0.0), noise=False, starts_within_s=0.0)
def equal_timers(world: World) -> Iterator[float]:
    """Five voters with equal timers start at once and lose three leaders (KAFKA-18345)."""
    for _ in range(3):
        begun = world.now
        yield from elected(world, at_most=12.0)
        if world.leader is None:
            raise Violation(
                f"18: no leader of five voters with equal timers in {world.now - begun:.1f} s"
            )
        world.kill(world.leader, 0.0)


def _any_size(random: Random, shape: Shape, faults: Faults) -> None:
    shape.voters, shape.non_electable = random.randint(1, 7), 0


@family(_any_size, starts_within_s=2.0)
def cold_start(world: World) -> Iterator[float]:
    """One to seven voters start one after the other, on empty disks."""
    yield from paused_until(world, lambda: world.leader is not None, 5.0)
    yield from busy(world, 0.5)
    for node in world.voters():
        if world.random.random() < 0.5:
            world.kill(node, world.random.random() * 2.0)
    yield 1.0


@family(sized(1, 2, 3, 5))
def last_epoch(world: World) -> Iterator[float]:
    """Requests of voters and of others name epochs up to the last that 32 bits can hold, and some
    nodes restart with such an epoch on disk, as a release left it that believed all.
    """
    random = world.random
    yield from elected(world)
    for node in world.members:
        epoch = random.choice((20_000, 1 << 20, (1 << 31) - 3, (1 << 31) - 1))
        sender = random.choice((forgeries.UNKNOWN_ID, *world.first_voters.nodes))
        forgeries.of_epoch(world, random, node, epoch, sender)
        yield 0.5
    some = random.choice((world.voters(), world.members[:1], []))
    for node in some:
        world.kill(node, 0.01)
        if not node.up and node.disk.log.end_offset:
            node.disk.spoil_epoch((1 << 31) - 1)
    yield 5.0
    most = max(node.raft.epoch for node in world.members if node.up)
    require(most < OUT_OF_REACH, "3: epoch {}", most)


@family(sized(2, 3, 4, 5))
def handed_over(world: World) -> Iterator[float]:
    """Leaders shut down one after the other and name preferred successors."""
    random = world.random
    for _ in range(random.randint(3, 5)):
        yield from elected(world)
        yield from busy(world, random.random() * 0.3)
        if world.leader is not None:
            world.happen_to(world.leader, ShutDown(2.0), "it is asked to end")
        yield random.random()


def _splits(random: Random, shape: Shape, faults: Faults) -> None:
    shape.voters, shape.non_electable = random.choice((3, 5)), 0
    faults.twice, faults.late, faults.latency = 0.5, 0.3, 0.2


@family(_splits)
def late_messages(world: World) -> Iterator[float]:
    """Messages of old epochs arrive in new ones, twice, while leaders change often."""
    random = world.random
    for _ in range(random.randint(4, 6)):
        yield from paused_until(world, lambda: world.leader is not None, 4.0)
        yield from busy(world, random.random())
        leader = world.leader
        if leader is not None:
            world.happen_to(leader, Resign(leader.raft.epoch, "a fault"), "its controller resigns")
            if random.random() < 0.5:
                world.kill(leader, 0.2)
