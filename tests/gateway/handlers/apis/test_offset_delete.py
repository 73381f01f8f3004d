"""OffsetDelete at every version."""

from __future__ import annotations

from typing import Any

from gateway.handlers.apis import leave_group, offset_delete
from kwire.messages.offset_delete_request import OffsetDeleteRequest
from tests.gateway.handlers.group_world import TOPIC, GroupWorld

ONE: dict[str, Any] = {TOPIC: [0]}


def delete(world: GroupWorld, group_id: str = "g", **topics: Any) -> Any:
    asked = [
        {"name": n, "partitions": [{"partition_index": i} for i in indexes]}
        for n, indexes in topics.items()
    ]
    return world.get(offset_delete, 0, group_id=group_id, topics=asked)


def errors(answer: Any) -> list[tuple[str, int, int]]:
    assert answer.error_code == 0
    return [(t.name, p.partition_index, p.error_code) for t in answer.topics for p in t.partitions]


def test_versions_are_kafkas() -> None:
    assert offset_delete.VERSIONS == OffsetDeleteRequest.VERSIONS


def test_offsets_are_forgotten() -> None:
    world = GroupWorld()
    world.commit(5)
    asked: dict[str, Any] = {TOPIC: [0, 1, 0], "other": [0]}
    assert errors(delete(world, **asked)) == [(TOPIC, 0, 0), (TOPIC, 1, 3), ("other", 0, 3)]
    assert world.fetch() == []


def test_not_while_the_group_reads_the_topic() -> None:
    world = GroupWorld()
    member_id = world.stable()
    world.commit(5, generation_id_or_member_epoch=1, member_id=member_id)
    assert errors(delete(world, **ONE)) == [(TOPIC, 0, 86)]
    assert world.fetch() == [5]
    world.get(leave_group, 5, group_id="g", members=[{"member_id": member_id}])
    assert errors(delete(world, **ONE)) == [(TOPIC, 0, 0)]


def test_refusals_of_the_whole() -> None:
    world = GroupWorld()
    for group_id, error in (("nobody", 69), ("", 24)):
        answer = delete(world, group_id, **{TOPIC: [0]})
        assert (answer.error_code, answer.topics) == (error, [])
    world.join(group_id="busy", protocol_type="connect")
    assert delete(world, "busy", **{TOPIC: [0]}).error_code == 68
    world.authorizer.forbidden.add(("DELETE", "GROUP", "busy"))
    assert delete(world, "busy", **{TOPIC: [0]}).error_code == 30


def test_not_authorized_for_the_topic() -> None:
    world = GroupWorld()
    world.commit(5)
    world.authorizer.forbidden.add(("READ", "TOPIC", TOPIC))
    assert errors(delete(world, **ONE)) == [(TOPIC, 0, 29)]
    assert world.fetch() == [5]
