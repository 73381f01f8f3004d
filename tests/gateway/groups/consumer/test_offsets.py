"""Members of consumer groups commit and fetch offsets with their epochs."""

from __future__ import annotations

import pytest

from gateway.groups import events as e
from kwire.protocol import ErrorCode
from tests.gateway.groups.consumer.world import FakeTopics, World, topic_id

DAY_MS = 24 * 3600 * 1000


def commit(
    world: World, member_id: str, epoch: int, partition: int = 0, *, version_9: bool = True
) -> ErrorCode:
    offset = e.OffsetToCommit("t", partition, 5, -1, "", topic_id("t"))
    event = e.OffsetCommit(
        group_id="g", member_id=member_id, instance_id=None, generation=epoch, retention_ms=-1,
        offsets=(offset,), knows_group_id_not_found=version_9,
    )  # fmt: skip
    result = world.send(event)
    assert isinstance(result, e.CommitResult)
    return result.errors[0]


def group_of_two() -> World:
    """Member "a" of epoch 3 has one partition since epoch 2; "b" the other since epoch 3."""
    world = World(FakeTopics(t=2))
    world.join("a", "t")
    world.join("b", "t")
    kept = world.beat("a", 2).assignment
    assert kept is not None
    world.beat("a", 2, owned=tuple((one, tuple(some)) for one, some in kept.items()))
    world.beat("b", 3)
    return world


def partition_of(world: World, member_id: str) -> int:
    (partition,) = world.group().members[member_id].assigned[topic_id("t")]
    return partition


def test_commit_of_the_present_epoch_is_taken() -> None:
    world = group_of_two()
    assert commit(world, "a", 3) is ErrorCode.NONE


def test_commit_of_an_older_epoch_is_taken_for_what_the_member_has_had_since() -> None:
    world = group_of_two()
    assert commit(world, "a", 2, partition_of(world, "a")) is ErrorCode.NONE
    assert commit(world, "a", 2, partition_of(world, "b")) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(world, "b", 2, partition_of(world, "b")) is ErrorCode.STALE_MEMBER_EPOCH


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [
        ("a", 4, ErrorCode.STALE_MEMBER_EPOCH),
        ("a", -1, ErrorCode.STALE_MEMBER_EPOCH),
        ("x", 3, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_commit_of_another_epoch_or_member_is_refused(
    member_id: str, epoch: int, error: ErrorCode
) -> None:
    world = group_of_two()
    assert commit(world, member_id, epoch, partition_of(world, "b")) is error


def test_commit_before_version_9_is_refused() -> None:
    for epoch in (3, 4):
        assert commit(group_of_two(), "a", epoch, version_9=False) is (
            ErrorCode.UNSUPPORTED_VERSION
        )


def test_anyone_commits_to_a_group_without_members() -> None:
    world = World(FakeTopics(t=2))
    world.join("a", "t")
    world.beat("a", -1)
    assert commit(world, "", -1) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("member", "error"),
    [
        (("a", 3), ErrorCode.NONE),
        ((None, -1), ErrorCode.NONE),
        (("a", 2), ErrorCode.STALE_MEMBER_EPOCH),
        (("x", 3), ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_offsets_are_fetched_with_the_present_epoch(
    member: tuple[str | None, int], error: ErrorCode
) -> None:
    world = group_of_two()
    result = world.send(e.OffsetFetch((("g", None),), members=(member,)))
    assert isinstance(result, e.OffsetFetchResult)
    assert result.groups[0].error is error


def test_offsets_of_topics_that_members_read_are_neither_deleted_nor_expired() -> None:
    world = group_of_two()
    commit(world, "a", 3)
    result = world.send(e.OffsetDelete(group_id="g", partitions=(("t", 0),)))
    assert isinstance(result, e.OffsetDeleteResult)
    assert list(result.errors) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
    world.wait(600_000)
    assert world.core.groups["g"].offsets


def test_group_goes_with_its_last_offset() -> None:
    world = World(FakeTopics(t=2))
    world.join("a", "t")
    commit(world, "a", 2)
    world.beat("a", -1)
    world.wait(6 * DAY_MS)
    assert world.core.groups
    world.wait(2 * DAY_MS)
    assert not world.core.groups
    assert not world.disk
    assert not world.core.usage


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [
        ("a", 3, ErrorCode.NONE),
        ("a", 4, ErrorCode.ILLEGAL_GENERATION),
        ("b", 2, ErrorCode.ILLEGAL_GENERATION),
        ("", -1, ErrorCode.NONE),
    ],
)
def test_commit_in_a_transaction_is_of_a_member_with_its_epoch(
    member_id: str, epoch: int, error: ErrorCode
) -> None:
    assert _commit_in_transaction(group_of_two(), member_id, epoch, 0) is error


def test_commit_in_a_transaction_of_an_older_epoch_is_taken_for_what_the_member_has() -> None:
    world = group_of_two()
    own, other = partition_of(world, "a"), partition_of(world, "b")
    assert _commit_in_transaction(world, "a", 2, own) is ErrorCode.NONE
    assert _commit_in_transaction(world, "a", 2, other) is ErrorCode.ILLEGAL_GENERATION


def _commit_in_transaction(world: World, member_id: str, epoch: int, partition: int) -> ErrorCode:
    event = e.TxnOffsetCommit(
        group_id="g", member_id=member_id, instance_id=None, generation=epoch,
        offsets=(e.OffsetToCommit("t", partition, 5, -1, ""),),
        producer_id=1, producer_epoch=0,
    )  # fmt: skip
    result = world.send(event)
    assert isinstance(result, e.CommitResult)
    (error,) = result.errors
    return error
