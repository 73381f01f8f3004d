"""Static membership (KIP-345): members that keep their place over a restart, as transcripts."""

from __future__ import annotations

from tests.gateway.groups.script import Script

STABLE = """
> join a instance=one
> sync a id=one-1 gen=1 assign=one-1:all
> join b instance=two
> join a id=one-1 instance=one
> sync b id=two-3 gen=2 instance=two
> sync a id=one-1 gen=2 instance=one assign=one-1:x,two-3:y
"""


def stable() -> Script:
    """one-1 leads, two-3 follows, generation 2. The next id is 7."""
    script = Script()
    for line in STABLE.strip().splitlines():
        script.command(line[1:])
    return script


def test_a_follower_that_restarts_causes_no_rebalance_and_keeps_its_assignment() -> None:
    stable().play("""
    > join b instance=two
    disk group g
    b <- id=two-7 gen=2 range leader=one-1 []
    = g Stable 2 (one-1*, two-7)
    > sync b id=two-7 gen=2 instance=two
    b <- range 'y'
    # The member's former id is fenced.
    > heartbeat b id=two-3 gen=2 instance=two
    b <- FENCED_INSTANCE_ID
    > heartbeat b id=two-3 gen=2
    b <- UNKNOWN_MEMBER_ID
    > sync b id=two-3 gen=2 instance=two
    b <- FENCED_INSTANCE_ID
    > join b id=two-3 instance=two
    b <- FENCED_INSTANCE_ID id=two-3
    > commit b id=two-3 gen=2 instance=two offset=1
    b <- FENCED_INSTANCE_ID
    > heartbeat b id=two-7 gen=2 instance=two
    b <- NONE
    """)


def test_restarted_static_leader_skips_the_assignment() -> None:
    stable().play("""
    > join a instance=one
    disk group g
    a <- id=one-7 gen=2 range leader=one-7 [one-7,two-3] skip
    = g Stable 2 (one-7*, two-3)
    > sync a id=one-7 gen=2 instance=one
    a <- range 'x'
    """)


def test_restarted_static_leader_before_version_9_gets_its_old_id() -> None:
    stable().play("""
    > join a instance=one v=8
    disk group g
    a <- id=one-7 gen=2 range leader=one-1 []
    = g Stable 2 (one-7*, two-3)
    > sync a id=one-7 gen=2 instance=one
    a <- range 'x'
    """)


def test_a_restart_that_changes_the_protocol_is_a_rebalance() -> None:
    script = Script()
    for line in STABLE.strip().splitlines():
        script.command(line[1:] + (" protocols=range,sticky" if "join" in line else ""))
    script.play("""
    > join b instance=two protocols=sticky
    = g PreparingRebalance 2 (one-1*, two-7)
    > heartbeat a id=one-1 gen=2 instance=one
    a <- REBALANCE_IN_PROGRESS
    > join a id=one-1 instance=one protocols=range,sticky
    a <- id=one-1 gen=3 sticky leader=one-1 [one-1,two-7]
    b <- id=two-7 gen=3 sticky leader=one-1 []
    = g CompletingRebalance 3 (one-1*, two-7)
    """)


def test_a_restart_while_the_leader_assigns_is_a_rebalance() -> None:
    stable().play("""
    > join a id=one-1 instance=one meta=new
    = g PreparingRebalance 2 (one-1*, two-3)
    > join b id=two-3 instance=two
    a <- id=one-1 gen=3 range leader=one-1 [one-1,two-3]
    b <- id=two-3 gen=3 range leader=one-1 []
    = g CompletingRebalance 3 (one-1*, two-3)
    > sync b id=two-3 gen=3 instance=two
    > join b2 instance=two
    b <- FENCED_INSTANCE_ID
    = g PreparingRebalance 3 (one-1*, two-10)
    > join a id=one-1 instance=one meta=new
    a <- id=one-1 gen=4 range leader=one-1 [one-1,two-10]
    b2 <- id=two-10 gen=4 range leader=one-1 []
    = g CompletingRebalance 4 (one-1*, two-10)
    """)


