"""JoinGroup at every version."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.handlers.apis import join_group
from gateway.ports.pending_response import PendingResponse
from kwire.messages.join_group_request import JoinGroupRequest
from tests.gateway.handlers.group_world import SUBSCRIPTION, GroupWorld, given

REQUEST: dict[str, Any] = {
    "group_id": "g",
    "session_timeout_ms": 10_000,
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
}


def test_versions_are_kafkas() -> None:
    assert join_group.VERSIONS == JoinGroupRequest.VERSIONS


@pytest.mark.parametrize("version", join_group.VERSIONS)
def test_a_new_member_leads(version: int) -> None:
    world = GroupWorld()
    first = world.get(join_group, version, **REQUEST)
    if version >= 4:
        # KIP-394: first its id.
        assert (first.error_code, first.generation_id, first.leader, first.members) == (
            79,
            -1,
            "",
            [],
        )
        assert first.protocol_name == (None if version >= 7 else "")
        first = world.get(join_group, version, member_id=first.member_id, **REQUEST)
    assert (first.error_code, first.generation_id, first.protocol_name) == (0, 1, "range")
    assert first.member_id.startswith("test-") and first.leader == first.member_id
    assert first.protocol_type == ("consumer" if version >= 7 else None)
    assert [(m.member_id, m.metadata) for m in first.members] == [(first.member_id, SUBSCRIPTION)]
    member = world.groups.core.groups["g"].members[first.member_id]
    assert (member.client_id, member.client_host) == ("test", "/127.0.0.1")


def test_missing_rebalance_timeout_is_the_session_timeout() -> None:
    cases: list[tuple[int, dict[str, Any], int]] = [
        (0, {}, 10_000),
        (1, {"rebalance_timeout_ms": 25_000}, 25_000),
        (9, {}, 10_000),
    ]
    for version, more, expected in cases:
        world = GroupWorld()
        answer = world.join(version, **more)
        assert (
            world.groups.core.groups["g"].members[answer.member_id].rebalance_timeout_ms == expected
        )


@pytest.mark.parametrize("version", range(5, 10))
def test_static_members_keep_their_assignment(version: int) -> None:
    world = GroupWorld()
    old = world.stable(instance="one")
    again = world.join(version, instance="one")
    assert (again.error_code, again.generation_id) == (0, 1)
    assert again.member_id.startswith("one-") and again.member_id != old
    # KIP-814: a leader is told to skip the assignment, and by older versions that it follows.
    assert again.skip_assignment == (version >= 9)
    assert again.leader == (again.member_id if version >= 9 else old)
    assert [m.group_instance_id for m in again.members] == (["one"] if version >= 9 else [])


@pytest.mark.parametrize("version", join_group.VERSIONS)
def test_the_answer_waits_for_the_others(version: int) -> None:
    world = GroupWorld()
    leader = world.stable()
    pending = world.ask(join_group, version, **REQUEST)
    assert isinstance(pending, PendingResponse)
    if version >= 4:
        pending = world.ask(
            join_group, version, member_id=given(pending, version).member_id, **REQUEST
        )
    assert given(pending, version) is None
    got: list[Any] = []
    pending.attach(got.append)
    assert world.join(member_id=leader).generation_id == 2
    assert (got[0].generation_id, got[0].leader, got[0].members) == (2, leader, [])


def test_closed_connection_does_not_stop_the_group() -> None:
    world = GroupWorld()
    leader = world.stable()
    pending = world.ask(join_group, 3, **REQUEST)
    pending.cancel()
    assert len(world.join(member_id=leader).members) == 2


@pytest.mark.parametrize("version", join_group.VERSIONS)
@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"group_id": ""}, 24),
        ({"session_timeout_ms": 5999}, 26),
        ({"session_timeout_ms": 1_800_001}, 26),
        ({"member_id": "nobody-1"}, 25),
        ({"protocols": []}, 23),
        ({"protocol_type": ""}, 23),
    ],
)
def test_invalid_join_is_refused(version: int, change: dict[str, Any], error: int) -> None:
    answer = GroupWorld().get(join_group, version, **(REQUEST | change))
    assert (answer.error_code, answer.generation_id, answer.member_id) == (
        error,
        -1,
        change.get("member_id", ""),
    )


@pytest.mark.parametrize("version", join_group.VERSIONS)
def test_join_without_read_is_refused(version: int) -> None:
    world = GroupWorld()
    world.authorizer.forbidden.add(("READ", "GROUP", "g"))
    assert world.get(join_group, version, **REQUEST).error_code == 30
    assert world.groups.asked == 0


def test_repeated_protocol_counts_once_with_its_first_metadata() -> None:
    protocols = [
        {"name": n, "metadata": m} for n, m in (("range", b"1"), ("sticky", b"2"), ("range", b"3"))
    ]
    world = GroupWorld()
    answer = world.join(protocols=protocols)
    assert answer.members[0].metadata == b"1"
    assert [p.name for p in world.groups.core.groups["g"].members[answer.member_id].protocols] == [
        "range",
        "sticky",
    ]
