"""Rebalances, syncs, sessions and leaving, as transcripts."""

from __future__ import annotations

from tests.gateway.groups.script import Script, play

TWO = """
> join a v=3
> sync a id=a-1 gen=1 assign=a-1:all
> join b v=3
> join a id=a-1
> sync b id=b-3 gen=2
> sync a id=a-1 gen=2 assign=a-1:x,b-3:y
"""


def two_members(**settings: int) -> Script:
    """a-1 leads, b-3 follows, generation 2, stable. The next id is 7."""
    script = Script(**settings)
    for line in TWO.strip().splitlines():
        script.command(line[1:])
    return script


def test_member_that_does_not_join_in_time_is_removed() -> None:
    two_members().play("""
    > heartbeat b id=b-3 gen=2
    b <- NONE
    > join c v=3 rebalance=5000
    = g PreparingRebalance 2 (a-1*, b-3, c-8)
    > heartbeat a id=a-1 gen=2
    a <- REBALANCE_IN_PROGRESS
    > wait 9000
    > heartbeat a id=a-1 gen=2
    a <- REBALANCE_IN_PROGRESS
    > heartbeat b id=b-3 gen=2
    b <- REBALANCE_IN_PROGRESS
    > join a id=a-1
    > wait 9000
    > heartbeat b id=b-3 gen=2
    b <- REBALANCE_IN_PROGRESS
    > wait 9000
    > heartbeat b id=b-3 gen=2
    b <- REBALANCE_IN_PROGRESS
    > wait 9000
    > heartbeat b id=b-3 gen=2
    b <- REBALANCE_IN_PROGRESS
    > wait 9000
    > heartbeat b id=b-3 gen=2
    b <- REBALANCE_IN_PROGRESS
    > wait 9000
    > heartbeat b id=b-3 gen=2
    b <- REBALANCE_IN_PROGRESS
    > wait 9000
    60000: a <- id=a-1 gen=3 range leader=a-1 [a-1,c-8]
    60000: c <- id=c-8 gen=3 range leader=a-1 []
    60000: = g CompletingRebalance 3 (a-1*, c-8)
    > heartbeat b id=b-3 gen=2
    b <- UNKNOWN_MEMBER_ID
    """)


def test_the_leader_that_does_not_join_is_replaced() -> None:
    script = two_members()
    script.play("""
    > join b id=b-3 meta=new
    = g PreparingRebalance 2 (a-1*, b-3)
    > wait 10000
    10000: b <- id=b-3 gen=3 range leader=b-3 [b-3]
    10000: = g CompletingRebalance 3 (b-3*)
    """)


def test_a_session_that_ends_starts_a_rebalance() -> None:
    two_members().play("""
    > wait 9999
    > heartbeat a id=a-1 gen=2
    a <- NONE
    > wait 1
    10000: = g PreparingRebalance 2 (a-1*)
    > join a id=a-1
    a <- id=a-1 gen=3 range leader=a-1 [a-1]
    = g CompletingRebalance 3 (a-1*)
    > heartbeat b id=b-3 gen=3
    b <- UNKNOWN_MEMBER_ID
    """)


def test_everybody_gone() -> None:
    two_members().play("""
    > wait 10000
    10000: disk group g
    10000: = g Empty 3 ()
    > wait 60000
    """)


def test_member_that_waits_for_a_sync_needs_no_heartbeat() -> None:
    two_members().play("""
    > join b id=b-3 meta=new
    = g PreparingRebalance 2 (a-1*, b-3)
    > join a id=a-1
    a <- id=a-1 gen=3 range leader=a-1 [a-1,b-3]
    b <- id=b-3 gen=3 range leader=a-1 []
    = g CompletingRebalance 3 (a-1*, b-3)
    > sync b id=b-3 gen=3
    > wait 9000
    > heartbeat a id=a-1 gen=3
    a <- NONE
    > wait 9000
    > heartbeat a id=a-1 gen=3
    a <- NONE
    > sync a id=a-1 gen=3 assign=b-3:all
    disk group g
    a <- range ''
    b <- range 'all'
    = g Stable 3 (a-1*, b-3)
    > wait 9000
    > heartbeat b id=b-3 gen=3
    b <- NONE
    """)


def test_member_that_does_not_sync_is_removed_after_the_rebalance_timeout() -> None:
    script = two_members()
    script.play("""
    > join b id=b-3 meta=new
    = g PreparingRebalance 2 (a-1*, b-3)
    > join a id=a-1
    a <- id=a-1 gen=3 range leader=a-1 [a-1,b-3]
    b <- id=b-3 gen=3 range leader=a-1 []
    = g CompletingRebalance 3 (a-1*, b-3)
    > sync a id=a-1 gen=3 assign=b-3:all
    disk group g
    a <- range ''
    = g Stable 3 (a-1*, b-3)
    """)
    for _ in range(6):
        script.command("wait 9000")
        script.command("heartbeat a id=a-1 gen=3")
        script.command("heartbeat b id=b-3 gen=3")
    script.play("""
    > wait 6000
    60000: = g PreparingRebalance 3 (a-1*)
    > heartbeat b id=b-3 gen=3
    b <- UNKNOWN_MEMBER_ID
    """)