def test_a_restart_while_the_old_self_waits_to_join() -> None:
    stable().play("""
    > join b id=two-3 instance=two meta=new
    = g PreparingRebalance 2 (one-1*, two-3)
    > join b2 instance=two meta=new
    b <- FENCED_INSTANCE_ID id=two-3
    = g PreparingRebalance 2 (one-1*, two-8)
    > join a id=one-1 instance=one
    a <- id=one-1 gen=3 range leader=one-1 [one-1,two-8]
    b2 <- id=two-8 gen=3 range leader=one-1 []
    = g CompletingRebalance 3 (one-1*, two-8)
    """)


def test_a_static_member_that_does_not_come_keeps_its_place_until_it_owes_a_sync_for_too_long() -> (
    None
):
    script = Script()
    for line in (
        "join a instance=one session=600000 rebalance=7000",
        "sync a id=one-1 gen=1 instance=one assign=one-1:all",
        "join b instance=two session=600000 rebalance=7000",
        "join a id=one-1 instance=one session=600000 rebalance=7000",
        "sync b id=two-3 gen=2 instance=two",
        "sync a id=one-1 gen=2 instance=one assign=one-1:x,two-3:y",
    ):
        script.command(line)
    script.play("""
    > join a id=one-1 instance=one session=600000 rebalance=7000
    = g PreparingRebalance 2 (one-1*, two-3)
    > wait 7000
    7000: a <- id=one-1 gen=3 range leader=one-1 [one-1,two-3]
    7000: = g CompletingRebalance 3 (one-1*, two-3)
    > sync a id=one-1 gen=3 instance=one assign=one-1:x,two-3:y
    disk group g
    a <- range 'x'
    = g Stable 3 (one-1*, two-3)
    > wait 7000
    14000: = g PreparingRebalance 3 (one-1*)
    > heartbeat b id=two-3 gen=3 instance=two
    b <- UNKNOWN_MEMBER_ID
    """)


def test_rebalance_waits_for_absent_static_members() -> None:
    script = Script()
    for line in (
        "join a instance=one session=1800000 rebalance=7000",
        "sync a id=one-1 gen=1 assign=one-1:all",
        "join b v=3 rebalance=7000",
    ):
        script.command(line)
    script.play("""
    > leave b id=b-3
    b <- UNKNOWN_MEMBER_ID id=
    b <- NONE
    = g PreparingRebalance 1 (one-1*)
    > wait 7000
    > wait 7000
    > join a id=one-1 instance=one
    a <- id=one-1 gen=2 range leader=one-1 [one-1]
    = g CompletingRebalance 2 (one-1*)
    """)


def test_a_rebalance_timeout_of_nothing_does_not_keep_the_server_busy() -> None:
    script = Script()
    for line in (
        "join a instance=one session=1800000 rebalance=0",
        "sync a id=one-1 gen=1 assign=one-1:all",
        "join b v=3 rebalance=0",
        "leave b id=b-3",
    ):
        script.command(line)
    # The join phase without members ends at once: the group is examined every second, not in a
    # busy loop.
    assert script.core.next_deadline() == 1000.0
    script.core.on_timer(script.moment())
    assert script.core.next_deadline() == 1001.0


def test_an_operator_removes_a_static_member_by_its_instance() -> None:
    stable().play("""
    > leave x instance=two
    x <- NONE
    = g PreparingRebalance 2 (one-1*)
    > leave x instance=three
    x <- UNKNOWN_MEMBER_ID
    > leave x id=one-9 instance=one
    x <- FENCED_INSTANCE_ID
    > leave x
    x <- UNKNOWN_MEMBER_ID
    """)


def test_static_members_survive_a_restart_of_the_server() -> None:
    stable().play("""
    > restart
    = g Stable 2 (one-1*, two-3)
    > join b instance=two
    disk group g
    b <- id=two-7 gen=2 range leader=one-1 []
    = g Stable 2 (one-1*, two-7)
    > heartbeat b id=two-3 gen=2 instance=two
    b <- FENCED_INSTANCE_ID
    """)
