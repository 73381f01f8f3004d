"""A broker that is cut off from its controllers is fenced, its leaderships move, and it comes back:
KIP-631, "Fencing". It goes on serving what it leads, and nothing acknowledged is lost meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sim.brokers.families import Family, in_sync, sized
from tests.sim.brokers.world import BrokerWorld

#: Until a session of 2 s has ended by any clock, and a leader is elected.
_FENCED_S = 10.0


def cut_from_controllers(world: BrokerWorld) -> Iterator[float]:
    """Cut the leader of the first partition off, and mend it once another one leads."""
    yield from in_sync(world)
    key = world.keys[0]
    leader = world.leader(key)
    assert leader is not None
    epoch, end = world.record(key).leader_epoch, world.now + _FENCED_S
    others = [one for one in world.nodes if one not in world.controllers.processes]
    world.isolate([leader], but=others)
    while not world.metadata.image.brokers[leader.id].fenced:
        assert world.now < end, "a broker without heartbeats is not fenced"
        yield 0.05
    record = world.record(key)
    assert record.leader not in (-1, leader.id) and record.leader_epoch > epoch
    assert leader.id not in record.isr
    assert leader.is_running, "it knows nothing of this, and serves on"
    yield world.random.random()
    world.mend(leader)
    end = world.now + _FENCED_S
    while world.metadata.image.brokers[leader.id].fenced:
        assert world.now < end, "a broker that is heard again stays fenced"
        yield 0.05
    yield from in_sync(world)
    assert leader.id in world.record(key).isr


FAMILY = Family(
    "cut_from_controllers",
    cut_from_controllers,
    sized(brokers=3, replicas=3, min_isr=2, unclean=False),
)


@pytest.mark.parametrize("seed", range(6))
def test_leader_cut_off_from_controllers_is_fenced_and_comes_back(seed: int) -> None:
    assert BrokerWorld(seed, FAMILY).run().acked > 0
