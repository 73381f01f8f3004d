"""LeaveGroup at every version."""

from __future__ import annotations

import pytest

from gateway.handlers.apis import leave_group
from kwire.messages.leave_group_request import LeaveGroupRequest
from tests.gateway.handlers.group_world import GroupWorld


def test_versions_are_kafkas() -> None:
    assert leave_group.VERSIONS == LeaveGroupRequest.VERSIONS


@pytest.mark.parametrize("version", range(3))
def test_member_leaves_its_group(version: int) -> None:
    world = GroupWorld()
    member_id = world.stable()
    assert world.get(leave_group, version, group_id="g", member_id="nobody-1").error_code == 25
    assert world.get(leave_group, version, group_id="other", member_id=member_id).error_code == 25
    assert world.get(leave_group, version, group_id="", member_id=member_id).error_code == 24
    assert world.get(leave_group, version, group_id="g", member_id=member_id).error_code == 0
    assert world.groups.core.groups["g"].members == {}


@pytest.mark.parametrize("version", range(3, 6))
def test_many_members(version: int) -> None:
    world = GroupWorld()
    member_id = world.stable(instance="one")
    leavers = [
        {"member_id": "nobody-1"},
        {"member_id": "", "group_instance_id": "two"},
        {"member_id": "stale-1", "group_instance_id": "one"},
        {"member_id": "", "group_instance_id": "one"},
        {"member_id": member_id},
    ]
    answer = world.get(leave_group, version, group_id="g", members=leavers)
    assert answer.error_code == 0
    assert [(m.member_id, m.group_instance_id, m.error_code) for m in answer.members] == [
        ("nobody-1", None, 25),
        ("", "two", 25),
        ("stale-1", "one", 82),
        ("", "one", 0),
        (member_id, None, 25),
    ]
    answer = world.get(leave_group, version, group_id="", members=leavers)
    assert (answer.error_code, answer.members) == (24, [])
    assert world.get(leave_group, version, group_id="g", members=[]).members == []


@pytest.mark.parametrize("version", leave_group.VERSIONS)
def test_not_authorized(version: int) -> None:
    world = GroupWorld()
    world.authorizer.forbidden.add(("READ", "GROUP", "g"))
    assert world.get(leave_group, version, group_id="g").error_code == 30
