"""Families of schedules of brokers: the swarm, and directed ones that repeat a kind of incident."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.sim.brokers import acts
from tests.sim.brokers.healing import heal
from tests.sim.brokers.shapes import Faults, Shape
from tests.sim.history import require

if TYPE_CHECKING:
    from tests.sim.brokers.broker import Broker
    from tests.sim.brokers.messages import Key
    from tests.sim.brokers.world import BrokerWorld

Script = Callable[["BrokerWorld"], Iterator[float]]
Tweak = Callable[[Shape, Faults], None]


class Family(NamedTuple):
    """``tweak`` changes the shape and the faults that were drawn."""

    name: str
    script: Script
    tweak: Tweak

    def prepare(self, random: Random, shape: Shape, faults: Faults) -> None:
        """Adapt the shape and the faults that were drawn for the swarm to this family."""
        if self.name != "swarm":
            soften(faults)
        self.tweak(shape, faults)
        shape.replicas = min(shape.replicas, shape.brokers)
        shape.min_isr = min(shape.min_isr, shape.replicas)

    def play(self, world: BrokerWorld) -> Iterator[float]:
        """Run the script, then the healing."""
        yield from self.script(world)
        yield from heal(world)


FAMILIES: Final[dict[str, Family]] = {}


def family(tweak: Tweak) -> Callable[[Script], Script]:
    """Register a script as a family of schedules."""

    def register(script: Script) -> Script:
        FAMILIES[script.__name__] = Family(script.__name__, script, tweak)
        return script

    return register


def family_of(seed: int) -> Family:
    """The family that a seed selects: half of them the swarm."""
    names = list(FAMILIES)
    if seed % 2 == 0:
        return FAMILIES["swarm"]
    directed = [name for name in names if name != "swarm"]
    return FAMILIES[directed[seed // 2 % len(directed)]]


def soften(faults: Faults) -> None:
    """Keep some noise of the network; remove the acts of the swarm."""
    for name in Faults.__slots__:
        if name not in ("latency", "lose", "late", "reset", "slow_disk", "clock_spread"):
            setattr(faults, name, 0.0)
    faults.lose, faults.late = faults.lose * 0.3, faults.late * 0.5


def sized(**values: int | float | bool) -> Tweak:
    """A tweak of the shape to these values."""

    def tweak(shape: Shape, faults: Faults) -> None:
        for name, value in values.items():
            setattr(shape, name, value)

    return tweak


def in_sync(world: BrokerWorld, at_most: float = 5.0) -> Iterator[float]:
    """Wait until all replicas are in sync."""
    end = world.now + at_most
    while world.now < end and any(
        set(world.record(key).isr) != set(world.record(key).replicas) for key in world.keys
    ):
        yield 0.1


@family(sized())
def swarm(world: BrokerWorld) -> Iterator[float]:
    """Acts at random, by their rates."""
    end = world.now + world.shape.duration
    while world.now < end:
        rate = sum(rate for rate, _ in acts.rates(world))
        if not rate:
            yield world.shape.duration * 0.5
            return
        yield min(2.0, world.random.expovariate(rate))
        acts.random_act(world, world.random)


@family(sized(brokers=3, replicas=3, unclean=False))
def rolling_restart(world: BrokerWorld) -> Iterator[float]:
    """Brokers are shut down under control, one after the other."""
    for broker in world.brokers:
        yield from in_sync(world)
        yield world.random.random()
        if broker.is_running and world.may_act("broker %d shuts down", broker.id):
            broker.shut_down()
        yield 1.0 + 2.0 * world.random.random()


@family(sized(brokers=3, replicas=3, min_isr=2, unclean=False))
def quick_leaders(world: BrokerWorld) -> Iterator[float]:
    """Leaders change quickly, one after the other (KAFKA-17507)."""
    for _ in range(world.random.randint(3, 6)):
        yield from in_sync(world, 2.0)
        leader = world.leader(world.keys[0])
        if leader is not None and leader.up:
            if world.random.random() < 0.6:
                world.kill(leader, world.random.choice((0.01, 0.5, 3.0)))
            else:
                acts.fence(world, world.random)
        yield world.random.random() * (2.0 + world.shape.session_s)


@family(sized(brokers=3, replicas=3, min_isr=2, unclean=False))
def power_of_one(world: BrokerWorld) -> Iterator[float]:
    """One broker loses its power while the others write, and comes back (KAFKA-14139)."""
    for _ in range(world.random.randint(2, 3)):
        yield from in_sync(world)
        yield world.random.random()
        acts.lose_power(world, world.random)
        yield 1.0 + world.random.random()
        if world.random.random() < 0.5:
            acts.kill(world, world.random)


@family(sized(brokers=3, replicas=3, min_isr=2, unclean=False))
def slow_followers(world: BrokerWorld) -> Iterator[float]:
    """Followers are cut off or suspended until they leave the ISR, and come back."""
    for _ in range(world.random.randint(2, 4)):
        leader = world.leader(world.keys[0])
        others = [one for one in world.brokers if one is not leader]
        follower = world.random.choice(others)
        for_s = world.shape.lag_s * (0.5 + 1.5 * world.random.random())
        if world.random.random() < 0.5 or leader is None:
            world.pause(follower, for_s)
        else:
            world.cut(follower, leader, both=world.random.random() < 0.5)
            world.at(world.now + for_s, lambda: world.mend())
        yield for_s + world.random.random()
        if world.random.random() < 0.4:
            acts.kill(world, world.random)


@family(sized(brokers=4, replicas=3, min_isr=2, unclean=False))
def moves(world: BrokerWorld) -> Iterator[float]:
    """Partitions are reassigned while leaders change and brokers end."""
    for _ in range(world.random.randint(3, 5)):
        acts.reassign(world, world.random)
        yield world.random.random() * 1.5
        if world.random.random() < 0.5:
            acts.elect_preferred(world, world.random)
        if world.random.random() < 0.4:
            acts.kill(world, world.random)
        yield world.random.random() * 2.0


@family(sized(brokers=3, replicas=3, controllers=3))
def controllers_fail(world: BrokerWorld) -> Iterator[float]:
    """Controllers are replaced while brokers come and go, and ISRs change."""
    for _ in range(world.random.randint(3, 5)):
        acts.fail_over(world, world.random)
        yield world.random.random() * 0.5
        world.random.choice((acts.kill, acts.fence, acts.pause))(world, world.random)
        yield world.random.random() * 2.5


@family(sized(brokers=3, replicas=3, min_isr=2, unclean=False))
def leader_stays_away(world: BrokerWorld) -> Iterator[float]:
    """A leader ends and does not return: another one is elected in time."""
    yield from in_sync(world)
    yield world.random.random()
    key = world.keys[0]
    leader = world.leader(key)
    if leader is None or not leader.up or len(world.record(key).isr) < 2:
        return
    if not world.may_act("broker %d is killed for long", leader.id):
        return
    world.crash(leader, "by the scenario", 3.0 * world.shape.session_s + 6.0)
    world.faults.lose = world.faults.late = 0.0
    yield 2.0 * world.shape.session_s + 3.0
    now = world.record(key).leader
    require(now not in (-1, leader.id), "11: broker {} leads after {} ended", now, leader.id)
    yield world.random.random()


@family(sized(brokers=3, replicas=3, unclean=False))
def all_down(world: BrokerWorld) -> Iterator[float]:
    """All brokers end one after the other for longer than their sessions last, and restart in any
    order.
    """
    for _ in range(world.random.randint(1, 2)):
        yield from in_sync(world)
        yield world.random.random()
        brokers = world.random.sample(world.brokers, len(world.brokers))
        for broker in brokers:
            if broker.up:
                world.kill(broker, world.shape.session_s * 2.0 + 3.0 * world.random.random())
            yield world.random.random() * world.random.choice((0.1, 1.0, 3.0))
        yield world.shape.session_s * 2.0 + 3.0


@family(sized(brokers=3, replicas=3, min_isr=2, unclean=False, partitions=1))
def joins_and_restarts(world: BrokerWorld) -> Iterator[float]:
    """A follower loses its power while the leader asks for it to join the ISR (KIP-903)."""
    key = world.keys[0]
    for _ in range(world.random.randint(3, 4)):
        yield from in_sync(world)
        leader = world.leader(key)
        if leader is None:
            yield 0.5
            continue
        follower = world.random.choice([one for one in world.brokers if one is not leader])
        world.cut(follower, leader)
        yield world.shape.lag_s * 1.6
        world.mend()
        end = world.now + 3.0
        while world.now < end and not _is_joining(leader, key, follower.id):
            yield 0.002
        acts.power_off(world, follower, world.random.choice((0.001, 0.01, 0.05)))
        yield 0.5 + world.random.random()
        if world.random.random() < 0.3:
            acts.kill(world, world.random)


def _is_joining(leader: Broker, key: Key, id: int) -> bool:
    replica = leader.replicas.get(key)
    if not leader.up or replica is None or replica.leader is None:
        return False
    state = replica.leader.state
    return id in state.maximal and id not in state.isr


@family(sized(brokers=3, replicas=3, min_isr=2, unclean=False, elr=True, partitions=1))
def eligible_replicas(world: BrokerWorld) -> Iterator[float]:
    """The ISR shrinks below min.insync.replicas, a follower loses its power, and the leader ends:
    no broker but the leader may lead (KIP-966).
    """
    key = world.keys[0]
    for _ in range(2):
        yield from in_sync(world)
        leader = world.leader(key)
        if leader is None or not leader.up:
            yield 0.5
            continue
        first, second = [one for one in world.brokers if one is not leader]
        session = world.shape.session_s
        world.kill(first, session * 4.0)
        yield session * 1.5 + world.random.random()
        acts.power_off(world, second, session * 2.0)
        yield session * 1.5
        if leader.up:
            world.kill(leader, session * 3.0)
        yield session * 3.5


@family(sized(brokers=3, replicas=3, min_isr=1, unclean=True))
def unclean_elections(world: BrokerWorld) -> Iterator[float]:
    """Replicas that are not in sync are elected; the others throw their records away."""
    for _ in range(world.random.randint(2, 3)):
        leader = world.leader(world.keys[0])
        if leader is None:
            yield 1.0
            continue
        others = [one for one in world.brokers if one is not leader]
        world.isolate(others, but=world.controllers.processes)
        yield world.shape.lag_s * 1.5 + world.random.random()
        if leader.up:
            world.kill(leader, 4.0 + 2.0 * world.random.random())
        world.mend()
        yield 3.0 + 2.0 * world.random.random()


@family(sized(brokers=3, replicas=3, unclean=False))
def log_starts(world: BrokerWorld) -> Iterator[float]:
    """Records are deleted while followers are away."""
    for _ in range(world.random.randint(2, 4)):
        acts.kill(world, world.random)
        yield 0.5 + world.random.random()
        acts.delete_records(world, world.random)
        yield 0.5 + 2.0 * world.random.random()
