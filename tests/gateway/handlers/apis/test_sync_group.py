"""SyncGroup at every version."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.handlers.apis import heartbeat, sync_group
from kwire.messages.sync_group_request import SyncGroupRequest
from tests.gateway.handlers.group_world import GroupWorld


def sync(world: GroupWorld, version: int, member_id: str, **fields: Any) -> Any:
    if version >= 5:
        fields = {"protocol_type": "consumer", "protocol_name": "range", **fields}
    return world.get(
        sync_group,
        version,
        **{"group_id": "g", "generation_id": 1, "member_id": member_id, **fields},
    )


def test_versions_are_kafkas() -> None:
    assert sync_group.VERSIONS == SyncGroupRequest.VERSIONS


@pytest.mark.parametrize("version", sync_group.VERSIONS)
def test_the_leaders_assignment_makes_the_group_stable(version: int) -> None:
    world = GroupWorld()
    member_id = world.join().member_id
    answer = sync(
        world,
        version,
        member_id,
        assignments=[{"member_id": member_id, "assignment": b"all of it"}],
    )
    assert (answer.error_code, answer.assignment) == (0, b"all of it")
    expected = ("consumer", "range") if version >= 5 else (None, None)
    assert (answer.protocol_type, answer.protocol_name) == expected
    assert (
        world.get(heartbeat, 4, group_id="g", generation_id=1, member_id=member_id).error_code == 0
    )


@pytest.mark.parametrize("version", sync_group.VERSIONS)
def test_invalid_sync_is_refused(version: int) -> None:
    world = GroupWorld()
    member_id = world.join().member_id
    assert sync(world, version, "nobody-1").error_code == 25
    assert sync(world, version, member_id, group_id="").error_code == 24
    assert sync(world, version, member_id, group_id="other").error_code == 25
    answer = sync(world, version, member_id, generation_id=2)
    assert (answer.error_code, answer.assignment) == (22, b"")
    world.authorizer.forbidden.add(("READ", "GROUP", "g"))
    assert sync(world, version, member_id).error_code == 30


@pytest.mark.parametrize(
    "fields", [{"protocol_type": None}, {"protocol_name": None}, {"protocol_name": "sticky"}]
)
def test_from_version_5_the_protocol_must_be_said_and_be_right(fields: dict[str, Any]) -> None:
    world = GroupWorld()
    assert sync(world, 5, world.join().member_id, **fields).error_code == 23


@pytest.mark.parametrize("version", range(3, 6))
def test_static_member_is_fenced_by_its_instance_id(version: int) -> None:
    world = GroupWorld()
    old = world.stable(instance="one")
    world.join(instance="one")
    assert sync(world, version, old, group_instance_id="one").error_code == 82
