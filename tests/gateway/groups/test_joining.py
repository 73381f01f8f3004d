"""JoinGroup and the way to the first generation, as transcripts."""

from __future__ import annotations

from tests.gateway.groups.script import Script, play


def test_one_consumer() -> None:
    play("""
    # KIP-394: the first join returns a member id, the second adds the member.
    > join a
    a <- MEMBER_ID_REQUIRED id=a-1
    = g Empty 0 (a-1?)
    > join a id=a-1
    a <- id=a-1 gen=1 range leader=a-1 [a-1]
    = g CompletingRebalance 1 (a-1*)
    > sync a id=a-1 gen=1 assign=a-1:all
    disk group g
    a <- range 'all'
    = g Stable 1 (a-1*)
    > heartbeat a id=a-1 gen=1
    a <- NONE
    """)


def test_before_version_4_no_second_round() -> None:
    play("""
    > join a v=3
    a <- id=a-1 gen=1 range leader=a-1 [a-1]
    = g CompletingRebalance 1 (a-1*)
    > sync a id=a-1 gen=1 assign=a-1:all
    disk group g
    a <- range 'all'
    = g Stable 1 (a-1*)
    """)


def test_a_second_member_starts_a_rebalance() -> None:
    play("""
    > join a v=3
    a <- id=a-1 gen=1 range leader=a-1 [a-1]
    = g CompletingRebalance 1 (a-1*)
    > sync a id=a-1 gen=1 assign=a-1:all
    disk group g
    a <- range 'all'
    = g Stable 1 (a-1*)
    > join b v=3
    = g PreparingRebalance 1 (a-1*, b-3)
    # The response to its heartbeat tells a of the rebalance.
    > heartbeat a id=a-1 gen=1
    a <- REBALANCE_IN_PROGRESS
    > join a id=a-1
    a <- id=a-1 gen=2 range leader=a-1 [a-1,b-3]
    b <- id=b-3 gen=2 range leader=a-1 []
    = g CompletingRebalance 2 (a-1*, b-3)
    # A follower that syncs before the leader waits.
    > sync b id=b-3 gen=2
    > sync a id=a-1 gen=2 assign=a-1:half,b-3:rest
    disk group g
    a <- range 'half'
    b <- range 'rest'
    = g Stable 2 (a-1*, b-3)
    > heartbeat b id=b-3 gen=2
    b <- NONE
    > heartbeat b id=b-3 gen=1
    b <- ILLEGAL_GENERATION
    """)


def test_initial_delay_is_extended_by_each_new_member() -> None:
    play(
        """
    > join a v=3 rebalance=7000
    = g PreparingRebalance 0 (a-1*)
    > wait 2000
    > join b v=3 rebalance=7000
    = g PreparingRebalance 0 (a-1*, b-2)
    > wait 1000
    # b joined during the initial delay: 3000 ms more, and then the rest of the 7000 ms.
    > wait 2999
    > join c v=3 rebalance=7000
    = g PreparingRebalance 0 (a-1*, b-2, c-3)
    > wait 1
    > wait 1000
    7000: a <- id=a-1 gen=1 range leader=a-1 [a-1,b-2,c-3]
    7000: b <- id=b-2 gen=1 range leader=a-1 []
    7000: c <- id=c-3 gen=1 range leader=a-1 []
    7000: = g CompletingRebalance 1 (a-1*, b-2, c-3)
    """,
        initial_rebalance_delay_ms=3000,
    )


def test_a_delay_without_newcomers_is_one_delay() -> None:
    play(
        """
    > join a v=3
    = g PreparingRebalance 0 (a-1*)
    > wait 2999
    > wait 1
    3000: a <- id=a-1 gen=1 range leader=a-1 [a-1]
    3000: = g CompletingRebalance 1 (a-1*)
    """,
        initial_rebalance_delay_ms=3000,
    )


def test_join_with_a_wrong_field_is_refused() -> None:
    play("""
    > join a group=
    a <- INVALID_GROUP_ID id=
    > join a session=5999
    a <- INVALID_SESSION_TIMEOUT id=
    > join a session=1800001
    a <- INVALID_SESSION_TIMEOUT id=
    > join a id=a-1
    a <- UNKNOWN_MEMBER_ID id=a-1
    > join a protocols=
    a <- INCONSISTENT_GROUP_PROTOCOL id=
    > join a type=
    a <- INCONSISTENT_GROUP_PROTOCOL id=
    > list x
    x <- none
    """)