def test_a_leader_that_never_assigns_is_dropped() -> None:
    script = two_members()
    script.play("""
    > join b id=b-3 meta=new
    = g PreparingRebalance 2 (a-1*, b-3)
    > join a id=a-1
    a <- id=a-1 gen=3 range leader=a-1 [a-1,b-3]
    b <- id=b-3 gen=3 range leader=a-1 []
    = g CompletingRebalance 3 (a-1*, b-3)
    > sync b id=b-3 gen=3
    """)
    for _ in range(6):
        script.command("wait 9000")
        script.command("heartbeat a id=a-1 gen=3")
    script.play("""
    > wait 6000
    60000: b <- REBALANCE_IN_PROGRESS
    60000: = g PreparingRebalance 3 (b-3*)
    > join b id=b-3 meta=new
    b <- id=b-3 gen=4 range leader=b-3 [b-3]
    = g CompletingRebalance 4 (b-3*)
    """)


def test_sync_refusals() -> None:
    two_members().play("""
    > sync a group= id=a-1 gen=2
    a <- INVALID_GROUP_ID
    > sync a group=other id=a-1 gen=2
    a <- UNKNOWN_MEMBER_ID
    > sync a id=z-1 gen=2
    a <- UNKNOWN_MEMBER_ID
    > sync a id=a-1 gen=1
    a <- ILLEGAL_GENERATION
    > sync a id=a-1 gen=2 type=connect
    a <- INCONSISTENT_GROUP_PROTOCOL
    > sync a id=a-1 gen=2 protocol=sticky
    a <- INCONSISTENT_GROUP_PROTOCOL
    > sync a id=a-1 gen=2 type=consumer protocol=range
    a <- range 'x'
    > join c v=3
    = g PreparingRebalance 2 (a-1*, b-3, c-14)
    > sync a id=a-1 gen=2
    a <- REBALANCE_IN_PROGRESS
    """)


def test_member_without_an_assignment_gets_an_empty_one() -> None:
    two_members().play("""
    > join b id=b-3 meta=new
    = g PreparingRebalance 2 (a-1*, b-3)
    > join a id=a-1
    a <- id=a-1 gen=3 range leader=a-1 [a-1,b-3]
    b <- id=b-3 gen=3 range leader=a-1 []
    = g CompletingRebalance 3 (a-1*, b-3)
    > sync b id=b-3 gen=3
    > sync a id=a-1 gen=3 assign=a-1:x,outsider-9:y
    disk group g
    a <- range 'x'
    b <- range ''
    = g Stable 3 (a-1*, b-3)
    """)


def test_second_sync_of_a_member_answers_the_first() -> None:
    two_members().play("""
    > join b id=b-3 meta=new
    = g PreparingRebalance 2 (a-1*, b-3)
    > join a id=a-1
    a <- id=a-1 gen=3 range leader=a-1 [a-1,b-3]
    b <- id=b-3 gen=3 range leader=a-1 []
    = g CompletingRebalance 3 (a-1*, b-3)
    > sync b1 id=b-3 gen=3
    > sync b2 id=b-3 gen=3
    b1 <- REBALANCE_IN_PROGRESS
    > sync a id=a-1 gen=3 assign=b-3:y
    disk group g
    a <- range ''
    b2 <- range 'y'
    = g Stable 3 (a-1*, b-3)
    """)


def test_a_change_while_members_wait_for_their_assignment() -> None:
    two_members().play("""
    > join b id=b-3 meta=new
    = g PreparingRebalance 2 (a-1*, b-3)
    > join a id=a-1
    a <- id=a-1 gen=3 range leader=a-1 [a-1,b-3]
    b <- id=b-3 gen=3 range leader=a-1 []
    = g CompletingRebalance 3 (a-1*, b-3)
    > sync b id=b-3 gen=3
    > join c v=3
    b <- REBALANCE_IN_PROGRESS
    = g PreparingRebalance 3 (a-1*, b-3, c-10)
    > join b id=b-3
    > join a id=a-1
    a <- id=a-1 gen=4 range leader=a-1 [a-1,b-3,c-10]
    b <- id=b-3 gen=4 range leader=a-1 []
    c <- id=c-10 gen=4 range leader=a-1 []
    = g CompletingRebalance 4 (a-1*, b-3, c-10)
    """)


