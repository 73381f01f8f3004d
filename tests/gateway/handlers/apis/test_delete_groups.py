"""DeleteGroups at every version."""

from __future__ import annotations

import pytest

from gateway.handlers.apis import delete_groups
from kwire.messages.delete_groups_request import DeleteGroupsRequest
from tests.gateway.handlers.group_world import GroupWorld


def test_versions_are_kafkas() -> None:
    assert delete_groups.VERSIONS == DeleteGroupsRequest.VERSIONS


@pytest.mark.parametrize("version", delete_groups.VERSIONS)
def test_groups_without_members_are_deleted(version: int) -> None:
    world = GroupWorld()
    world.stable()
    world.commit(5, "simple")
    world.commit(6, "kept")
    world.authorizer.forbidden.add(("DELETE", "GROUP", "kept"))
    answer = world.get(
        delete_groups, version, groups_names=["simple", "g", "nobody", "kept", "simple"]
    )
    results = {r.group_id: (r.error_code, r.error_message) for r in answer.results}
    assert len(answer.results) == 4
    assert {name: error for name, (error, _) in results.items()} == {
        "simple": 0,
        "g": 68,
        "nobody": 69,
        "kept": 30,
    }
    for error, message in results.values():
        assert (message is not None) == (version >= 3 and error != 0)
    assert (world.fetch("simple"), world.fetch("kept")) == ([], [6])
    assert set(world.groups.core.groups) == {"g", "kept"}


@pytest.mark.parametrize("version", delete_groups.VERSIONS)
def test_request_without_allowed_groups_is_answered_at_once(version: int) -> None:
    world = GroupWorld()
    world.authorizer.forbidden.add(("DELETE", "GROUP", "*"))
    assert [
        r.error_code for r in world.get(delete_groups, version, groups_names=["g"]).results
    ] == [30]
    assert world.get(delete_groups, version, groups_names=[]).results == []
    assert world.groups.asked == 0