def test_protocols_must_have_one_in_common() -> None:
    play("""
    > join a v=3 protocols=range,roundrobin
    a <- id=a-1 gen=1 range leader=a-1 [a-1]
    = g CompletingRebalance 1 (a-1*)
    > sync a id=a-1 gen=1 assign=a-1:all
    disk group g
    a <- range 'all'
    = g Stable 1 (a-1*)
    > join b v=3 type=connect protocols=range
    b <- INCONSISTENT_GROUP_PROTOCOL id=
    > join b v=3 protocols=sticky
    b <- INCONSISTENT_GROUP_PROTOCOL id=
    > join b v=3 protocols=roundrobin,sticky
    = g PreparingRebalance 1 (a-1*, b-5)
    > join a id=a-1 protocols=range,roundrobin
    a <- id=a-1 gen=2 roundrobin leader=a-1 [a-1,b-5]
    b <- id=b-5 gen=2 roundrobin leader=a-1 []
    = g CompletingRebalance 2 (a-1*, b-5)
    """)


def test_votes_choose_the_protocol() -> None:
    play("""
    > join a v=3 protocols=range,roundrobin,sticky
    a <- id=a-1 gen=1 range leader=a-1 [a-1]
    = g CompletingRebalance 1 (a-1*)
    > sync a id=a-1 gen=1
    disk group g
    a <- range ''
    = g Stable 1 (a-1*)
    > join b v=3 protocols=sticky,roundrobin
    = g PreparingRebalance 1 (a-1*, b-3)
    > join c v=3 protocols=sticky,roundrobin
    = g PreparingRebalance 1 (a-1*, b-3, c-4)
    > join a id=a-1 protocols=range,roundrobin,sticky
    a <- id=a-1 gen=2 sticky leader=a-1 [a-1,b-3,c-4]
    b <- id=b-3 gen=2 sticky leader=a-1 []
    c <- id=c-4 gen=2 sticky leader=a-1 []
    = g CompletingRebalance 2 (a-1*, b-3, c-4)
    """)


def test_protocol_named_twice_counts_once() -> None:
    play("""
    > join a v=3 protocols=range,range
    a <- id=a-1 gen=1 range leader=a-1 [a-1]
    = g CompletingRebalance 1 (a-1*)
    > sync a id=a-1 gen=1 assign=a-1:all
    disk group g
    a <- range 'all'
    = g Stable 1 (a-1*)
    > join b v=3 protocols=range
    = g PreparingRebalance 1 (a-1*, b-3)
    > join a id=a-1 protocols=range,range
    a <- id=a-1 gen=2 range leader=a-1 [a-1,b-3]
    b <- id=b-3 gen=2 range leader=a-1 []
    = g CompletingRebalance 2 (a-1*, b-3)
    """)


def test_rejoining_member_gets_its_answer_again_or_a_new_round() -> None:
    play("""
    > join a v=3
    a <- id=a-1 gen=1 range leader=a-1 [a-1]
    = g CompletingRebalance 1 (a-1*)
    # The response may have been lost, so it is sent again.
    > join a id=a-1
    a <- id=a-1 gen=1 range leader=a-1 [a-1]
    # Other metadata starts another rebalance.
    > join a id=a-1 meta=new
    a <- id=a-1 gen=2 range leader=a-1 [a-1]
    = g CompletingRebalance 2 (a-1*)
    > sync a id=a-1 gen=2 assign=a-1:all
    disk group g
    a <- range 'all'
    = g Stable 2 (a-1*)
    # A join of the leader of a stable group starts a rebalance.
    > join a id=a-1 meta=new
    a <- id=a-1 gen=3 range leader=a-1 [a-1]
    = g CompletingRebalance 3 (a-1*)
    > sync a id=a-1 gen=3 assign=a-1:all
    disk group g
    a <- range 'all'
    = g Stable 3 (a-1*)
    > join b v=3
    = g PreparingRebalance 3 (a-1*, b-7)
    > join a id=a-1 meta=new
    a <- id=a-1 gen=4 range leader=a-1 [a-1,b-7]
    b <- id=b-7 gen=4 range leader=a-1 []
    = g CompletingRebalance 4 (a-1*, b-7)
    > sync a id=a-1 gen=4 assign=a-1:x,b-7:y
    disk group g
    a <- range 'x'
    = g Stable 4 (a-1*, b-7)
    # A join of a follower with the same metadata does not.
    > join b id=b-7
    b <- id=b-7 gen=4 range leader=a-1 []
    > join b id=b-7 meta=new
    = g PreparingRebalance 4 (a-1*, b-7)
    """)


