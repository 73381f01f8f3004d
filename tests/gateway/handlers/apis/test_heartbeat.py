"""Heartbeat at every version."""

from __future__ import annotations

import pytest

from gateway.handlers.apis import heartbeat, join_group
from gateway.ports.pending_response import PendingResponse
from kwire.messages.heartbeat_request import HeartbeatRequest
from tests.gateway.handlers.group_world import SUBSCRIPTION, GroupWorld


def test_versions_are_kafkas() -> None:
    assert heartbeat.VERSIONS == HeartbeatRequest.VERSIONS


@pytest.mark.parametrize("version", heartbeat.VERSIONS)
def test_heartbeat_reports_a_rebalance_and_refusals(version: int) -> None:
    world = GroupWorld()
    member_id = world.stable()

    def beat(**fields: object) -> int:
        asked = {"group_id": "g", "generation_id": 1, "member_id": member_id, **fields}
        return int(world.get(heartbeat, version, **asked).error_code)

    assert beat() == 0
    assert beat(generation_id=2) == 22
    assert beat(member_id="nobody-1") == 25
    assert beat(group_id="other") == 25
    assert beat(group_id="") == 24
    pending = world.ask(
        join_group, 3, group_id="g", session_timeout_ms=10_000, protocol_type="consumer",
        protocols=[{"name": "range", "metadata": SUBSCRIPTION}],
    )  # fmt: skip
    assert isinstance(pending, PendingResponse)
    assert beat() == 27  # another member joins: a rebalance begins
    world.authorizer.forbidden.add(("READ", "GROUP", "g"))
    assert beat() == 30


@pytest.mark.parametrize("version", range(3, 5))
def test_static_member_is_fenced_by_its_instance_id(version: int) -> None:
    world = GroupWorld()
    old = world.stable(instance="one")
    new = world.join(instance="one").member_id
    for member_id, error in ((old, 82), (new, 0)):
        answer = world.get(
            heartbeat,
            version,
            group_id="g",
            generation_id=1,
            member_id=member_id,
            group_instance_id="one",
        )
        assert answer.error_code == error
