"""FindCoordinator at every version."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.handlers.apis import find_coordinator
from kwire.messages.find_coordinator_request import FindCoordinatorRequest
from tests.gateway.handlers.group_world import GroupWorld


def find(world: GroupWorld, version: int, key_type: int = 0, listener: str = "PLAINTEXT") -> Any:
    keys: dict[str, Any] = {"coordinator_keys": ["g"]} if version >= 4 else {"key": "g"}
    if version >= 1:
        keys["key_type"] = key_type
    answer = world.ask(find_coordinator, version, listener=listener, **keys)
    return answer.coordinators[0] if version >= 4 else answer


def test_versions_are_kafkas() -> None:
    assert find_coordinator.VERSIONS == FindCoordinatorRequest.VERSIONS


@pytest.mark.parametrize("version", find_coordinator.VERSIONS)
def test_this_node_by_the_listener_that_the_client_came_by(version: int) -> None:
    for listener, port in (("PLAINTEXT", 9092), ("EXTERNAL", 19092)):
        node = find(GroupWorld(), version, listener=listener)
        assert (node.error_code, node.node_id, node.host, node.port) == (
            0,
            7,
            "gateway.example",
            port,
        )


@pytest.mark.parametrize("version", range(4, 7))
def test_every_key_of_a_batch_is_answered(version: int) -> None:
    world = GroupWorld()
    world.authorizer.forbidden.add(("DESCRIBE", "GROUP", "b"))
    answer = world.ask(find_coordinator, version, coordinator_keys=["a", "b", ""])
    assert [(c.key, c.error_code, c.node_id, c.port) for c in answer.coordinators] == [
        ("a", 0, 7, 9092),
        ("b", 30, -1, -1),
        ("", 0, 7, 9092),
    ]
    assert world.ask(find_coordinator, version, coordinator_keys=[]).coordinators == []


@pytest.mark.parametrize("version", range(1, 7))
@pytest.mark.parametrize(
    ("key_type", "word"), [(1, "transactions"), (2, "share groups"), (3, "type 3"), (-1, "type -1")]
)
def test_transactions_and_share_groups_have_no_coordinator(
    version: int, key_type: int, word: str
) -> None:
    node = find(GroupWorld(), version, key_type)
    assert (node.error_code, node.node_id, node.host, node.port) == (42, -1, "", -1)
    assert word in node.error_message


@pytest.mark.parametrize("version", find_coordinator.VERSIONS)
def test_key_without_describe_is_refused(version: int) -> None:
    world = GroupWorld()
    world.authorizer.forbidden.add(("DESCRIBE", "GROUP", "g"))
    assert find(world, version).error_code == 30