def test_second_join_of_a_member_answers_the_first() -> None:
    play("""
    > join a v=3
    a <- id=a-1 gen=1 range leader=a-1 [a-1]
    = g CompletingRebalance 1 (a-1*)
    > sync a id=a-1 gen=1 assign=a-1:all
    disk group g
    a <- range 'all'
    = g Stable 1 (a-1*)
    > join b v=3
    = g PreparingRebalance 1 (a-1*, b-3)
    > join c v=3
    = g PreparingRebalance 1 (a-1*, b-3, c-4)
    > join a id=a-1
    a <- id=a-1 gen=2 range leader=a-1 [a-1,b-3,c-4]
    b <- id=b-3 gen=2 range leader=a-1 []
    c <- id=c-4 gen=2 range leader=a-1 []
    = g CompletingRebalance 2 (a-1*, b-3, c-4)
    > sync a id=a-1 gen=2 assign=a-1:all
    disk group g
    a <- range 'all'
    = g Stable 2 (a-1*, b-3, c-4)
    > join d v=3
    = g PreparingRebalance 2 (a-1*, b-3, c-4, d-7)
    > join b1 id=b-3
    > join b2 id=b-3
    b1 <- REBALANCE_IN_PROGRESS id=b-3
    """)


def test_pending_member_id_expires_after_the_session_timeout() -> None:
    play("""
    > join a session=6000
    a <- MEMBER_ID_REQUIRED id=a-1
    = g Empty 0 (a-1?)
    > wait 5999
    # No member joined, so the group is deleted.
    > wait 1
    6000: = g gone
    > join a id=a-1
    a <- UNKNOWN_MEMBER_ID id=a-1
    """)


def test_rebalance_waits_for_pending_member_ids() -> None:
    play("""
    > join a v=3
    a <- id=a-1 gen=1 range leader=a-1 [a-1]
    = g CompletingRebalance 1 (a-1*)
    > sync a id=a-1 gen=1 assign=a-1:all
    disk group g
    a <- range 'all'
    = g Stable 1 (a-1*)
    > join b session=6000
    b <- MEMBER_ID_REQUIRED id=b-3
    = g Stable 1 (a-1*, b-3?)
    > join a id=a-1 meta=new
    = g PreparingRebalance 1 (a-1*, b-3?)
    > wait 6000
    6000: a <- id=a-1 gen=2 range leader=a-1 [a-1]
    6000: = g CompletingRebalance 2 (a-1*)
    """)


def test_pending_member_id_is_no_static_member() -> None:
    play("""
    > join a
    a <- MEMBER_ID_REQUIRED id=a-1
    = g Empty 0 (a-1?)
    > join a id=a-1 instance=i
    a <- UNKNOWN_MEMBER_ID id=a-1
    """)


def test_new_member_that_waits_too_long_has_to_join_again() -> None:
    play(
        """
    > join a v=3 session=600000 rebalance=600000
    a <- id=a-1 gen=1 range leader=a-1 [a-1]
    = g CompletingRebalance 1 (a-1*)
    > sync a id=a-1 gen=1 assign=a-1:all
    disk group g
    a <- range 'all'
    = g Stable 1 (a-1*)
    > join b v=3 rebalance=600000
    = g PreparingRebalance 1 (a-1*, b-3)
    > wait 299999
    > wait 1
    300000: b <- UNKNOWN_MEMBER_ID id=
    300000: = g PreparingRebalance 1 (a-1*)
    """,
        max_session_timeout_ms=600_000,
    )


def test_member_id_of_a_long_client_id_fits_the_protocol() -> None:
    script = Script()
    (answer, _) = script.command("join " + "c" * 30_000)
    assert answer.endswith("id=" + "c" * 255 + "-1")


def test_longest_timeouts_of_the_protocol_are_ordinary_deadlines() -> None:
    script = Script(max_session_timeout_ms=2**31 - 1, initial_rebalance_delay_ms=3000)
    script.command(f"join a v=3 session={2**31 - 1} rebalance={2**31 - 1}")
    assert script.command("wait 3000")[0].startswith("3000: a <- id=a-1 gen=1")
    assert script.command("sync a id=a-1 gen=1")[0] == "disk group g"
    assert script.command("restart") == ["= g Stable 1 (a-1*)"]
