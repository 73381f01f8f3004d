"""Members of both protocols do what they like: what is on disk is the state, no partition of a
consumer group has two owners, and members that follow the answers get their shares.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from gateway.groups import events as e
from gateway.groups.group import Group
from kwire.protocol import ErrorCode
from tests.gateway.groups.consumer.classic_clients import (
    beat,
    join,
    join_group,
    partitions_of,
    sync,
    sync_group,
)
from tests.gateway.groups.consumer.world import FakeTopics, World, named, owned_partitions

_NEW, _CLASSIC = ("a", "b"), ("k", "l", "m")
_INSTANCES = (None, None, "i", "j")
_TOPICS = ("t", "u", "v")


@pytest.mark.parametrize("seed", range(40))
def test_disk_is_the_state_of_a_group_whose_members_use_both_protocols(seed: int) -> None:
    chance = random.Random(seed)
    interval = chance.choice([0, 1000])
    world = World(
        FakeTopics(t=3, u=2), consumer_assignment_interval_ms=interval, initial_rebalance_delay_ms=0
    )
    types = Counter[str]()
    before = ""
    for _ in range(150):
        _step(world, chance)
        world.answers.clear()
        group = world.core.groups.get("g")
        if group is not None:
            types[f"{before} {group.type}"] += 1
            before = group.type
            _check(world, group)
    assert types["consumer consumer"]


def test_schedules_convert_groups_in_both_directions() -> None:
    conversions = Counter[tuple[str, str]]()
    for seed in range(40):
        chance, before = random.Random(seed), ""
        world = World(FakeTopics(t=3, u=2), initial_rebalance_delay_ms=0)
        for _ in range(150):
            _step(world, chance)
            world.answers.clear()
            group = world.core.groups.get("g")
            after = "" if group is None else group.type
            conversions[before, after] += bool(group is not None and not group.is_empty)
            before = after
    assert conversions["classic", "consumer"] >= 40
    assert conversions["consumer", "classic"] >= 40


@pytest.mark.parametrize("seed", range(20))
def test_members_of_both_protocols_that_follow_the_answers_get_their_shares(seed: int) -> None:
    chance = random.Random(seed)
    world = World(FakeTopics(t=5, u=2), initial_rebalance_delay_ms=0)
    world.join("a", "t")
    clients = {name: _Client(name) for name in _CLASSIC}
    for _ in range(100):
        world.wait(10)
        name = chance.choice([*clients, "a", "b"])
        if name in clients:
            clients[name].step(world)
        else:
            _obey(world, name)
    group = world.group()
    assert group.state.value == "Stable"
    shares = {name: client.owned.get("t", []) for name, client in clients.items()}
    shares |= {name: (named(group.members[name].assignment) or {}).get("t", []) for name in _NEW}
    assert sorted(one for share in shares.values() for one in share) == [0, 1, 2, 3, 4]
    assert all(len(share) == 1 for share in shares.values())


class _Client:
    """A consumer of the classic protocol, which rebalances cooperatively."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.owned: dict[str, list[int]] = {}
        self._generation: int | None = None
        self._joined = False

    def step(self, world: World) -> None:
        """Send the next request."""
        if self._generation is None:
            result = join(world, self.name, "t", owned=self.owned)
            assert result.error is ErrorCode.NONE
            self._generation, self._joined = result.generation, True
        elif self._joined:
            answer, given = sync(world, self.name, self._generation)
            if answer.error is ErrorCode.NONE:
                # A client that has to give partitions up joins at once, to say that it did.
                gave_up = any(
                    set(some) - set(given.get(one, [])) for one, some in self.owned.items()
                )
                self.owned, self._joined = given, False
                self._generation = None if gave_up else self._generation
            else:
                self._generation = None
        elif beat(world, self.name, self._generation) == "REBALANCE_IN_PROGRESS":
            self._generation = None


def _obey(world: World, name: str) -> None:
    member = world.group().members.get(name)
    if member is None:
        world.join(name, "t")
        return
    said = tuple((one, tuple(some)) for one, some in member.assigned.items())
    assert world.beat(name, member.epoch, owned=said).error is ErrorCode.NONE


