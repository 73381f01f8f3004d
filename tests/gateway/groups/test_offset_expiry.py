"""Expiry of committed offsets and of empty groups, as transcripts."""

from __future__ import annotations

import pytest

from tests.gateway.groups.script import START_MS, Script, play

DAY_MS = 24 * 3600 * 1000


def test_offsets_of_a_simple_group_expire_after_their_commit() -> None:
    play(
        """
    > commit a offset=5
    disk offset g t-0 5
    a <- NONE
    = g Empty 0 ()
    > wait 43200000
    > commit a offset=6 partition=1
    disk offset g t-1 6
    a <- NONE
    > wait 43200000
    86400000: disk delete offset
    > wait 43200000
    129600000: disk delete offset
    129600000: = g gone
    """,
        offsets_retention_ms=DAY_MS,
        retention_check_interval_ms=3600_000,
    )


def test_offsets_of_a_group_expire_after_its_last_member_left() -> None:
    script = Script(
        offsets_retention_ms=DAY_MS,
        retention_check_interval_ms=3600_000,
        max_session_timeout_ms=10 * DAY_MS,
    )
    script.play("""
    > join a v=3 session=864000000 topics=t
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
    # While the group subscribes to t, only offsets of other topics expire.
    > wait 86400000
    86400000: disk delete offset
    > leave a id=a-1
    disk group g
    a <- NONE
    = g Empty 2 ()
    > wait 82800000
    > wait 3600000
    172800000: disk delete offset
    172800000: disk delete group g
    172800000: = g gone
    """)


def test_nothing_expires_while_members_come_and_their_topics_are_not_settled() -> None:
    script = Script(
        offsets_retention_ms=1000, retention_check_interval_ms=60_000, max_session_timeout_ms=DAY_MS
    )
    script.play("""
    > join a v=3 session=86400000 rebalance=86400000 topics=t
    a <- id=a-1 gen=1 range leader=a-1 [a-1]
    = g CompletingRebalance 1 (a-1*)
    > sync a id=a-1 gen=1
    disk group g
    a <- range ''
    = g Stable 1 (a-1*)
    > commit a id=a-1 gen=1 offset=6 topic=u
    disk offset g u-0 6
    a <- NONE
    > join b v=3 topics=u
    = g PreparingRebalance 1 (a-1*, b-4)
    > wait 60000
    """)


def test_commit_with_its_own_retention_expires_then() -> None:
    play(
        """
    > commit a offset=5 retention=5000
    disk offset g t-0 5
    a <- NONE
    = g Empty 0 ()
    > commit a offset=6 partition=1
    disk offset g t-1 6
    a <- NONE
    > restart
    = g Empty 0 ()
    > wait 10000
    10000: disk delete offset
    """,
        retention_check_interval_ms=10_000,
    )


def test_empty_groups_without_offsets_are_forgotten() -> None:
    play(
        """
    > join a v=3
    a <- id=a-1 gen=1 range leader=a-1 [a-1]
    = g CompletingRebalance 1 (a-1*)
    > leave a id=a-1
    disk group g
    a <- NONE
    = g Empty 2 ()
    > list x
    x <- g:consumer:Empty
    > list x states=stable
    x <- none
    > list x states=stable,empty
    x <- g:consumer:Empty
    > wait 10000
    10000: disk delete group g
    10000: = g gone
    """,
        retention_check_interval_ms=10_000,
    )


LONG_MAX = 2**63 - 1


@pytest.mark.parametrize("retention_ms", [LONG_MAX, LONG_MAX - START_MS, LONG_MAX - START_MS + 1])
def test_retention_beyond_int64_is_clamped(retention_ms: int) -> None:
    script = Script()
    assert script.command(f"commit a offset=5 retention={retention_ms}")[:2] == [
        "disk offset g t-0 5",
        "a <- NONE",
    ]
    assert script.core.groups["g"].offsets[("t", 0)].expire_timestamp == LONG_MAX
    assert script.command("restart") == ["= g Empty 0 ()"]
    assert script.core.groups["g"].offsets[("t", 0)].expire_timestamp == LONG_MAX


def test_expiry_of_many_groups_is_done_in_steps_that_others_come_between() -> None:
    script = Script(offsets_retention_ms=1000)
    for i in range(4500):
        script.core.handle(
            script._commit("a", {"group": f"g{i}", "offset": "1"}), "a", script.moment()
        )
    script.ms = 600_000
    left = []
    for _ in range(10):
        script.core.on_timer(script.moment())
        left.append(len(script.core.groups))
        script.ms += 2
    assert left[:6] == [3500, 2500, 1500, 500, 0, 0]
    assert script.core.next_deadline() == pytest.approx(1000 + (600_008 + 600_000) / 1000)
