"""Members of consumer groups join, share partitions, and leave, by heartbeats alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.config.values import Assignor
from gateway.groups import events as e
from gateway.groups.consumer.assignors import ASSIGNORS
from gateway.groups.consumer.events import DescribeConsumerGroups, DescribeConsumerGroupsResult
from gateway.groups.consumer.member import MemberState
from kwire.protocol import ErrorCode
from tests.gateway.groups.consumer.world import FakeTopics, World, named, topic_id

T = topic_id("t")


def owned(*partitions: int) -> tuple[tuple[Any, tuple[int, ...]], ...]:
    return ((T, partitions),) if partitions else ()


def target_size(world: World, member_id: str) -> int:
    """How many partitions a member should have."""
    return sum(len(some) for some in world.group().target[member_id].values())


def test_first_member_gets_all_partitions_at_once() -> None:
    world = World(FakeTopics(t=3))
    result = world.join("a", "t")
    assert (result.error, result.member_id, result.member_epoch) == (ErrorCode.NONE, "a", 2)
    assert named(result.assignment) == {"t": [0, 1, 2]}
    assert result.heartbeat_interval_ms == 5000
    assert world.group().state.value == "Stable"


def test_assignment_is_not_repeated_to_a_member_that_has_it() -> None:
    world = World(FakeTopics(t=3))
    world.join("a", "t")
    assert world.beat("a", 2).assignment is None
    said_all = world.beat(
        "a", 2, rebalance_timeout_ms=60_000, topic_names=("t",), owned=owned(0, 1, 2)
    )
    assert named(said_all.assignment) == {"t": [0, 1, 2]}


def test_second_member_waits_until_the_first_has_given_a_partition_up() -> None:
    world = World(FakeTopics(t=2))
    world.join("a", "t")
    joined = world.join("b", "t")
    assert (joined.member_epoch, named(joined.assignment)) == (3, {})
    assert world.group().members["b"].state is MemberState.UNRELEASED_PARTITIONS
    revoking = world.beat("a", 2)
    assert revoking.member_epoch == 2
    kept = named(revoking.assignment)
    assert kept in ({"t": [0]}, {"t": [1]})
    assert world.beat("b", 3).assignment is None
    (partition,) = kept["t"]
    assert world.beat("a", 2, owned=owned(partition)).member_epoch == 3
    assert named(world.beat("b", 3).assignment) == {"t": [1 - partition]}
    assert world.group().state.value == "Stable"


def test_member_that_does_not_give_partitions_up_in_time_is_removed() -> None:
    world = World(FakeTopics(t=2), consumer_session_timeout_ms=100_000)
    world.join("a", "t")
    world.join("b", "t")
    world.beat("a", 2)
    world.wait(60_000)
    assert list(world.group().members) == ["b"]
    assert named(world.beat("b", 3).assignment) == {"t": [0, 1]}
    assert world.beat("a", 2).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_session_ends_without_heartbeats() -> None:
    world = World(FakeTopics(t=2))
    world.join("a", "t")
    world.wait(44_999)
    world.beat("a", 2)
    world.wait(44_999)
    assert world.group().members
    world.wait(1)
    assert not world.group().members
    assert world.group().state.value == "Empty"


def test_member_that_leaves_is_gone_and_its_partitions_go_to_others() -> None:
    world = World(FakeTopics(t=2))
    world.join("a", "t")
    world.join("b", "t")
    left = world.beat("a", -1)
    assert (left.error, left.member_id, left.member_epoch) == (ErrorCode.NONE, "a", -1)
    assert named(world.beat("b", 3).assignment) == {"t": [0, 1]}


def test_static_member_that_leaves_for_a_while_keeps_its_partitions() -> None:
    world = World(FakeTopics(t=2))
    world.join("a", "t", instance_id="i")
    world.join("b", "t")
    (kept,) = named(world.beat("a", 2, instance_id="i").assignment or {})["t"]  # type: ignore[index]
    world.beat("a", 2, instance_id="i", owned=owned(kept))
    world.beat("b", 3)
    assert world.beat("a", -2, instance_id="i").member_epoch == -2
    again = world.join("c", "t", instance_id="i")
    assert (again.member_epoch, named(again.assignment)) == (3, {"t": [kept]})
    assert list(world.group().members) == ["b", "c"]
    assert world.beat("a", 3, instance_id="i").error is ErrorCode.FENCED_INSTANCE_ID


def test_static_member_that_has_not_left_keeps_its_instance_id() -> None:
    world = World(FakeTopics(t=2))
    world.join("a", "t", instance_id="i")
    assert world.join("b", "t", instance_id="i").error is ErrorCode.UNRELEASED_INSTANCE_ID
    assert world.beat("b", 3, instance_id="j").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_new_partitions_are_assigned_at_the_next_heartbeat() -> None:
    world = World(FakeTopics(t=1))
    world.join("a", "t")
    world.topics.create("t", 2)
    result = world.beat("a", 2)
    assert (result.member_epoch, named(result.assignment)) == (3, {"t": [0, 1]})
    world.topics.create("other", 2)
    assert world.beat("a", 3).member_epoch == 3


def test_topic_that_is_created_later_is_assigned() -> None:
    world = World()
    assert named(world.join("a", "t").assignment) == {}
    world.topics.create("t", 1)
    assert named(world.beat("a", 2).assignment) == {"t": [0]}


def test_partitions_of_a_deleted_topic_are_taken_away() -> None:
    world = World(FakeTopics(t=1, u=1))
    world.join("a", "t", "u")
    world.topics.delete("t")
    assert named(world.beat("a", 2).assignment) == {"u": [0]}


def test_epochs_in_quick_succession_get_one_assignment() -> None:
    world = World(FakeTopics(t=4), consumer_assignment_interval_ms=1000)
    world.join("a", "t")
    assert world.join("b", "t").member_epoch == 2
    assert world.group().epoch == 3
    assert world.group().assignment_epoch == 2
    assert world.group().state.value == "Assigning"
    world.wait(1000)
    assert world.beat("b", 2).member_epoch == 3


def test_members_choose_the_assignor_by_majority() -> None:
    world = World(FakeTopics(t=4))
    world.join("a", "t", assignor="range")
    world.join("b", "t", assignor="range")
    world.join("c", "t", assignor="uniform")
    assert world.group().preferred_assignor() == "range"
    assert named(world.group().target["a"]) == {"t": [0, 1]}


def test_members_with_different_topics_share_only_what_both_want() -> None:
    world = World(FakeTopics(t=2, u=2))
    world.join("a", "t")
    world.join("b", "t", "u")
    assert named(world.group().target["a"]) == {"t": [0, 1]}
    assert named(world.group().target["b"]) == {"u": [0, 1]}


@pytest.mark.parametrize(
    ("epoch", "with_owned", "error"),
    [
        (4, owned(), ErrorCode.FENCED_MEMBER_EPOCH),
        (2, owned(), ErrorCode.NONE),
        (2, owned(0), ErrorCode.NONE),
        (2, owned(0, 1), ErrorCode.FENCED_MEMBER_EPOCH),
        (2, None, ErrorCode.FENCED_MEMBER_EPOCH),
        (1, owned(), ErrorCode.FENCED_MEMBER_EPOCH),
    ],
)
def test_epoch_of_a_heartbeat_is_the_present_or_the_last_one(
    epoch: int, with_owned: Any, error: ErrorCode
) -> None:
    world = World(FakeTopics(t=1))
    world.join("a", "t")
    world.topics.create("u", 1)
    world.beat("a", 2, topic_names=("t", "u"))
    assert world.beat("a", epoch, owned=with_owned).error is error


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"member_id": " "}, "MemberId can't be empty."),
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"owned": None}, "TopicPartitions must be empty when (re-)joining."),
        ({"owned": owned(1)}, "TopicPartitions must be empty when (re-)joining."),
        (
            {"topic_names": None},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining.",
        ),
        ({"epoch": -2}, "InstanceId can't be null."),
        ({"epoch": -3}, "MemberEpoch is invalid."),
    ],
)
def test_invalid_request_is_refused(fields: dict[str, Any], message: str) -> None:
    said = {"member_id": "a", "epoch": 0, "topic_names": ("t",), **fields}
    said = {"rebalance_timeout_ms": 1000, "owned": (), **said}
    result = World().beat(**said)
    assert (result.error, result.message) == (ErrorCode.INVALID_REQUEST, message)


def test_assignor_that_is_not_known_is_refused() -> None:
    result = World().join("a", "t", assignor="mine")
    assert result.error is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert result.message == (
        "ServerAssignor mine is not supported. Supported assignors: uniform, range."
    )


def test_members_may_ask_for_the_configured_assignors_alone() -> None:
    world = World(FakeTopics(t=4, u=2), consumer_assignors=("range",))
    refused = world.join("a", "t", assignor="uniform")
    assert (refused.error, refused.message) == (
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        "ServerAssignor uniform is not supported. Supported assignors: range.",
    )
    assert world.join("a", "t", assignor="range").error is ErrorCode.NONE


@pytest.mark.parametrize(
    ("assignors", "expected"),
    [
        (("range", "uniform"), [4, 2]),  # the first member gets the odd partition of each topic
        (("uniform", "range"), [3, 3]),
    ],
)
def test_first_configured_assignor_is_for_members_that_ask_for_none(
    assignors: tuple[str, ...], expected: list[int]
) -> None:
    world = World(FakeTopics(t=3, u=3), consumer_assignors=assignors)
    world.join("a", "t", "u")
    world.join("b", "t", "u")
    assert [target_size(world, one) for one in ("a", "b")] == expected
    described = world.send(DescribeConsumerGroups(("g",)))
    assert isinstance(described, DescribeConsumerGroupsResult)
    assert described.groups[0].assignor == assignors[0]


def test_assignor_that_is_not_configured_any_more_is_replaced_by_the_first() -> None:
    world = World(FakeTopics(t=3, u=3))
    world.join("a", "t", "u", assignor="range")
    world.settings = replace(world.settings, consumer_assignors=("uniform",))
    world.restart()
    world.join("b", "t", "u")
    assert [target_size(world, one) for one in ("a", "b")] == [3, 3]


def test_client_of_version_0_is_given_a_member_id() -> None:
    world = World(FakeTopics(t=1))
    result = world.join("", "t", member_id_required=False)
    assert list(world.group().members) == [result.member_id]
    assert result.member_id


def test_group_that_is_full_takes_no_more_members() -> None:
    world = World(FakeTopics(t=1), consumer_max_size=1)
    world.join("a", "t")
    assert world.join("b", "t").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.beat("a", 2).error is ErrorCode.NONE


def test_group_that_takes_too_much_memory_is_refused() -> None:
    world = World(FakeTopics(t=1), bytes_max_per_group=20_000)
    assert world.join("a", *(f"topic-{n}" for n in range(1000))).error is (
        ErrorCode.GROUP_MAX_SIZE_REACHED
    )
    assert world.exceeded == ["groups.bytes.max.per.group"]
    assert not world.core.groups
    assert not world.core.usage


def test_memory_is_given_back_with_the_members_and_the_group() -> None:
    world = World(FakeTopics(t=3))
    for name in "abc":
        world.join(name, "t", owner=f"User:{name}")
    assert world.core.usage.members == 3
    assert world.core.usage.of("User:b").members == 1
    held = world.core.usage.member_bytes
    world.restart()
    assert world.core.usage.of("User:b").members == 1
    assert world.core.usage.member_bytes == held
    for name in "abc":
        world.beat(name, -1)
    assert world.core.usage.members == 0
    world.send(e.DeleteGroups(("g",)))
    assert not world.core.usage
    assert not world.disk


def test_group_without_members_changes_its_protocol() -> None:
    world = World(FakeTopics(t=1))
    world.join("a", "t")
    world.beat("a", -1)
    result = world.send(_classic_join())
    assert isinstance(result, e.JoinResult)
    assert result.error is ErrorCode.MEMBER_ID_REQUIRED
    assert world.core.groups["g"].consumer is None
    assert not world.disk
    assert world.join("a", "t").error is ErrorCode.NONE
    assert world.core.groups["g"].consumer is not None


def _classic_join() -> e.JoinGroup:
    return e.JoinGroup(
        group_id="g", member_id="", instance_id=None, client_id="c", client_host="/h",
        session_timeout_ms=10_000, rebalance_timeout_ms=10_000, protocol_type="consumer",
        protocols=(e.Protocol("range", b""),), member_id_required=True, can_skip_assignment=True,
    )  # fmt: skip


def test_member_of_a_classic_group_with_members_does_not_make_it_another() -> None:
    world = World(FakeTopics(t=1), initial_rebalance_delay_ms=0)
    first = world.send(_classic_join())
    assert isinstance(first, e.JoinResult)
    event = _classic_join()
    world.core.handle(
        e.JoinGroup(**{name: getattr(event, name) for name in event.__slots__}
                    | {"member_id": first.member_id}),
        "me", world.moment(),
    )  # fmt: skip
    result = world.join("a", "t")
    assert result.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert world.beat("a", 1).message == "Group g is not a consumer group."


def test_classic_requests_of_members_are_refused() -> None:
    world = World(FakeTopics(t=1))
    world.join("a", "t")
    beat = e.Heartbeat(group_id="g", member_id="a", instance_id=None, generation=2)
    assert world.send(beat).error is ErrorCode.UNKNOWN_MEMBER_ID  # type: ignore[union-attr]
    described = world.send(e.DescribeGroups(("g",)))
    assert isinstance(described, e.DescribeGroupsResult)
    assert described.groups[0].error is ErrorCode.GROUP_ID_NOT_FOUND
    assert described.groups[0].message == "Group g is not a classic group."


def test_operator_removes_members_with_leave_group() -> None:
    world = World(FakeTopics(t=1))
    world.join("a", "t", instance_id="i")
    world.join("b", "t")
    leavers = (
        e.Leaver("", "i"), e.Leaver("b", None), e.Leaver("x", None), e.Leaver("x", "i"),
        e.Leaver("", "j"),
    )  # fmt: skip
    result = world.send(e.LeaveGroup(group_id="g", leavers=leavers))
    assert isinstance(result, e.LeaveResult)
    assert result.errors == [
        ErrorCode.NONE, ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]  # fmt: skip
    assert not world.group().members


def test_group_with_members_is_not_deleted() -> None:
    world = World(FakeTopics(t=1))
    world.join("a", "t")
    result = world.send(e.DeleteGroups(("g",)))
    assert result == e.DeleteGroupsResult(errors=[ErrorCode.NON_EMPTY_GROUP])


def test_groups_are_listed_by_type_and_state() -> None:
    world = World(FakeTopics(t=1))
    world.join("a", "t")
    listed = [e.ListedGroup("g", "consumer", "Stable", "consumer")]
    assert world.send(e.ListGroups()) == e.ListGroupsResult(error=ErrorCode.NONE, groups=listed)
    for states, types, count in (
        ({"stable"}, {"consumer"}, 1), ({"empty"}, set(), 0), (set(), {"classic"}, 0),
    ):  # fmt: skip
        result = world.send(e.ListGroups(frozenset(states), frozenset(types)))
        assert isinstance(result, e.ListGroupsResult)
        assert len(result.groups) == count


def test_description_has_members_with_what_they_have_and_should_have() -> None:
    world = World(FakeTopics(t=2))
    world.join("a", "t", rack_id="r")
    world.join("b", "t")
    result = world.send(DescribeConsumerGroups(("g", "other")))
    assert isinstance(result, DescribeConsumerGroupsResult)
    described, other = result.groups
    assert (described.state, described.epoch, described.assignment_epoch) == ("Reconciling", 3, 3)
    assert described.assignor == "uniform"
    assert [one.member_id for one in described.members] == ["a", "b"]
    assert described.members[0].rack_id == "r"
    assert described.targets is not None
    assert sorted(len(target[T]) for target in described.targets.values()) == [1, 1]
    assert (other.error, other.message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group other not found.")


def test_configuration_names_every_assignor() -> None:
    assert tuple(Assignor) == tuple(ASSIGNORS)