def test_heartbeat_refusals() -> None:
    two_members().play("""
    > heartbeat a group= id=a-1 gen=2
    a <- INVALID_GROUP_ID
    > heartbeat a group=other id=a-1 gen=2
    a <- UNKNOWN_MEMBER_ID
    > heartbeat a id=z-1 gen=2
    a <- UNKNOWN_MEMBER_ID
    > heartbeat a id=a-1 gen=3
    a <- ILLEGAL_GENERATION
    > heartbeat a id=a-1 gen=2 instance=i
    a <- UNKNOWN_MEMBER_ID
    """)


def test_group_rebalances_when_a_member_leaves() -> None:
    two_members().play("""
    > leave b id=b-3
    b <- NONE
    = g PreparingRebalance 2 (a-1*)
    > join a id=a-1
    a <- id=a-1 gen=3 range leader=a-1 [a-1]
    = g CompletingRebalance 3 (a-1*)
    > leave a id=z-9,a-1
    disk group g
    a <- UNKNOWN_MEMBER_ID NONE
    = g Empty 4 ()
    > leave a id=a-1
    a <- UNKNOWN_MEMBER_ID
    > leave a group=other id=a-1
    a <- UNKNOWN_MEMBER_ID
    > leave a group= id=a-1
    a <- INVALID_GROUP_ID
    """)


def test_leave_answers_the_parked_requests_of_the_member() -> None:
    two_members().play("""
    > join c v=3
    = g PreparingRebalance 2 (a-1*, b-3, c-7)
    > leave x id=c-7
    c <- UNKNOWN_MEMBER_ID id=
    x <- NONE
    = g PreparingRebalance 2 (a-1*, b-3)
    > join a id=a-1
    > join b id=b-3
    a <- id=a-1 gen=3 range leader=a-1 [a-1,b-3]
    b <- id=b-3 gen=3 range leader=a-1 []
    = g CompletingRebalance 3 (a-1*, b-3)
    > sync b id=b-3 gen=3
    > leave x id=b-3
    b <- UNKNOWN_MEMBER_ID
    x <- NONE
    = g PreparingRebalance 3 (a-1*)
    """)


def test_a_promised_id_can_leave() -> None:
    play("""
    > join a
    a <- MEMBER_ID_REQUIRED id=a-1
    = g Empty 0 (a-1?)
    > leave a id=a-1
    a <- NONE
    = g gone
    """)
    two_members().play("""
    > join c
    c <- MEMBER_ID_REQUIRED id=c-7
    = g Stable 2 (a-1*, b-3, c-7?)
    > join a id=a-1
    = g PreparingRebalance 2 (a-1*, b-3, c-7?)
    > join b id=b-3
    > leave c id=c-7
    a <- id=a-1 gen=3 range leader=a-1 [a-1,b-3]
    b <- id=b-3 gen=3 range leader=a-1 []
    c <- NONE
    = g CompletingRebalance 3 (a-1*, b-3)
    """)


def test_a_restart_of_the_server_is_not_seen_by_a_stable_group() -> None:
    two_members().play("""
    > restart
    = g Stable 2 (a-1*, b-3)
    > heartbeat a id=a-1 gen=2
    a <- NONE
    > heartbeat b id=b-3 gen=2
    b <- NONE
    > sync b id=b-3 gen=2
    b <- range 'y'
    > describe x
    x <- g NONE Stable consumer:range [a-1:?:x,b-3:?:y]
    > wait 10000
    10000: disk group g
    10000: = g Empty 3 ()
    """)


def test_a_restart_in_the_middle_of_a_rebalance() -> None:
    two_members().play("""
    > join c v=3
    = g PreparingRebalance 2 (a-1*, b-3, c-7)
    > join a id=a-1
    # Members that wait look up the coordinator again; c was not persisted.
    > restart
    a <- NOT_COORDINATOR id=a-1
    c <- NOT_COORDINATOR id=
    = g Stable 2 (a-1*, b-3)
    > join c id=c-7
    c <- UNKNOWN_MEMBER_ID id=c-7
    > heartbeat a id=a-1 gen=2
    a <- NONE
    """)


def test_after_a_restart_with_a_lower_group_max_size_the_group_is_cut() -> None:
    script = two_members()
    script.settings = type(script.settings)(max_size=1, initial_rebalance_delay_ms=0)
    script.play("""
    > restart
    = g PreparingRebalance 2 (a-1*, b-3)
    > join b id=b-3
    > join a id=a-1
    a <- GROUP_MAX_SIZE_REACHED id=
    b <- id=b-3 gen=3 range leader=b-3 [b-3]
    = g CompletingRebalance 3 (b-3*)
    """)
