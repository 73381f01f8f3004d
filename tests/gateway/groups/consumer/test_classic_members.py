"""Members of a consumer group that use the classic protocol join, sync, heartbeat and commit."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.base.migration_policy import MigrationPolicy
from gateway.groups import Answer
from gateway.groups import events as e
from gateway.groups.consumer.events import ConsumerHeartbeat
from kwire.protocol import ErrorCode
from tests.gateway.groups.consumer.classic_clients import (
    beat,
    classic_group,
    commit,
    join,
    join_group,
    sync,
    sync_group,
)
from tests.gateway.groups.consumer.world import FakeTopics, World, named
from tests.gateway.steps import calls_per_step


def _world(**settings: Any) -> World:
    return World(FakeTopics(t=4), **{"initial_rebalance_delay_ms": 0, **settings})


def test_classic_members_give_up_and_take_partitions_by_joining() -> None:
    world = _world()
    k, m = classic_group(world, k=[0, 1], m=[2, 3])
    world.join("a", "t")
    targets = {one: named(world.group().target[one]) or {} for one in (k, m)}
    loser = k if len(targets[k]["t"]) == 1 else m
    name, had = ("k", [0, 1]) if loser == k else ("m", [2, 3])
    generation = world.group().members[loser].epoch
    assert beat(world, loser, generation, instance_id=name) == "REBALANCE_IN_PROGRESS"
    first = join(world, loser, "t", instance_id=name, owned={"t": had})
    assert (first.error, first.generation, first.leader) == (ErrorCode.NONE, generation, "")
    _, kept = sync(world, loser, first.generation, instance_id=name)
    assert len(kept["t"]) == 1
    assert named(world.next("a").assignment) is None  # the partition is not free yet
    assert beat(world, loser, generation, instance_id=name) == "REBALANCE_IN_PROGRESS"
    second = join(world, loser, "t", instance_id=name, owned=kept)
    assert second.generation == world.group().epoch
    assert sync(world, loser, second.generation, instance_id=name)[1] == kept
    assert beat(world, loser, second.generation, instance_id=name) == "NONE"
    given = named(world.next("a").assignment)
    assert given is not None
    assert sorted([*given["t"], *kept["t"]]) == had


def test_classic_member_gets_its_id_first_and_joins_with_it() -> None:
    world = _world()
    world.join("a", "t")
    first = join(world, "", "t")
    assert first.error is ErrorCode.MEMBER_ID_REQUIRED
    assert first.member_id not in world.group().members
    second = join(world, first.member_id, "t", rack="r")
    assert second.error is ErrorCode.NONE
    assert (second.protocol_type, second.protocol_name) == ("consumer", "range")
    member = world.group().members[first.member_id]
    assert (member.rack_id, member.rebalance_timeout_ms) == ("r", 60_000)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ("sticky",)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"session_timeout_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_classic_member_that_does_not_fit_is_refused(
    fields: dict[str, Any], error: ErrorCode
) -> None:
    world = _world()
    world.join("a", "t")
    assert join(world, "k", "t").error is ErrorCode.NONE
    assert join(world, "m", "t", **fields).error is error
    assert "m" not in world.group().members


def test_classic_member_whose_subscription_is_no_subscription_is_refused() -> None:
    world = _world()
    world.join("a", "t")
    event = join_group("k", "t")
    bad = (e.Protocol("range", b"\0\3x"),)
    result = world.send(e.JoinGroup(**{**_fields(event), "protocols": bad}))
    assert isinstance(result, e.JoinResult)
    assert result.error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert world.group().members.keys() == {"a"}


def _fields(event: e.JoinGroup) -> dict[str, Any]:
    return {name: getattr(event, name) for name in event.__dataclass_fields__}


def test_classic_member_is_refused_where_the_policy_is_disabled() -> None:
    world = _world(consumer_migration_policy=MigrationPolicy.DISABLED)
    world.join("a", "t")
    assert join(world, "k", "t").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_full_group_admits_no_classic_member() -> None:
    world = _world(consumer_max_size=1)
    world.join("a", "t")
    assert join(world, "k", "t").error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_sync_of_another_protocol_or_generation_is_refused() -> None:
    world = _world()
    world.join("a", "t")
    generation = join(world, "k", "t").generation
    assert sync(world, "k", generation + 1)[0].error is ErrorCode.ILLEGAL_GENERATION
    for fields in ({"protocol_type": "connect"}, {"protocol_name": "sticky"}):
        result, _ = sync(world, "k", generation, **fields)
        assert result.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert sync(world, "a", 1)[0].error is ErrorCode.UNKNOWN_MEMBER_ID
    assert beat(world, "a", 1) == "UNKNOWN_MEMBER_ID"
    assert beat(world, "k", generation, instance_id="i") == "UNKNOWN_MEMBER_ID"


def test_commits_of_classic_members_are_checked_by_generation() -> None:
    world = _world()
    world.join("a", "t")
    generation = join(world, "k", "t").generation

    def errors(sent: int) -> list[ErrorCode]:
        result = world.send(commit("k", sent))
        assert isinstance(result, e.CommitResult)
        return list(result.errors)

    assert errors(generation) == [ErrorCode.NONE]
    assert errors(generation + 1) == errors(generation - 1) == [ErrorCode.ILLEGAL_GENERATION]
    asked = e.OffsetFetch(groups=(("g", None),), members=(("k", generation + 1),))
    fetched = world.send(asked)
    assert isinstance(fetched, e.OffsetFetchResult)
    assert fetched.groups[0].error is ErrorCode.ILLEGAL_GENERATION


def test_classic_member_that_is_silent_is_removed_after_its_own_session_timeout() -> None:
    world = _world(consumer_session_timeout_ms=45_000)
    world.join("a", "t")
    join(world, "k", "t")
    world.wait(9_000)
    assert "k" in world.group().members
    world.wait(2_000)
    assert world.group().members.keys() == {"a"}


def test_classic_member_that_does_not_join_in_time_is_removed() -> None:
    world = _world()
    world.join("a", "t")
    generation = join(world, "k", "t", rebalance_timeout_ms=20_000).generation
    sync(world, "k", generation)
    world.join("b", "t")
    for _ in range(4):
        world.wait(6_000)
        for name in ("a", "b"):
            world.next(name)
        answer = beat(world, "k", generation)
    assert answer == "REBALANCE_IN_PROGRESS"  # its last heartbeat but one started the timeout
    world.wait(6_000)
    assert world.group().members.keys() == {"a", "b"}


def test_classic_member_that_does_not_sync_in_time_is_removed() -> None:
    world = _world()
    world.join("a", "t")
    generation = join(world, "k", "t", rebalance_timeout_ms=8_000).generation
    world.wait(7_000)
    beat(world, "k", generation)
    world.wait(2_000)
    assert world.group().members.keys() == {"a"}


def test_member_that_changes_to_the_other_protocol_is_not_removed_for_the_old_one() -> None:
    world = _world()
    world.join("a", "t")
    join(world, "k", "t", rebalance_timeout_ms=8_000)
    world.join("k", "t")
    assert world.group().members["k"].classic is None
    world.wait(9_000)
    assert world.group().members.keys() == {"a", "k"}


def test_steps_of_classic_members_are_no_longer_than_those_of_the_others() -> None:
    names = [f"t{number}" for number in range(1_000)]
    world = World(FakeTopics(**dict.fromkeys(names, 1)))
    longest = max(_calls(world, _joining(name, names)) for name in ("a", "b"))
    joining = join_group("k", *names, owned={name: [0] for name in names})
    assert _calls(world, joining) <= 1.1 * longest
    generation = join(world, "k", *names).generation
    assert _calls(world, sync_group("k", generation)) <= longest / 10
    for name in ("a", "b"):
        world.beat(name, -1)
    assert world.core.groups["g"].type == "classic"
    assert _calls(world, _joining("c", names)) <= 1.1 * longest


def _joining(member_id: str, names: list[str]) -> e.Event:
    return ConsumerHeartbeat(
        group_id="g", member_id=member_id, member_epoch=0, topic_names=tuple(names), owned=(),
        rebalance_timeout_ms=60_000,
    )  # fmt: skip


def _calls(world: World, event: e.Event) -> int:
    """Calls of functions in the longest step of an event."""
    work = world.core.handle_in_slices(event, "me", world.moment())
    effects, calls = calls_per_step(work)
    world.apply(effects)
    assert any(isinstance(one, Answer) for one in effects)
    return calls
