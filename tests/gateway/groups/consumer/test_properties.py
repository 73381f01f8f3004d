"""Clients do what they like: what is on disk is the state, and no partition has two owners."""

from __future__ import annotations

import random

import pytest

from gateway.groups.consumer.group import ConsumerGroup
from kwire.protocol import ErrorCode
from tests.gateway.groups.consumer.world import FakeTopics, World, owned_partitions

_MEMBERS = ("a", "b", "c", "d")
_TOPICS = ("t", "u", "v")


@pytest.mark.parametrize("seed", range(40))
def test_disk_is_the_state_and_partitions_have_one_owner(seed: int) -> None:
    chance = random.Random(seed)
    interval = chance.choice([0, 1000])
    world = World(FakeTopics(t=3, u=2), consumer_assignment_interval_ms=interval)
    for _ in range(120):
        _step(world, chance)
        if "g" in world.core.groups and world.core.groups["g"].consumer is not None:
            _check(world)


def test_members_that_answer_every_heartbeat_reach_their_targets() -> None:
    for seed in range(20):
        chance = random.Random(seed)
        world = World(FakeTopics(t=3, u=2))
        for _ in range(60):
            _step(world, chance)
        world.wait(100_000)  # who was silent is gone
        for member_id in _MEMBERS:
            world.join(member_id, *chance.sample(_TOPICS, chance.randrange(1, 4)))
        for _ in range(6):
            for member_id in _MEMBERS:
                _obey(world, member_id)
        group = world.group()
        assert group.state.value == "Stable"
        for member in group.members.values():
            assert member.assignment == group.target[member.member_id]


def _obey(world: World, member_id: str) -> None:
    member = world.group().members[member_id]
    owned = tuple((one, tuple(some)) for one, some in member.assigned.items())
    assert world.beat(member_id, member.epoch, owned=owned).error is ErrorCode.NONE


def _step(world: World, chance: random.Random) -> None:
    member_id = chance.choice(_MEMBERS)
    instance_id = chance.choice([None, None, None, "i", "j"])
    consumer = world.core.groups["g"].consumer if "g" in world.core.groups else None
    member = None if consumer is None else consumer.members.get(member_id)
    match chance.randrange(12):
        case 0 | 1:
            names = chance.sample(_TOPICS, chance.randrange(4))
            regex = chance.choice([None, None, "t|u", "[tv]", ""])
            world.join(
                member_id,
                topic_names=tuple(names),
                topic_regex=regex,
                instance_id=instance_id,
                assignor=chance.choice([None, "range", "uniform"]),
                rebalance_timeout_ms=chance.choice([5_000, 50_000]),
            )
        case 2:
            world.topics.create(chance.choice(_TOPICS), chance.randrange(1, 6))
        case 3:
            for name in [one for one in world.topics.names() if chance.random() < 0.2]:
                world.topics.delete(name)
        case 4:
            world.wait(chance.choice([10, 1000, 20_000]))
        case 5:
            world.resolve()
        case 6:
            world.beat(member_id, chance.choice([-1, -2]), instance_id=instance_id)
        case 7 if member is not None:
            names = chance.sample(_TOPICS, chance.randrange(4))
            world.beat(
                member_id, member.epoch, topic_names=tuple(names), instance_id=member.instance_id
            )
        case 8 if chance.random() < 0.2:
            world.restart()
        case _ if member is not None:
            said = {**member.assigned}
            if chance.random() < 0.3:
                said.update(member.pending_revocation)
            owned = tuple((one, tuple(some)) for one, some in said.items())
            world.beat(
                member_id,
                chance.choice([member.epoch, member.epoch, member.previous_epoch]),
                owned=chance.choice([owned, owned, None]),
                instance_id=member.instance_id,
            )


def _check(world: World) -> None:
    group = world.group()
    owners = owned_partitions(group)
    assert len(owners) == len(set(owners))
    assert {
        (topic_id, partition)
        for topic_id, epochs in group.partition_epochs.items()
        for partition in epochs
    } == set(owners)
    again = World(world.topics)
    again.disk, again.owners = dict(world.disk), dict(world.owners)
    again.restart()
    assert _state(again.group()) == _state(group)
    for held in ("groups", "members", "member_bytes"):
        assert getattr(again.core.usage, held) == getattr(world.core.usage, held)


def _state(group: ConsumerGroup) -> dict[str, object]:
    """All that requests can depend on, in no order."""
    unwritten = {"checked_version", "is_resolving", "_state"}
    return {name: value for name, value in vars(group).items() if name not in unwritten}
