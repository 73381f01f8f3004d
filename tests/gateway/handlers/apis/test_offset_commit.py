"""OffsetCommit at every version."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.groups.events import Committed
from gateway.handlers.apis import offset_commit
from kwire.messages.offset_commit_request import OffsetCommitRequest
from kwire.uuid import METADATA_TOPIC_ID, ZERO_UUID, Uuid
from tests.gateway.handlers.group_world import TOPIC, WALL_MS, GroupWorld, topics

OUTSIDER = Uuid(b"\7" * 16)


def commit(
    world: GroupWorld, version: int, *partitions: dict[str, Any], **fields: Any
) -> list[tuple[int, int]]:
    """(partition, error) of each partition of the metadata topic."""
    said = list(partitions) or [
        {"partition_index": 0, "committed_offset": 5, "committed_metadata": "m"}
    ]
    asked = {"group_id": "g", "topics": topics(version, 10, partitions=said), **fields}
    (topic,) = world.get(offset_commit, version, **asked).topics
    assert (topic.name, topic.topic_id) == (
        (TOPIC, ZERO_UUID) if version < 10 else ("", METADATA_TOPIC_ID)
    )
    return [(p.partition_index, p.error_code) for p in topic.partitions]


def test_versions_are_kafkas() -> None:
    assert offset_commit.VERSIONS == OffsetCommitRequest.VERSIONS


@pytest.mark.parametrize("version", offset_commit.VERSIONS)
def test_without_a_generation(version: int) -> None:
    world = GroupWorld()
    epoch = {"committed_leader_epoch": 3} if version >= 6 else {}
    said = {"partition_index": 0, "committed_offset": 5, "committed_metadata": "me", **epoch}
    assert commit(world, version, said) == [(0, 0)]
    expected = Committed(
        5, 3 if version >= 6 else -1, "me", WALL_MS, owner="User:ANONYMOUS@127.0.0.1"
    )
    assert world.groups.core.groups["g"].offsets == {(TOPIC, 0): expected}


@pytest.mark.parametrize("version", range(2, 5))
def test_versions_2_to_4_say_how_long_it_is_kept(version: int) -> None:
    world = GroupWorld()
    assert commit(world, version, retention_time_ms=1000) == [(0, 0)]
    assert world.groups.core.groups["g"].offsets[(TOPIC, 0)].expire_timestamp == WALL_MS + 1000


@pytest.mark.parametrize("version", offset_commit.VERSIONS)
def test_null_metadata_is_the_empty_string(version: int) -> None:
    world = GroupWorld()
    assert commit(
        world, version, {"partition_index": 0, "committed_offset": 5, "committed_metadata": None}
    ) == [(0, 0)]
    assert world.groups.core.groups["g"].offsets[(TOPIC, 0)].metadata == ""


@pytest.mark.parametrize("version", offset_commit.VERSIONS)
def test_of_a_generation(version: int) -> None:
    world = GroupWorld()
    missing = 69 if version >= 9 else 22
    assert commit(world, version, generation_id_or_member_epoch=1, member_id="a") == [(0, missing)]
    member_id = world.stable()
    assert commit(world, version, generation_id_or_member_epoch=1, member_id=member_id) == [(0, 0)]
    assert commit(world, version, generation_id_or_member_epoch=2, member_id=member_id) == [(0, 22)]
    assert commit(world, version, generation_id_or_member_epoch=1, member_id="nobody-1") == [
        (0, 25)
    ]
    assert commit(world, version) == [(0, 25)]  # without a generation, while there are members


@pytest.mark.parametrize("version", offset_commit.VERSIONS)
def test_each_partition_has_its_own_error(version: int) -> None:
    world = GroupWorld()
    partitions: list[dict[str, Any]] = [
        {"partition_index": 1, "committed_offset": 1},
        {"partition_index": 0, "committed_offset": 2, "committed_metadata": "x" * 4097},
        {"partition_index": 0, "committed_offset": 3, "committed_metadata": "x" * 4096},
        {"partition_index": -1, "committed_offset": 4},
    ]
    assert commit(world, version, *partitions) == [(1, 3), (0, 12), (0, 0), (-1, 3)]
    assert world.fetch() == [3]


@pytest.mark.parametrize("version", offset_commit.VERSIONS)
def test_unknown_topics(version: int) -> None:
    world = GroupWorld()
    partition = {"partition_index": 0, "committed_offset": 1}
    names: Any = (
        ({"topic_id": OUTSIDER}, {"topic_id": METADATA_TOPIC_ID})
        if version >= 10
        else ({"name": "other"}, {"name": TOPIC})
    )
    asked = [{**name, "partitions": [partition]} for name in names]
    answer = world.get(offset_commit, version, group_id="g", topics=asked)
    assert [t.partitions[0].error_code for t in answer.topics] == [100 if version >= 10 else 3, 0]
    assert [t.topic_id if version >= 10 else t.name for t in answer.topics] == [
        next(iter(name.values())) for name in names
    ]
    # Nothing left to commit: the coordinator is not asked, no group is made.
    world = GroupWorld()
    assert len(world.get(offset_commit, version, group_id="g", topics=asked[:1]).topics) == 1
    assert world.groups.asked == 0


@pytest.mark.parametrize("version", offset_commit.VERSIONS)
def test_not_authorized(version: int) -> None:
    world = GroupWorld()
    world.authorizer.forbidden.add(("READ", "TOPIC", TOPIC))
    assert commit(world, version) == [(0, 29)]
    world.authorizer.forbidden.add(("READ", "GROUP", "g"))
    assert commit(world, version) == [(0, 30)]
    assert world.groups.asked == 0


@pytest.mark.parametrize("version", range(7, 11))
def test_an_instance_fences(version: int) -> None:
    world = GroupWorld()
    old = world.stable(instance="one")
    new = world.join(instance="one").member_id
    for member_id, error in ((old, 82), (new, 0)):
        fields = {
            "generation_id_or_member_epoch": 1,
            "member_id": member_id,
            "group_instance_id": "one",
        }
        assert commit(world, version, **fields) == [(0, error)]
