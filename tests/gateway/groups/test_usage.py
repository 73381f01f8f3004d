"""Limits on what groups hold: each is crossed, names itself, and leaves others what they need;
deletion gives memory back.
"""

from __future__ import annotations

from typing import Any

import pytest

from gateway.groups import Answer, Settings
from gateway.groups import events as e
from kwire.protocol import ErrorCode
from tests.gateway.groups.script import Script

KIB = 1024


def commit(
    script: Script, owner: str, group: str, partitions: int, metadata: int = 4000, first: int = 0
) -> ErrorCode:
    """The error of one OffsetCommit of ``partitions``, each with metadata of ``size``."""
    offsets = tuple(
        e.OffsetToCommit("t", first + i, i, -1, "m" * metadata) for i in range(partitions)
    )
    event = e.OffsetCommit(
        group_id=group,
        member_id="",
        instance_id=None,
        generation=-1,
        retention_ms=-1,
        offsets=offsets,
        knows_group_id_not_found=True,
        owner=owner,
    )
    effects = script.core.handle(event, owner, script.moment())
    (error,) = {
        error
        for effect in effects
        if isinstance(effect, Answer) and isinstance(effect.result, e.CommitResult)
        for error in effect.result.errors
    }
    script._effects(effects)
    return ErrorCode(error)


def join(script: Script, owner: str, group: str, metadata: int) -> str:
    """The error of a JoinGroup of a new member with so many bytes of metadata."""
    answer, *_ = script.command(
        f"join {owner} v=3 group={group} owner={owner} meta={'m' * metadata}"
    )
    return "NONE" if "gen=" in answer else answer.split()[2]


def test_offsets_of_one_group_and_principal_leave_room_for_all_others() -> None:
    script = Script()
    errors = [commit(script, "alice", "a", 300, first=300 * i) for i in range(10)]
    assert errors[0] is ErrorCode.NONE and errors[-1] is ErrorCode.POLICY_VIOLATION
    assert script.exceeded[-1] == ("groups.bytes.max.per.group", "alice")
    for i in range(20):
        commit(script, "alice", f"more-{i}", 300)
    assert script.exceeded[-1] == ("groups.bytes.max.per.principal", "alice")
    assert (
        script.core.usage.of("alice").offset_bytes
        <= Settings().bytes_max_per_principal + 21 * 8 * KIB
    )
    # Other principals commit and join as before, in large groups. alice has a reserve in every
    # group, so she can continue to commit.
    assert commit(script, "bob", "b", 300) is ErrorCode.NONE
    assert join(script, "bob", "c", 100_000) == "NONE"
    assert join(script, "alice", "d", 100_000) == "NONE"
    assert commit(script, "alice", "e", 1) is ErrorCode.NONE
    assert commit(script, "alice", "more-0", 300) is ErrorCode.NONE


def test_members_of_one_principal_leave_room_for_all_others() -> None:
    script = Script()
    errors = [join(script, "alice", f"g{i}", 1_700_000) for i in range(38)]
    assert errors.count("NONE") == 9 and errors[-1] == "GROUP_MAX_SIZE_REACHED"
    assert script.exceeded[-1] == ("groups.bytes.max.per.principal", "alice")
    assert join(script, "bob", "b", 1_700_000) == "NONE"
    assert commit(script, "alice", "c", 300) is ErrorCode.NONE
    assert join(script, "alice", "small", 100) == "NONE"


