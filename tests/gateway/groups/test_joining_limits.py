"""Limits on members and memory of groups when members join, as transcripts."""

from __future__ import annotations

from gateway.groups import Settings
from tests.gateway.groups.script import Script, play


def test_group_max_size() -> None:
    play(
        """
    > join a v=3
    a <- id=a-1 gen=1 range leader=a-1 [a-1]
    = g CompletingRebalance 1 (a-1*)
    > sync a id=a-1 gen=1 assign=a-1:all
    disk group g
    a <- range 'all'
    = g Stable 1 (a-1*)
    > join b v=3
    = g PreparingRebalance 1 (a-1*, b-3)
    # In the join phase the limit counts the members that have joined: a is late and is refused.
    > join c v=3
    = g PreparingRebalance 1 (a-1*, b-3, c-4)
    > join a id=a-1
    a <- GROUP_MAX_SIZE_REACHED id=
    b <- id=b-3 gen=2 range leader=b-3 [b-3,c-4]
    c <- id=c-4 gen=2 range leader=b-3 []
    = g CompletingRebalance 2 (b-3*, c-4)
    > wait 60000
    10000: disk group g
    10000: = g Empty 3 ()
    """,
        max_size=2,
    )


def test_full_stable_group_refuses_new_and_pending_members() -> None:
    play(
        """
    > join p
    p <- MEMBER_ID_REQUIRED id=p-1
    = g Empty 0 (p-1?)
    > join a v=3
    a <- id=a-2 gen=1 range leader=a-2 [a-2]
    = g CompletingRebalance 1 (a-2*, p-1?)
    > sync a id=a-2 gen=1 assign=a-2:all
    disk group g
    a <- range 'all'
    = g Stable 1 (a-2*, p-1?)
    > join b v=3
    b <- GROUP_MAX_SIZE_REACHED id=
    > join p id=p-1
    p <- GROUP_MAX_SIZE_REACHED id=
    = g Stable 1 (a-2*)
    > join a id=a-2 meta=new
    a <- id=a-2 gen=2 range leader=a-2 [a-2]
    = g CompletingRebalance 2 (a-2*)
    """,
        max_size=1,
    )


def test_limits_of_all_groups_together() -> None:
    play(
        """
    > join a v=3 group=one
    a <- id=a-1 gen=1 range leader=a-1 [a-1]
    = one CompletingRebalance 1 (a-1*)
    > join b v=3 group=two
    b <- id=b-2 gen=1 range leader=b-2 [b-2]
    = two CompletingRebalance 1 (b-2*)
    > join c v=3 group=three
    c <- GROUP_MAX_SIZE_REACHED id=
    > commit c group=three offset=1
    c <- POLICY_VIOLATION
    """,
        groups_max=2,
    )
    play(
        """
    > join a group=one
    a <- MEMBER_ID_REQUIRED id=a-1
    = one Empty 0 (a-1?)
    > join b group=two
    b <- MEMBER_ID_REQUIRED id=b-2
    = two Empty 0 (b-2?)
    > join c group=two
    c <- GROUP_MAX_SIZE_REACHED id=
    > wait 10000
    10000: = one gone
    10000: = two gone
    > join c group=two
    c <- MEMBER_ID_REQUIRED id=c-4
    = two Empty 0 (c-4?)
    """,
        members_max=2,
        bytes_reserved_per_group=0,
    )


def test_limit_of_bytes() -> None:
    script = Script(bytes_max=20_000, bytes_reserved_per_group=0)
    small, large = "x" * 5000, "x" * 9000
    assert script.command(f"join a v=3 meta={small}")[0].startswith("a <- id=a-1 gen=1")
    assert script.command(f"join b v=3 group=h meta={large}{large}") == [
        "b <- GROUP_MAX_SIZE_REACHED id="
    ]
    assert script.command(f"join a id=a-1 meta={large}{large}") == [
        "a <- GROUP_MAX_SIZE_REACHED id=a-1"
    ]
    assert (
        script.command(f"sync a id=a-1 gen=1 assign=a-1:{large}{large}")[0]
        == "a <- UNKNOWN_SERVER_ERROR"
    )
    assert script.command("join c")[0].startswith("c <- MEMBER_ID_REQUIRED")
    assert script.command(f"join c id=c-5 meta={large}{large}") == [
        "c <- GROUP_MAX_SIZE_REACHED id=c-5"
    ]


def test_usage_is_zero_after_the_group_is_gone() -> None:
    script = Script()
    before = (script.core._state.usage.members, script.core._state.usage.bytes)
    assert before == (0, 0)
    for line in (
        "join a v=3 meta=abc instance=i",
        "sync a id=i-1 gen=1 assign=i-1:assignment",
        "commit a id=i-1 gen=1 offset=7 meta=m",
        "commit a id=i-1 gen=1 offset=8 meta=mm",
        "join a v=3 meta=abcd instance=i",
        "join b",
        "join b id=b-6 meta=xyz",
        "leave a id=i-5",
        "leave b id=b-6",
        "join p",
        "delete x",
    ):
        script.command(line)
    assert script.core.groups == {}
    assert (script.core._state.usage.members, script.core._state.usage.bytes) == (0, 0)
    assert script.core.usage.by_owner == {}
    assert (
        script.core._state.timers.next_deadline()
        == 1000 + Settings().retention_check_interval_ms / 1000
    )


def test_limit_of_bytes_of_one_group() -> None:
    script = Script(bytes_max_per_group=12_000)
    half = "x" * 5000
    assert script.command(f"join a v=3 meta={half}")[0].startswith("a <- id=a-1 gen=1")
    assert (
        script.command(f"sync a id=a-1 gen=1 assign=a-1:{half}{half}")[0]
        == "a <- UNKNOWN_SERVER_ERROR"
    )
    assert script.command(f"join b v=3 meta={half}") == ["b <- GROUP_MAX_SIZE_REACHED id="]
    assert script.command(f"join b v=3 group=h meta={half}")[0].startswith("b <- id=b-4 gen=1")


def test_no_group_is_left_of_a_refused_newcomer() -> None:
    script = Script(bytes_max_per_group=100)
    script.play("""
    > join a v=3
    a <- GROUP_MAX_SIZE_REACHED id=
    > list x
    x <- none
    """)
