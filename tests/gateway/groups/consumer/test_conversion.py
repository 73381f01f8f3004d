"""A group with members changes its protocol, and members of both protocols share its partitions."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.base.migration_policy import MigrationPolicy
from gateway.groups import events as e
from gateway.groups.consumer.events import ConsumerHeartbeat
from gateway.groups.consumer.member import MemberState
from gateway.groups.group import State
from kwire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from kwire.protocol import ErrorCode
from tests.gateway.groups.consumer.classic_clients import (
    beat,
    classic_group,
    commit,
    join,
    join_group,
    partitions_of,
    sync,
    sync_group,
)
from tests.gateway.groups.consumer.world import START_MS, FakeTopics, World, named


def _world(**settings: Any) -> World:
    return World(FakeTopics(t=4), **{"initial_rebalance_delay_ms": 0, **settings})


def _offset(world: World) -> int | None:
    committed = world.core.groups["g"].offsets.get(("t", 0))
    return None if committed is None else committed.offset


def _leave(world: World, member_id: str, instance_id: str | None = None) -> e.LeaveResult:
    event = e.LeaveGroup(group_id="g", leavers=(e.Leaver(member_id, instance_id),))
    result = world.send(event)
    assert isinstance(result, e.LeaveResult)
    return result


# Upgrades.


def test_first_heartbeat_in_a_classic_group_makes_it_a_consumer_group() -> None:
    world = _world()
    k, m = classic_group(world, k=[0, 1], m=[2, 3])
    generation = world.core.groups["g"].generation
    world.send(commit(k, generation))
    result = world.join("a", "t")
    assert result.error is ErrorCode.NONE
    assert named(result.assignment) == {}
    group = world.group()
    assert world.core.groups["g"].type == "consumer"
    assert result.member_epoch == group.epoch == generation + 1
    for member_id, partitions in ((k, [0, 1]), (m, [2, 3])):
        member = group.members[member_id]
        assert (member.epoch, member.state) == (generation, MemberState.STABLE)
        assert named(member.assignment) == {"t": partitions}
        assert member.topic_names == {"t"}
        assert member.classic is not None
    assert _offset(world) == 7
    assert {len(some["t"]) for some in map(named, group.target.values()) if some} == {1, 2}


def test_conversion_survives_a_restart() -> None:
    world = _world()
    k, _m = classic_group(world, k=[0, 1], m=[2, 3])
    world.join("a", "t")
    before = vars(world.group())
    held = world.core.usage.member_bytes, world.core.usage.members
    world.restart()
    assert vars(world.group())["members"] == before["members"]
    assert vars(world.group())["target"] == before["target"]
    assert world.group().classic_members == 2
    assert (world.core.usage.member_bytes, world.core.usage.members) == held
    assert world.core.usage.of("User:k").members == 1
    assert beat(world, k, world.group().members[k].epoch, instance_id="k") == (
        "REBALANCE_IN_PROGRESS"
    )


def test_requests_that_wait_for_a_generation_are_answered_when_the_group_converts() -> None:
    world = _world()
    k, _m = classic_group(world, k=[0, 1], m=[2, 3])
    world.post(join_group(k, "t", "u", instance_id="k"))
    assert not world.answers
    world.join("a", "t")
    ((_event, result),) = world.taken()
    assert isinstance(result, e.JoinResult)
    assert (result.error, result.member_id) == (ErrorCode.REBALANCE_IN_PROGRESS, k)


def test_group_is_converted_during_its_first_rebalance() -> None:
    world = _world(initial_rebalance_delay_ms=1000)
    world.post(join_group("", "t", instance_id="k"))
    assert world.join("a", "t").member_epoch == 1
    ((_, result),) = world.taken()
    assert isinstance(result, e.JoinResult)
    assert result.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert beat(world, result.member_id, 0, instance_id="k") == "REBALANCE_IN_PROGRESS"
    again = join(world, result.member_id, "t", instance_id="k")
    assert (again.error, again.generation) == (ErrorCode.NONE, 1)


def test_syncs_that_wait_are_answered_when_the_group_converts() -> None:
    world = _world()
    k, m = classic_group(world, k=[0, 1], m=[2, 3])
    for member_id, name in ((k, "k"), (m, "m")):
        world.post(join_group(member_id, "t", "u", instance_id=name))
    results = [result for _, result in world.taken()]
    follower = next(one for one in results if isinstance(one, e.JoinResult) and not one.members)
    name = "k" if follower.member_id == k else "m"
    world.post(sync_group(follower.member_id, follower.generation, instance_id=name))
    assert not world.answers
    world.join("a", "t")
    ((_, result),) = world.taken()
    assert isinstance(result, e.SyncResult)
    assert result.error is ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"consumer_migration_policy": MigrationPolicy.DISABLED}, "online upgrade is disabled"),
        ({"consumer_migration_policy": MigrationPolicy.DOWNGRADE}, "online upgrade is disabled"),
        ({"consumer_max_size": 1}, "exceeds the consumer group maximum size"),
    ],
)
def test_upgrade_that_the_configuration_forbids_is_refused(
    settings: dict[str, Any], why: str
) -> None:
    world = _world(**settings)
    classic_group(world, k=[0, 1], m=[2, 3])
    disk = dict(world.disk)
    result = world.join("a", "t")
    assert result.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert why in (result.message or "")
    assert world.disk == disk
    assert world.core.groups["g"].state is State.STABLE


def test_group_of_another_protocol_type_is_not_converted() -> None:
    world = _world()
    world.post(join_group("", "t", protocol_type="connect", instance_id="k"))
    result = world.join("a", "t")
    assert result.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert "does not use the consumer embedded protocol" in (result.message or "")


@pytest.mark.parametrize(
    ("assignment", "why"),
    [
        (b"\0", "the embedded consumer protocol is malformed"),
        (b"\0\3\0\0\0\1", "the embedded consumer protocol is malformed"),
        (
            b"\0\3" + ConsumerProtocolAssignment(user_data=b"x").encode(3),
            "an unsupported custom assignor is in use",
        ),
    ],
)
def test_assignment_that_cannot_be_kept_is_no_reason_to_convert(
    assignment: bytes, why: str
) -> None:
    world = _world()
    (k,) = classic_group(world, k=[0])
    group = world.core.groups["g"]
    group.assign(group.members[k], assignment)
    result = world.join("a", "t")
    assert result.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert why in (result.message or "")
    assert world.core.groups["g"].members.keys() == {k}


def test_partitions_that_do_not_exist_are_no_part_of_the_assignment_after_an_upgrade() -> None:
    world = _world()
    (k,) = classic_group(world, k=[-1, 0, 4])
    world.join("a", "t")
    assert named(world.group().members[k].assignment) == {"t": [0]}


def test_partition_that_two_classic_members_have_is_no_reason_to_convert() -> None:
    world = _world()
    classic_group(world, k=[0, 1], m=[1, 2])
    result = world.join("a", "t")
    assert result.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert "two of its members have the same partition" in (result.message or "")


def test_conversion_that_takes_more_memory_than_allowed_changes_nothing() -> None:
    world = _world(bytes_max_per_group=9_000, bytes_reserved_per_group=0)
    k, _m = classic_group(world, k=[0, 1], m=[2, 3])
    disk, held = dict(world.disk), world.core.usage.member_bytes
    assert world.join("a", "t").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.exceeded == ["groups.bytes.max.per.group"]
    assert (world.disk, world.core.usage.member_bytes) == (disk, held)
    generation = world.core.groups["g"].generation
    assert beat(world, k, generation, instance_id="k") == "NONE"


def test_conversions_of_many_members_are_made_in_slices() -> None:
    world = World(FakeTopics(t=200), initial_rebalance_delay_ms=0)
    classic_group(world, **{f"m{number}": [number] for number in range(100)})
    joining = ConsumerHeartbeat(
        group_id="g", member_id="a", member_epoch=0, topic_names=("t",), owned=(),
        rebalance_timeout_ms=60_000,
    )  # fmt: skip
    leaving = ConsumerHeartbeat(group_id="g", member_id="a", member_epoch=-1)
    for event, kind in ((joining, "consumer"), (leaving, "classic")):
        assert world.slices_of(event) > 5 * 100
        assert world.core.groups["g"].type == kind


# Downgrades.


def test_group_of_classic_members_alone_becomes_a_classic_one() -> None:
    world = _world()
    k, m = classic_group(world, k=[0, 1], m=[2, 3])
    world.join("a", "t")
    world.send(commit(k, world.group().members[k].epoch))
    epoch, target = world.group().epoch, dict(world.group().target)
    world.beat("a", -1)
    group = world.core.groups["g"]
    assert (group.type, group.state) == ("classic", State.PREPARING_REBALANCE)
    assert (group.generation, group.protocol_name) == (epoch, "range")
    for member_id in (k, m):
        assert partitions_of(group.members[member_id].assignment) == named(target[member_id])
    assert _offset(world) == 7
    assert beat(world, k, epoch, instance_id="k") == "REBALANCE_IN_PROGRESS"
    for member_id, name in ((k, "k"), (m, "m")):
        world.post(join_group(member_id, "t", instance_id=name))
    results = [result for _, result in world.taken()]
    assert all(isinstance(one, e.JoinResult) and one.error is ErrorCode.NONE for one in results)
    assert group.generation == epoch + 1
    assert world.core.usage.of("User:k").members == 1


def test_downgrade_survives_a_restart() -> None:
    world = _world()
    k, m = classic_group(world, k=[0, 1], m=[2, 3])
    world.join("a", "t")
    world.beat("a", -1)
    held = world.core.usage.members
    world.restart()
    group = world.core.groups["g"]
    assert group.consumer is None
    assert group.members.keys() == {k, m}
    assert group.static_members == {"k": k, "m": m}
    assert world.core.usage.members == held
    assert all(not key.startswith((b"\0\3", b"\0\5", b"\0\10")) for key in world.disk)


def test_session_of_the_last_member_of_the_other_protocol_ends_in_a_downgrade() -> None:
    world = _world(consumer_session_timeout_ms=5_000)
    classic_group(world, k=[0, 1], m=[2, 3])
    world.join("a", "t")
    world.wait(5_001)
    assert world.core.groups["g"].type == "classic"
    assert world.core.groups["g"].state is State.PREPARING_REBALANCE


def test_classic_member_that_leaves_does_not_change_a_group_with_others() -> None:
    world = _world()
    _k, m = classic_group(world, k=[0, 1], m=[2, 3])
    world.join("a", "t")
    assert _leave(world, "", "k").errors == [ErrorCode.NONE]
    assert world.group().members.keys() == {"a", m}


def test_group_whose_last_members_leave_at_once_is_an_empty_consumer_group() -> None:
    world = _world()
    _k, _m = classic_group(world, k=[0, 1], m=[2, 3])
    world.join("a", "t")
    leavers = (e.Leaver("", "k"), e.Leaver("", "m"), e.Leaver("a", None))
    world.send(e.LeaveGroup(group_id="g", leavers=leavers))
    assert world.group().state.value == "Empty"


@pytest.mark.parametrize(
    "settings",
    [
        {"consumer_migration_policy": MigrationPolicy.UPGRADE},
        {"max_size": 1},
    ],
)
def test_downgrade_that_the_configuration_forbids_leaves_a_consumer_group(
    settings: dict[str, Any],
) -> None:
    world = _world()
    k, m = classic_group(world, k=[0, 1], m=[2, 3])
    world.join("a", "t")
    disk, owners = world.disk, world.owners
    world = _world(**settings)
    world.disk, world.owners = disk, owners
    world.restart()
    world.beat("a", -1)
    assert world.group().members.keys() == {k, m}
    # Its members go on in the classic protocol.
    result = join(world, k, "t", instance_id="k", owned={"t": [0, 1]})
    assert result.error is ErrorCode.NONE


def test_classic_member_that_replaces_the_last_static_one_keeps_its_partitions() -> None:
    world = _world()
    join_first = world.join("a", "t", instance_id="i", owner="User:a")
    assert join(world, "k", "t").error is ErrorCode.NONE
    # Both have what they should have.
    owned = (next(iter((one, tuple(some)) for one, some in world.group().target["a"].items())),)
    world.next("a", owned=owned, instance_id="i")
    generation = join(world, "k", "t").generation
    _, kept = sync(world, "k", generation)
    assert len(kept["t"]) == 2
    target = named(world.group().target["a"])
    answer = join(world, "", "t", instance_id="i", owned=target)
    assert (answer.error, answer.generation) == (ErrorCode.NONE, join_first.member_epoch + 1)
    group = world.core.groups["g"]
    assert (group.type, group.state) == ("classic", State.STABLE)
    assert "a" not in group.members
    assert beat(world, answer.member_id, answer.generation, instance_id="i") == "NONE"
    _result, given = sync(world, answer.member_id, answer.generation, instance_id="i")
    assert given == target
    assert group.state_since_ms == START_MS


def test_classic_member_that_replaces_the_last_one_with_other_topics_has_all_join() -> None:
    world = _world()
    world.topics.create("u", 1)
    world.join("a", "t", instance_id="i")
    join(world, "k", "t")
    answer = join(world, "", "t", "u", instance_id="i")
    assert (answer.error, answer.generation) == (ErrorCode.NONE, 0)
    assert world.core.groups["g"].state is State.PREPARING_REBALANCE


def test_group_goes_back_and_forth_and_leaves_nothing() -> None:
    world = _world()
    _k, _m = classic_group(world, k=[0, 1], m=[2, 3])
    for _ in range(3):
        assert world.join("a", "t", owner="User:a").error is ErrorCode.NONE
        world.beat("a", -1)
        assert world.core.groups["g"].type == "classic"
    assert world.converted == ["consumer", "classic"] * 3
    for name in ("k", "m"):
        assert _leave(world, "", name).errors == [ErrorCode.NONE]
    world.send(e.DeleteGroups(("g",)))
    assert not world.core.usage
    assert not world.disk