def _step(world: World, chance: random.Random) -> None:
    match chance.randrange(14):
        case 0 | 1 | 2:
            _new_member(world, chance)
        case 3:
            world.topics.create(chance.choice(_TOPICS), chance.randrange(1, 6))
        case 4 if chance.random() < 0.3:
            for name in [one for one in world.topics.names() if chance.random() < 0.2]:
                world.topics.delete(name)
        case 5:
            world.wait(chance.choice([10, 1000, 4000]))
        case 6 if chance.random() < 0.3:
            world.restart()
        case 7:
            leavers = [e.Leaver(chance.choice([*_NEW, *_CLASSIC]), None) for _ in range(2)]
            world.post(e.LeaveGroup(group_id="g", leavers=tuple(leavers)))
        case 8:
            for name in _NEW:
                world.beat(name, -1)
        case _:
            _classic_member(world, chance)


def _new_member(world: World, chance: random.Random) -> None:
    name, instance_id = chance.choice(_NEW), chance.choice(_INSTANCES)
    group = world.core.groups.get("g")
    member = None if group is None or group.consumer is None else group.consumer.members.get(name)
    if member is None or chance.random() < 0.2:
        topics = chance.sample(_TOPICS, chance.randrange(1, 4))
        world.join(name, *topics, instance_id=instance_id)
    else:
        owned = tuple((one, tuple(some)) for one, some in member.assigned.items())
        world.beat(name, member.epoch, owned=owned, instance_id=member.instance_id)


def _classic_member(world: World, chance: random.Random) -> None:
    """A request of a classic member: one that the group has, or a new one."""
    group = world.core.groups.get("g")
    known: dict[str, tuple[str | None, int]] = {}
    if group is not None and group.consumer is not None:
        known = {m.member_id: (m.instance_id, m.epoch) for m in group.consumer.members.values()}
    elif group is not None:
        known = {m.member_id: (m.instance_id, group.generation) for m in group.members.values()}
    name = chance.choice([*_CLASSIC, *known])
    instance_id, generation = known.get(name, (chance.choice(_INSTANCES), 1))
    if name not in known and (instance_id is not None or group is None or group.consumer is None):
        name = ""
    topics = chance.sample(_TOPICS, chance.randrange(1, 4))
    owned = {one: [0, 1] for one in topics} if chance.random() < 0.3 else {}
    match chance.randrange(3):
        case 0:
            fields = {"instance_id": instance_id, "owned": owned, "member_id_required": False}
            world.post(join_group(name, *topics, **fields))
        case 1:
            plan = _plan(world, list(known))
            world.post(sync_group(name, generation, plan, instance_id=instance_id))
        case _:
            world.post(
                e.Heartbeat(
                    group_id="g", member_id=name, instance_id=instance_id, generation=generation
                )
            )


def _plan(world: World, members: list[str]) -> dict[str, dict[str, list[int]]]:
    """An assignment as the leader of a classic group makes it."""
    plan: dict[str, dict[str, list[int]]] = {name: {} for name in members}
    for topic in world.topics.names():
        known = world.topics.named(topic)
        for partition in range(known.partitions if known is not None and members else 0):
            plan[members[partition % len(members)]].setdefault(topic, []).append(partition)
    return plan


def _check(world: World, group: Group) -> None:
    again = World(world.topics)
    again.disk, again.owners = dict(world.disk), dict(world.owners)
    again.restart()
    consumer = group.consumer
    if consumer is None:
        loaded = again.core.groups.get("g")
        if group.state.value == "Stable":
            assert loaded is not None
            assert {
                name: partitions_of(one.assignment) for name, one in loaded.members.items()
            } == {name: partitions_of(one.assignment) for name, one in group.members.items()}
        return
    assert not group.members
    owners = owned_partitions(consumer)
    assert len(owners) == len(set(owners))
    loaded = again.core.groups["g"]
    assert loaded.consumer is not None
    unwritten = {"checked_version", "is_resolving", "_state"}
    states = [
        {name: value for name, value in vars(one).items() if name not in unwritten}
        for one in (loaded.consumer, consumer)
    ]
    assert states[0] == states[1]
    assert consumer.classic_members == sum(
        member.classic is not None for member in consumer.members.values()
    )
    for held in ("groups", "members", "member_bytes"):
        assert getattr(again.core.usage, held) == getattr(world.core.usage, held)
