"""Committed offsets: commit, fetch and delete, as transcripts. Expiry: ``test_offset_expiry``."""

from __future__ import annotations

from gateway.groups import Answer, Failure
from gateway.groups import events as e
from gateway.groups.effects import Persist
from kwire.protocol import ErrorCode
from tests.gateway.groups.script import START_MS, Script, play

LONG_MAX = 2**63 - 1


def test_a_simple_consumer_commits_without_a_group() -> None:
    play("""
    > commit a offset=5
    disk offset g t-0 5
    a <- NONE
    = g Empty 0 ()
    > commit a offset=6
    disk offset g t-0 6
    a <- NONE
    > commit a offset=1 topic=u partition=3
    disk offset g u-3 1
    a <- NONE
    > fetch a topic=t
    a <- g:NONE[t-0=6]
    > fetch a topic=t partition=1
    a <- g:NONE[t-1=None]
    > fetch a
    a <- g:NONE[t-0=6,u-3=1]
    > fetch a group=g,h
    a <- g:NONE[t-0=6,u-3=1] h:NONE[]
    > restart
    = g Empty 0 ()
    > fetch a
    a <- g:NONE[t-0=6,u-3=1]
    """)


def test_commit_needs_a_member_of_the_current_generation() -> None:
    play("""
    > commit a gen=1 id=a-1 offset=5
    a <- GROUP_ID_NOT_FOUND
    > commit a gen=1 id=a-1 offset=5 v=8
    a <- ILLEGAL_GENERATION
    > join a v=3
    a <- id=a-3 gen=1 range leader=a-3 [a-3]
    = g CompletingRebalance 1 (a-3*)
    # The member has its generation, but no assignment yet.
    > commit a id=a-3 gen=1 offset=5
    a <- REBALANCE_IN_PROGRESS
    > sync a id=a-3 gen=1
    disk group g
    a <- range ''
    = g Stable 1 (a-3*)
    > commit a id=a-3 gen=1 offset=5
    disk offset g t-0 5
    a <- NONE
    > commit a id=a-3 gen=0 offset=6
    a <- ILLEGAL_GENERATION
    > commit a id=z-3 gen=1 offset=6
    a <- UNKNOWN_MEMBER_ID
    > commit a offset=6
    a <- UNKNOWN_MEMBER_ID
    > commit a id=a-3 offset=6
    a <- ILLEGAL_GENERATION
    > commit a id=a-3 gen=1 instance=i offset=6
    a <- UNKNOWN_MEMBER_ID
    > fetch a
    a <- g:NONE[t-0=5]
    """)


def test_a_member_commits_on_while_a_rebalance_gathers() -> None:
    play("""
    > join a v=3
    a <- id=a-1 gen=1 range leader=a-1 [a-1]
    = g CompletingRebalance 1 (a-1*)
    > sync a id=a-1 gen=1 assign=a-1:x
    disk group g
    a <- range 'x'
    = g Stable 1 (a-1*)
    > join b v=3
    = g PreparingRebalance 1 (a-1*, b-3)
    > commit a id=a-1 gen=1 offset=5
    disk offset g t-0 5
    a <- NONE
    """)


def test_commit_restarts_the_session_timeout() -> None:
    play("""
    > join a v=3
    a <- id=a-1 gen=1 range leader=a-1 [a-1]
    = g CompletingRebalance 1 (a-1*)
    > sync a id=a-1 gen=1 assign=a-1:x
    disk group g
    a <- range 'x'
    = g Stable 1 (a-1*)
    > wait 9000
    > commit a id=a-1 gen=1 offset=5
    disk offset g t-0 5
    a <- NONE
    > wait 9000
    > heartbeat a id=a-1 gen=1
    a <- NONE
    """)


def test_metadata_has_a_limit() -> None:
    play(
        """
    > commit a offset=5 meta=12345
    a <- OFFSET_METADATA_TOO_LARGE
    > commit a offset=5 meta=1234
    disk offset g t-0 5
    a <- NONE
    = g Empty 0 ()
    """,
        offset_metadata_max=4,
    )


def test_commit_beyond_a_limit_is_refused() -> None:
    script = Script(bytes_max=1500, bytes_reserved_per_group=0)
    assert script.command("commit a offset=5 meta=" + "x" * 400)[-1] == "= g Empty 0 ()"
    assert script.command("commit a offset=6 meta=" + "x" * 400) == [
        "disk offset g t-0 6",
        "a <- NONE",
    ]
    assert script.command("commit a offset=6 partition=1") == ["a <- POLICY_VIOLATION"]
    assert script.command("commit a group=h offset=6") == ["a <- POLICY_VIOLATION"]


def test_every_offset_of_a_commit_is_answered_and_written_together() -> None:
    script = Script()
    offsets = tuple(e.OffsetToCommit("t", i, i * 10, i, "m" * (5000 * (i == 1))) for i in range(3))
    event = e.OffsetCommit(
        group_id="g",
        member_id="",
        instance_id=None,
        generation=-1,
        retention_ms=-1,
        offsets=offsets,
        knows_group_id_not_found=True,
    )
    persist, answer = script.core.handle(event, "x", script.moment())
    assert isinstance(persist, Persist) and isinstance(answer, Answer)
    assert len(persist.records) == 2
    assert answer.result == e.CommitResult(
        errors=[ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE]
    )
    assert answer.after == persist.number
    assert script.core.groups["g"].offsets[("t", 2)] == e.Committed(20, 2, "", START_MS)


