"""Ends every schedule of brokers: the faults stop, all restart, and the cluster must come to rest:
replicas in sync, producers answered, logs equal (invariants 10 and 11).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tests.sim.history import Violation

if TYPE_CHECKING:
    from tests.sim.brokers.world import BrokerWorld

#: A partition has a leader, and every replica is in sync, within this time after healing.
IN_SYNC_S: Final = 30.0
#: Every batch is acknowledged within this time after that.
ANSWERED_S: Final = 15.0
_LOOK_S: Final = 0.1
_LATENCY_S: Final = 0.004


def heal(world: BrokerWorld) -> Iterator[float]:
    """Stop the faults and wait until the cluster has recovered. Raises Violation if it does not."""
    yield max(0.0, *(one.paused_until - world.now for one in world.nodes))
    world.note("** everything is healed")
    world.chance.calm = True
    world.network.cut.clear()
    world.faults.latency = _LATENCY_S
    for one in (*world.controllers.processes, *world.brokers):
        world.restart(one)
    begun = world.now
    yield from _play_to(world, lambda: _is_in_sync(world), IN_SYNC_S, "11: no replicas in sync")
    world.recovery_s = world.now - begun
    for producer in world.producers:
        producer.is_over = True
    yield from _play_to(world, lambda: _is_answered(world), ANSWERED_S, "11: batches wait")
    yield from _play_to(world, lambda: _are_equal(world), ANSWERED_S, "10: logs differ")
    world.checker.finish()


def _play_to(world: BrokerWorld, holds: object, at_most: float, what: str) -> Iterator[float]:
    end = world.now + at_most
    while not holds():  # type: ignore[operator]
        if world.now > end:
            raise Violation(f"{what} {at_most} s after healing: {_state(world)}")
        yield _LOOK_S


def _is_in_sync(world: BrokerWorld) -> bool:
    registered = world.metadata.image.brokers
    if any(registered[one.id].fenced for one in world.brokers):
        return False
    for key in world.keys:
        record = world.record(key)
        if record.leader < 0 or set(record.isr) != set(record.replicas):
            return False
        if record.adding_replicas or record.removing_replicas:
            return False
    return True


def _is_answered(world: BrokerWorld) -> bool:
    return all(one.is_idle for one in world.producers)


def _are_equal(world: BrokerWorld) -> bool:
    for key in world.keys:
        replicas = [world.broker(id).replicas.get(key) for id in world.record(key).replicas]
        found = {
            (one.log.end_offset, one.high_watermark) if one is not None else None
            for one in replicas
        }
        if len(found) != 1 or None in found:
            return False
    return True


def _state(world: BrokerWorld) -> str:
    states = []
    for key in world.keys:
        record = world.record(key)
        ends = {
            id: (log.start_offset, log.end_offset, log.last_epoch)
            for id in record.replicas
            if (log := world.broker(id).logs.get(key)) is not None
        }
        states.append(
            f"{key[1]}: leader {record.leader} epoch {record.leader_epoch}, ISR {record.isr} "
            f"of {record.replicas}, adding {record.adding_replicas}, logs {ends}"
        )
    waiting = [one.id for one in world.producers if not one.is_idle]
    return f"{states}, waiting {waiting}"
