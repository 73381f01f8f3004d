"""Acts of a schedule on brokers: one drawn at random (``random_act``), or each by name."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from kwire.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from tests.sim.brokers.messages import DeleteRecords
from tests.sim.timeline import do_one

if TYPE_CHECKING:
    from tests.sim.brokers.broker import Broker
    from tests.sim.brokers.world import BrokerWorld

Act = Callable[["BrokerWorld", Random], None]


def rates(world: BrokerWorld) -> list[tuple[float, Act]]:
    """The acts that this schedule's faults allow, and how often a second."""
    faults = world.faults
    return [
        (faults.cuts, cut),
        (faults.cuts * 0.7, mend),
        (faults.pauses, pause),
        (faults.kills, kill),
        (faults.power_losses, lose_power),
        (faults.failovers, fail_over),
        (faults.fencings, fence),
        (faults.restarts, restart_cleanly),
        (faults.reassignments, reassign),
        (faults.elections, elect_preferred),
        (faults.deletions, delete_records),
        (faults.wall_jumps, set_wall_clock),
    ]


def random_act(world: BrokerWorld, random: Random) -> None:
    """Do one of the acts, chosen by their rates."""
    do_one(world, random, rates(world))


def some_broker(world: BrokerWorld, random: Random) -> Broker:
    """A broker: mostly one that leads."""
    leader = world.leader(random.choice(world.keys))
    if leader is not None and random.random() < 0.5:
        return leader
    return random.choice(world.brokers)


def cut(world: BrokerWorld, random: Random) -> None:
    """Cut one link between brokers, in one direction or both; or a broker from all others."""
    if len(world.brokers) < 2:
        return
    if random.random() < 0.6:
        a = some_broker(world, random)
        b = random.choice([one for one in world.brokers if one is not a])
        world.cut(a, b, both=random.random() < 0.5)
    else:
        world.isolate([some_broker(world, random)])


def mend(world: BrokerWorld, random: Random) -> None:
    """Restore the links of one broker, or all."""
    if world.network.cut:
        world.mend(random.choice(world.brokers) if random.random() < 0.3 else None)


def pause(world: BrokerWorld, random: Random) -> None:
    """Suspend a broker."""
    broker = some_broker(world, random)
    if broker.up:
        world.pause(broker, random.random() ** 2 * 8.0)


def kill(world: BrokerWorld, random: Random) -> None:
    """Kill a broker; it restarts at once or later."""
    broker = some_broker(world, random)
    if broker.up:
        world.kill(broker, random.choice((0.01, None, 4.0 * random.random())))


def lose_power(world: BrokerWorld, random: Random) -> None:
    """The machine of a broker stops."""
    again = random.choice((0.05, 0.3, 4.0 * random.random()))
    power_off(world, some_broker(world, random), again)


def power_off(world: BrokerWorld, broker: Broker, for_s: float) -> None:
    """The machine of ``broker`` stops for so long, if another replica in sync is up for each of its
    partitions: two at once lose records.
    """
    if not broker.up or not may_lose_power(world, broker):
        return
    if world.may_act("broker %d loses its power", broker.id):
        broker.lose_power()
        world.at(world.now + for_s, lambda: world.restart(broker))


def may_lose_power(world: BrokerWorld, broker: Broker) -> bool:
    """Whether every partition of the broker has another replica in sync that has lost nothing."""
    for key in broker.logs:
        isr = world.record(key).isr
        others = [world.broker(id) for id in isr if id != broker.id]
        if not any(one.up and not one.logs[key].lost_below for one in others if key in one.logs):
            return False
    return True


def fail_over(world: BrokerWorld, random: Random) -> None:
    """Another controller becomes active: the old one is killed, suspended, or only replaced."""
    active = world.controllers.active
    if active is None or not active.up:
        return
    kind = random.random()
    if kind < 0.4:
        world.kill(active, 2.0 * random.random())
    elif kind < 0.7 and len(world.controllers.processes) > 1:
        world.pause(active, 1.0 + 3.0 * random.random())
        world.controllers.wants_leader()
    elif world.may_act("another controller is elected"):
        world.controllers.wants_leader()


def fence(world: BrokerWorld, random: Random) -> None:
    """Cut a broker from the controllers alone, so that it is fenced while it serves the others."""
    broker = some_broker(world, random)
    others = [one for one in world.nodes if one not in world.controllers.processes]
    world.isolate([broker], but=others)
    for_s = world.shape.session_s * (0.5 + 2.0 * random.random())
    world.at(world.now + for_s, lambda: world.mend(broker))


def restart_cleanly(world: BrokerWorld, random: Random) -> None:
    """A broker is shut down under control, and restarts."""
    broker = some_broker(world, random)
    if broker.is_running and world.may_act("broker %d shuts down under control", broker.id):
        broker.shut_down()


def reassign(world: BrokerWorld, random: Random) -> None:
    """Move a partition to other brokers, or cancel that."""
    key = random.choice(world.keys)
    count = world.shape.replicas
    ids = random.sample([one.id for one in world.brokers], count)
    replicas = None if random.random() < 0.2 else ids
    if world.may_act("reassign partition %d to %s", key[1], replicas):
        partition = ReassignablePartition(partition_index=key[1], replicas=replicas)
        topic = ReassignableTopic(name="orders", partitions=[partition])
        world.admin.ask(AlterPartitionReassignmentsRequest(topics=[topic]))


def elect_preferred(world: BrokerWorld, random: Random) -> None:
    """Have the first replica of a partition lead."""
    key = random.choice(world.keys)
    if world.may_act("elect the preferred leader of partition %d", key[1]):
        topic = TopicPartitions(topic="orders", partitions=[key[1]])
        world.admin.ask(ElectLeadersRequest(election_type=0, topic_partitions=[topic]))


def delete_records(world: BrokerWorld, random: Random) -> None:
    """Move the log start of a partition."""
    key = random.choice(world.keys)
    leader = world.leader(key)
    if leader is None or not leader.up:
        return
    before = -1 if random.random() < 0.4 else random.randrange(200)
    if world.may_act("delete records of partition %d below %d", key[1], before):
        world.admin.call(leader.place, DeleteRecords(key, before), 1.0, lambda _: None)


def set_wall_clock(world: BrokerWorld, random: Random) -> None:
    """Set a wall clock forward or back, by up to an hour."""
    broker = random.choice(world.brokers)
    if world.may_act("the wall clock of broker %d is set", broker.id):
        broker.wall_skew_ms += random.choice((-1, 1)) * random.randint(1, 3_600_000)
