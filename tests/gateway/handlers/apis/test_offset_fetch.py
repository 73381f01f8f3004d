"""OffsetFetch at every version."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.handlers.apis import offset_fetch
from kwire.messages.offset_fetch_request import OffsetFetchRequest
from kwire.uuid import METADATA_TOPIC_ID, ZERO_UUID, Uuid
from tests.gateway.handlers.group_world import TOPIC, GroupWorld, topics

OUTSIDER = Uuid(b"\7" * 16)
WITH_NULL = [version for version in offset_fetch.VERSIONS if version >= 2]


def fetch(
    world: GroupWorld, version: int, wanted: list[dict[str, Any]] | None, group_id: str = "g"
) -> Any:
    """The answer for one group, whichever form the version has."""
    if version >= 8:
        (group,) = world.get(
            offset_fetch, version, groups=[{"group_id": group_id, "topics": wanted}]
        ).groups
        assert group.group_id == group_id
        return group
    return world.get(offset_fetch, version, group_id=group_id, topics=wanted)


def lines(answer: Any) -> list[tuple[Any, int, int, str, int]]:
    return [
        (t.name or t.topic_id, p.partition_index, p.committed_offset, p.metadata, p.error_code)
        for t in answer.topics
        for p in t.partitions
    ]


def name(version: int) -> Any:
    return METADATA_TOPIC_ID if version >= 10 else TOPIC


def test_versions_are_kafkas() -> None:
    assert offset_fetch.VERSIONS == OffsetFetchRequest.VERSIONS


@pytest.mark.parametrize("version", offset_fetch.VERSIONS)
def test_what_was_committed_and_what_was_not(version: int) -> None:
    world = GroupWorld()
    world.commit(5)
    answer = fetch(world, version, topics(version, 10, partition_indexes=[1, 0]))
    assert answer.error_code == 0
    assert lines(answer) == [(name(version), 1, -1, "", 0), (name(version), 0, 5, "m", 0)]
    assert [p.committed_leader_epoch for t in answer.topics for p in t.partitions] == [-1, -1]


@pytest.mark.parametrize("version", offset_fetch.VERSIONS)
def test_a_group_that_is_not_there_has_committed_nothing(version: int) -> None:
    answer = fetch(GroupWorld(), version, topics(version, 10, partition_indexes=[0]))
    assert (answer.error_code, lines(answer)) == (0, [(name(version), 0, -1, "", 0)])


@pytest.mark.parametrize("version", WITH_NULL)
def test_fetch_of_all_topics_returns_those_that_may_be_described(version: int) -> None:
    world = GroupWorld()
    world.commit(5)
    assert lines(fetch(world, version, None)) == [(name(version), 0, 5, "m", 0)]
    assert lines(fetch(world, version, None, "other")) == []
    assert lines(fetch(world, version, [])) == []
    world.authorizer.forbidden.add(("DESCRIBE", "TOPIC", TOPIC))
    assert lines(fetch(world, version, None)) == []


@pytest.mark.parametrize("version", range(7, 11))
def test_stable_offsets_are_all_committed_offsets(version: int) -> None:
    world = GroupWorld()
    world.commit(5)
    groups: Any = (
        {"groups": [{"group_id": "g", "topics": None}]}
        if version >= 8
        else {"group_id": "g", "topics": None}
    )
    answer = world.get(offset_fetch, version, require_stable=True, **groups)
    found = answer.groups[0] if version >= 8 else answer
    assert lines(found) == [(name(version), 0, 5, "m", 0)]


@pytest.mark.parametrize("version", range(1, 10))
def test_topics_that_do_not_exist_by_name(version: int) -> None:
    answer = fetch(GroupWorld(), version, [{"name": "other", "partition_indexes": [0]}])
    assert lines(answer) == [("other", 0, -1, "", 0)]


def test_topics_that_do_not_exist_by_id() -> None:
    world = GroupWorld()
    world.commit(5)
    wanted = [
        {"topic_id": i, "partition_indexes": [0]} for i in (OUTSIDER, METADATA_TOPIC_ID, ZERO_UUID)
    ]
    assert [(error, offset) for _, _, offset, _, error in lines(fetch(world, 10, wanted))] == [
        (100, -1),
        (0, 5),
        (100, -1),
    ]


@pytest.mark.parametrize("version", range(8, 11))
def test_many_groups(version: int) -> None:
    world = GroupWorld()
    for group_id, offset in (("a", 1), ("b", 2), ("c", 3)):
        world.commit(offset, group_id)
    world.authorizer.forbidden.add(("DESCRIBE", "GROUP", "b"))
    wanted = topics(version, 10, partition_indexes=[0])
    asked = [
        {"group_id": group_id, "topics": t}
        for group_id, t in (("a", None), ("b", wanted), ("c", wanted), ("d", None))
    ]
    answer = world.get(offset_fetch, version, groups=asked)
    assert [
        (g.group_id, g.error_code, [offset for _, _, offset, _, _ in lines(g)])
        for g in answer.groups
    ] == [
        ("a", 0, [1]),
        ("b", 30, []),
        ("c", 0, [3]),
        ("d", 0, []),
    ]


@pytest.mark.parametrize("version", offset_fetch.VERSIONS)
def test_not_authorized(version: int) -> None:
    world = GroupWorld()
    world.commit(5)
    wanted = topics(version, 10, partition_indexes=[0])
    world.authorizer.forbidden.add(("DESCRIBE", "TOPIC", TOPIC))
    answer = fetch(world, version, wanted)
    assert (answer.error_code, lines(answer)) == (0, [(name(version), 0, -1, "", 29)])
    world.authorizer.forbidden.add(("DESCRIBE", "GROUP", "g"))
    answer = fetch(world, version, wanted)
    # Version 1 has no place for an error of the whole.
    expected = (0, [(TOPIC, 0, -1, "", 30)]) if version == 1 else (30, [])
    assert (answer.error_code, lines(answer)) == expected


@pytest.mark.parametrize("version", offset_fetch.VERSIONS)
def test_the_same_again_and_again_is_answered_once(version: int) -> None:
    world = GroupWorld()
    world.commit(5)
    wanted = topics(version, 10, partition_indexes=[0] * 1000) * 2
    assert lines(fetch(world, version, wanted)) == [(name(version), 0, 5, "m", 0)]
    if version >= 8:
        groups = world.get(
            offset_fetch, version, groups=[{"group_id": "g", "topics": None}] * 3
        ).groups
        assert [(group.error_code, len(group.topics)) for group in groups] == [
            (0, 1),
            (42, 0),
            (42, 0),
        ]
