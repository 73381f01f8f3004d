"""DescribeGroups at every version."""

from __future__ import annotations

import pytest

from gateway.handlers.apis import describe_groups
from kwire.messages.describe_groups_request import DescribeGroupsRequest
from tests.gateway.handlers.group_world import SUBSCRIPTION, GroupWorld

NOT_ASKED = -(2**31)


def test_versions_are_kafkas() -> None:
    assert describe_groups.VERSIONS == DescribeGroupsRequest.VERSIONS


@pytest.mark.parametrize("version", describe_groups.VERSIONS)
def test_stable_group_is_described(version: int) -> None:
    world = GroupWorld()
    member_id = world.stable(instance="one")
    (group,) = world.get(describe_groups, version, groups=["g"]).groups
    assert (group.error_code, group.group_id, group.group_state) == (0, "g", "Stable")
    assert (group.protocol_type, group.protocol_data, group.authorized_operations) == (
        "consumer",
        "range",
        NOT_ASKED,
    )
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host) == (
        member_id,
        "test",
        "/127.0.0.1",
    )
    assert member.group_instance_id == ("one" if version >= 4 else None)
    assert (member.member_metadata, member.member_assignment) == (SUBSCRIPTION, b"everything")


@pytest.mark.parametrize("version", describe_groups.VERSIONS)
def test_a_group_that_is_not_settled_shows_no_subscriptions(version: int) -> None:
    world = GroupWorld()
    world.join()
    (group,) = world.get(describe_groups, version, groups=["g"]).groups
    assert (group.group_state, group.protocol_data) == ("CompletingRebalance", "")
    assert [(m.member_metadata, m.member_assignment) for m in group.members] == [(b"", b"")]


@pytest.mark.parametrize("version", describe_groups.VERSIONS)
def test_unknown_group_is_dead_or_an_error(version: int) -> None:
    world = GroupWorld()
    world.commit(5)
    g, nobody = world.get(describe_groups, version, groups=["g", "nobody"]).groups
    assert (g.error_code, g.group_state, g.protocol_type) == (0, "Empty", "")
    assert (nobody.group_id, nobody.group_state, nobody.members) == ("nobody", "Dead", [])
    expected = (69, "Group nobody not found.") if version >= 6 else (0, None)
    assert (nobody.error_code, nobody.error_message) == expected


@pytest.mark.parametrize("version", range(3, 7))
def test_authorized_operations_are_returned_on_request(version: int) -> None:
    world = GroupWorld()
    world.stable()
    world.authorizer.forbidden.add(("DELETE", "GROUP", "g"))
    g, nobody = world.get(
        describe_groups, version, groups=["g", "nobody"], include_authorized_operations=True
    ).groups
    assert g.authorized_operations == 1 << 3 | 1 << 8  # READ, DESCRIBE
    assert nobody.authorized_operations == (NOT_ASKED if version >= 6 else 1 << 3 | 1 << 6 | 1 << 8)


@pytest.mark.parametrize("version", describe_groups.VERSIONS)
def test_group_without_describe_is_refused(version: int) -> None:
    world = GroupWorld()
    world.stable()
    world.authorizer.forbidden.add(("DESCRIBE", "GROUP", "h"))
    groups = world.get(describe_groups, version, groups=["g", "h"]).groups
    assert {g.group_id: (g.error_code, g.group_state) for g in groups} == {
        "g": (0, "Stable"),
        "h": (30, ""),
    }
    (alone,) = world.get(describe_groups, version, groups=["h"]).groups
    assert alone.error_code == 30
    assert world.get(describe_groups, version, groups=[]).groups == []


@pytest.mark.parametrize("version", describe_groups.VERSIONS)
def test_a_group_named_again_and_again_is_described_once(version: int) -> None:
    world = GroupWorld()
    world.stable()
    world.authorizer.forbidden.add(("DESCRIBE", "GROUP", "h"))
    groups = world.get(describe_groups, version, groups=["g", "h"] * 1000).groups
    assert sorted(group.group_id for group in groups) == ["g", "h"]