def test_many_principals_fill_everything_and_small_groups_go_on() -> None:
    script = Script()
    for i in range(6):
        for j in range(5):
            commit(script, f"user{i}", f"g{i}-{j}", 400)
            join(script, f"user{i}", f"m{i}-{j}", 3_300_000)
    assert {limit for limit, _ in script.exceeded} >= {"groups.bytes.max"}
    assert commit(script, "bob", "large", 300) is ErrorCode.POLICY_VIOLATION
    assert join(script, "bob", "large", 2_000_000) == "GROUP_MAX_SIZE_REACHED"
    assert commit(script, "bob", "b", 10, metadata=10) is ErrorCode.NONE
    assert join(script, "bob", "c", 1000) == "NONE"
    assert "large" not in script.core.groups


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        ({"groups_max": 2}, "groups.max"),
        ({"groups_max_per_principal": 2}, "groups.max.per.principal"),
    ],
)
def test_numbers_of_groups(settings: dict[str, Any], limit: str) -> None:
    script = Script(**settings)
    assert [commit(script, "alice", f"g{i}", 1) for i in range(3)] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.POLICY_VIOLATION,
    ]
    assert join(script, "alice", "h", 1) == "GROUP_MAX_SIZE_REACHED"
    assert script.exceeded == [(limit, "alice")] * 2
    assert commit(script, "bob", "b", 1) is (
        ErrorCode.POLICY_VIOLATION if limit == "groups.max" else ErrorCode.NONE
    )
    script.command("delete x group=g0")
    script.command("delete x group=b")
    assert commit(script, "alice", "g2", 1) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        ({"members_max": 2}, "groups.members.max"),
        ({"members_max_per_principal": 2}, "groups.members.max.per.principal"),
    ],
)
def test_numbers_of_members(settings: dict[str, Any], limit: str) -> None:
    script = Script(bytes_reserved_per_group=0, **settings)
    assert [join(script, "alice", f"g{i}", 1) for i in range(3)] == [
        "NONE",
        "NONE",
        "GROUP_MAX_SIZE_REACHED",
    ]
    assert script.exceeded == [(limit, "alice")]
    assert join(script, "bob", "b", 1) == (
        "GROUP_MAX_SIZE_REACHED" if limit == "groups.members.max" else "NONE"
    )


def test_pending_member_id_is_charged_to_its_requester() -> None:
    script = Script(members_max_per_principal=3, bytes_reserved_per_group=0)
    commit(script, "bob", "b", 1)
    answers = [script.command("join m group=b owner=mallory")[0] for _ in range(4)]
    assert [answer.split()[2] for answer in answers] == ["MEMBER_ID_REQUIRED"] * 3 + [
        "GROUP_MAX_SIZE_REACHED"
    ]
    assert script.core.usage.of("bob").members == 0 and script.core.usage.of("mallory").members == 3


def test_offset_is_charged_to_the_principal_that_enlarged_it_also_after_a_restart() -> None:
    script = Script()
    commit(script, "bob", "b", 10, metadata=0)
    before = script.core.usage.of("bob").offset_bytes
    assert commit(script, "mallory", "b", 10, metadata=4000) is ErrorCode.NONE
    assert (before > 0, script.core.usage.of("bob").offset_bytes) == (True, 0)
    held = script.core.usage.of("mallory").offset_bytes
    assert held > 80_000
    script.command("restart")
    assert script.core.usage.of("mallory").offset_bytes == held
    assert script.core.groups["b"].owner == "mallory"


def test_everything_is_given_back_when_groups_are_deleted_and_members_leave() -> None:
    script = Script()
    commit(script, "alice", "a", 300)
    join(script, "alice", "b", 5000)
    script.command("leave x group=b id=alice-1")
    script.command("delete x group=a,b")
    assert (
        script.core.groups == {}
        and script.core.usage.by_owner == {}
        and script.core.usage.bytes == 0
    )


def test_characters_beyond_ascii_are_charged_at_their_size() -> None:
    script = Script()
    script.command(f"commit a offset=5 owner=alice meta={'😀' * 4000}")
    assert script.core.usage.of("alice").offset_bytes >= 2 * 4 * 4000


def test_many_protocols_with_short_names_are_charged_at_their_size() -> None:
    script = Script(bytes_max_per_group=1 << 20)
    names = ",".join(f"p{i}" for i in range(10_000))
    assert script.command(f"join a v=3 owner=alice protocols={names}") == [
        "a <- GROUP_MAX_SIZE_REACHED id="
    ]
