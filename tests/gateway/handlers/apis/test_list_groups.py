"""ListGroups at every version."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.handlers.apis import list_groups
from kwire.messages.list_groups_request import ListGroupsRequest
from tests.gateway.handlers.group_world import GroupWorld


def busy_world() -> GroupWorld:
    world = GroupWorld()
    world.stable()
    world.commit(5, "simple")
    world.join(group_id="waiting")
    return world


def listed(world: GroupWorld, version: int, **fields: Any) -> dict[str, tuple[str, str, str]]:
    answer = world.get(list_groups, version, **fields)
    assert answer.error_code == 0
    return {g.group_id: (g.protocol_type, g.group_state, g.group_type) for g in answer.groups}


def test_versions_are_kafkas() -> None:
    assert list_groups.VERSIONS == ListGroupsRequest.VERSIONS


@pytest.mark.parametrize("version", list_groups.VERSIONS)
def test_every_group(version: int) -> None:
    def shown(protocol: str, state: str) -> tuple[str, str, str]:
        return protocol, state if version >= 4 else "", "classic" if version >= 5 else ""

    assert listed(busy_world(), version) == {
        "g": shown("consumer", "Stable"),
        "simple": shown("", "Empty"),
        "waiting": shown("consumer", "CompletingRebalance"),
    }


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize(
    ("states", "names"),
    [
        (["Stable"], {"g"}),
        (["stable", " EMPTY "], {"g", "simple"}),
        (["Dead"], set()),
        (["nonsense"], set()),
        ([], {"g", "simple", "waiting"}),
    ],
)
def test_by_state(version: int, states: list[str], names: set[str]) -> None:
    assert set(listed(busy_world(), version, states_filter=states)) == names


@pytest.mark.parametrize(
    ("types", "count"),
    [
        (["classic"], 3),
        (["Classic", "consumer"], 3),
        (["consumer"], 0),
        (["share"], 0),
        (["nonsense"], 0),
    ],
)
def test_by_type(types: list[str], count: int) -> None:
    assert len(listed(busy_world(), 5, types_filter=types)) == count


@pytest.mark.parametrize("version", list_groups.VERSIONS)
def test_without_the_right_to_see_the_cluster_only_groups_that_may_be_seen(version: int) -> None:
    world = busy_world()
    world.authorizer.forbidden |= {("DESCRIBE", "CLUSTER", "*"), ("DESCRIBE", "GROUP", "simple")}
    assert set(listed(world, version)) == {"g", "waiting"}