def test_a_fetch_waits_for_the_commits_that_it_shows() -> None:
    script = Script()
    fetch = e.OffsetFetch((("g", None), ("h", None)))

    def after(event: e.Event) -> int:
        answer = script.core.handle(event, "x", script.moment())[-1]
        assert isinstance(answer, Answer)
        return answer.after

    assert after(fetch) == 0
    for group_id in ("g", "h", "other"):
        script.command(f"commit a group={group_id} offset=1")
    assert after(fetch) == 2
    assert after(e.OffsetFetch((("g", None),))) == 1
    assert after(e.DescribeGroups(("other", "nobody"))) == 3
    assert after(e.ListGroups()) == 3
    assert after(e.Heartbeat(group_id="g", member_id="z", instance_id=None, generation=1)) == 0


def test_deleting_offsets() -> None:
    play("""
    > forget x topic=t
    x <- GROUP_ID_NOT_FOUND
    > forget x group= topic=t
    x <- INVALID_GROUP_ID
    > commit a offset=5
    disk offset g t-0 5
    a <- NONE
    = g Empty 0 ()
    > commit a offset=6 topic=u
    disk offset g u-0 6
    a <- NONE
    > forget x topic=t,nothing
    disk delete offset
    x <- NONE NONE
    > fetch a
    a <- g:NONE[u-0=6]
    """)


def test_offsets_of_subscribed_topics_are_not_deleted() -> None:
    play("""
    > join a v=3 topics=t,v
    a <- id=a-1 gen=1 range leader=a-1 [a-1]
    = g CompletingRebalance 1 (a-1*)
    > sync a id=a-1 gen=1
    disk group g
    a <- range ''
    = g Stable 1 (a-1*)
    > commit a id=a-1 gen=1 offset=5
    disk offset g t-0 5
    a <- NONE
    > commit a id=a-1 gen=1 offset=6 topic=u
    disk offset g u-0 6
    a <- NONE
    > forget x topic=t,u
    disk delete offset
    x <- GROUP_SUBSCRIBED_TO_TOPIC NONE
    > restart
    = g Stable 1 (a-1*)
    > forget x topic=t,u
    x <- GROUP_SUBSCRIBED_TO_TOPIC NONE
    > leave a id=a-1
    disk group g
    a <- NONE
    = g Empty 2 ()
    > forget x topic=t
    disk delete offset
    x <- NONE
    """)


def test_unreadable_subscriptions_count_as_all_topics_and_other_protocols_as_busy() -> None:
    play("""
    > join a v=3 meta=junk
    a <- id=a-1 gen=1 range leader=a-1 [a-1]
    = g CompletingRebalance 1 (a-1*)
    > sync a id=a-1 gen=1
    disk group g
    a <- range ''
    = g Stable 1 (a-1*)
    > forget x topic=t
    x <- GROUP_SUBSCRIBED_TO_TOPIC
    > join c v=3 group=connect type=connect
    c <- id=c-4 gen=1 range leader=c-4 [c-4]
    = connect CompletingRebalance 1 (c-4*)
    > forget x group=connect topic=t
    x <- NON_EMPTY_GROUP
    """)


def test_deleting_groups() -> None:
    play("""
    > commit a offset=5
    disk offset g t-0 5
    a <- NONE
    = g Empty 0 ()
    > commit a offset=5 partition=1
    disk offset g t-1 5
    a <- NONE
    > join a v=3 group=h
    a <- id=a-3 gen=1 range leader=a-3 [a-3]
    = h CompletingRebalance 1 (a-3*)
    > delete x group=g,h,i
    disk delete offset
    disk delete offset
    x <- NONE NON_EMPTY_GROUP GROUP_ID_NOT_FOUND
    = g gone
    > list x
    x <- h:consumer:CompletingRebalance
    > fetch x
    x <- g:NONE[]
    """)


def test_commit_of_the_largest_offset_is_kept_and_survives_a_restart() -> None:
    play(f"""
    > commit a offset={LONG_MAX} epoch={2**31 - 1}
    disk offset g t-0 {LONG_MAX}
    a <- NONE
    = g Empty 0 ()
    > restart
    = g Empty 0 ()
    > fetch a
    a <- g:NONE[t-0={LONG_MAX}]
    """)


def test_commit_that_cannot_be_encoded_changes_nothing_and_costs_no_other_request() -> None:
    script = Script()
    script.play("""
    > commit a offset=5
    disk offset g t-0 5
    a <- NONE
    = g Empty 0 ()
    """)
    offsets = (e.OffsetToCommit("t", 0, 6, -1, ""), e.OffsetToCommit("t", 1, LONG_MAX + 1, -1, ""))
    event = e.OffsetCommit(
        group_id="g",
        member_id="",
        instance_id=None,
        generation=-1,
        retention_ms=-1,
        offsets=offsets,
        knows_group_id_not_found=True,
    )
    failure, answer = script.core.handle(event, "x", script.moment())
    assert isinstance(failure, Failure) and (failure.what, failure.group_id) == ("OffsetCommit", "")
    assert isinstance(answer, Answer) and answer.result == event.failed(
        ErrorCode.UNKNOWN_SERVER_ERROR
    )
    script.play("""
    > fetch a
    a <- g:NONE[t-0=5]
    > commit a offset=7
    disk offset g t-0 7
    a <- NONE
    """)
