"""ACL requests through the active controller with an authorizer that reads ACLs, and over an
observed cluster.
"""

from __future__ import annotations

from typing import Any

import pytest

from gateway.handlers.apis import describe_acls
from kwire.messages.access_control_entry_record import AccessControlEntryRecord
from kwire.protocol import ErrorCode
from kwire.uuid import Uuid
from tests.gateway.handlers.admin_handlers import create_acls, delete_acls
from tests.gateway.handlers.own_world import OwnWorld
from tests.gateway.handlers.world import MemoryQuorum, World

TOPIC, GROUP = 2, 3
LITERAL, PREFIXED = 3, 4
ACL = {
    "resource_type": TOPIC,
    "resource_name": "orders",
    "resource_pattern_type": LITERAL,
    "principal": "User:ann",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
ALL: dict[str, Any] = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


def world_with_acls() -> OwnWorld:
    world = OwnWorld()
    world.authorizer.keeps_acls = True
    return world


def told(
    world: World, version: int = 3, **filters: Any
) -> list[tuple[str, int, list[tuple[str, int]]]]:
    answer = world.ask(describe_acls, version, **{**ALL, **filters})
    assert answer.error_code == 0
    return [
        (one.resource_name, one.pattern_type, [(acl.principal, acl.operation) for acl in one.acls])
        for one in answer.resources
    ]


@pytest.mark.parametrize("version", create_acls.versions)
def test_acls_are_created_described_and_deleted(version: int) -> None:
    world = world_with_acls()
    more = [
        ACL,
        {**ACL, "operation": 4},
        {**ACL, "resource_name": "or", "resource_pattern_type": PREFIXED},
    ]
    answer = world.ask(create_acls, version, creations=[*more, {**ACL, "resource_name": ""}])
    assert [one.error_code for one in answer.results] == [0, 0, 0, ErrorCode.INVALID_REQUEST]
    assert told(world, version) == [
        ("or", PREFIXED, [("User:ann", 3)]),
        ("orders", LITERAL, [("User:ann", 3), ("User:ann", 4)]),
    ]
    assert told(world, version, operation=4) == [("orders", LITERAL, [("User:ann", 4)])]
    (result,) = world.ask(delete_acls, version, filters=[{**ALL, "operation": 3}]).filter_results
    assert sorted(acl.resource_name for acl in result.matching_acls) == ["or", "orders"]
    assert told(world, version) == [("orders", LITERAL, [("User:ann", 4)])]


def test_acl_requests_without_an_authorizer_are_refused() -> None:
    world = OwnWorld()
    (result,) = world.ask(create_acls, 3, creations=[ACL]).results
    assert (
        result.error_code == ErrorCode.SECURITY_DISABLED
        and "authorizer.class.name" in result.error_message
    )
    (result,) = world.ask(delete_acls, 3, filters=[ALL]).filter_results
    assert result.error_code == ErrorCode.SECURITY_DISABLED
    assert world.ask(describe_acls, 3, **ALL).error_code == ErrorCode.SECURITY_DISABLED
    assert not world.quorum_image.acls and not world.controller.askers


def test_acls_of_an_observed_cluster_are_described() -> None:
    world = World(quorum=MemoryQuorum())
    record = AccessControlEntryRecord(
        id=Uuid(b"\x01" * 16),
        resource_type=GROUP,
        resource_name="g",
        pattern_type=LITERAL,
        principal="User:bob",
        host="*",
        operation=3,
        permission_type=2,
    )
    world.quorum_image.acls[record.id] = record
    world.quorum_image.acls[Uuid(b"\x02" * 16)] = record.copy(id=Uuid(b"\x02" * 16))
    assert told(world) == [("g", LITERAL, [("User:bob", 3)])], "the same twice is told once"


def test_describe_needs_describe_on_the_cluster() -> None:
    world = world_with_acls()
    world.authorizer.forbidden = {("DESCRIBE", "CLUSTER", "*"), ("ALTER", "CLUSTER", "*")}
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert world.ask(describe_acls, 3, **ALL).error_code == denied
    assert [one.error_code for one in world.ask(create_acls, 3, creations=[ACL]).results] == [
        denied
    ]
    assert [one.error_code for one in world.ask(delete_acls, 3, filters=[ALL]).filter_results] == [
        denied
    ]


@pytest.mark.parametrize(
    "name", ["resource_type_filter", "pattern_type_filter", "operation", "permission_type"]
)
def test_filter_with_unknown_is_refused(name: str) -> None:
    answer = world_with_acls().ask(describe_acls, 3, **{**ALL, name: 0})
    assert (answer.error_code, answer.resources) == (ErrorCode.INVALID_REQUEST, [])
    assert "UNKNOWN" in answer.error_message


def test_controller_listener_serves_acl_requests() -> None:
    world = world_with_acls()
    assert (
        world.ask(create_acls, 3, listener="CONTROLLER", creations=[ACL]).results[0].error_code == 0
    )
    assert len(world.ask(describe_acls, 3, listener="CONTROLLER", **ALL).resources) == 1
