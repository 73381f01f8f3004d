"""Ready or not, and why; how far behind."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.ports import State
from gateway.server.management.facts import SnapshotProgress, UpstreamFacts, progress
from tests.gateway.server.watched import NOW, WALL, FakePartition, FakeUpstream, facts


def test_the_fake_of_these_tests_is_what_the_port_says() -> None:
    upstream: UpstreamFacts = FakeUpstream()
    assert upstream.leader_id == 2


def test_a_log_that_is_read_is_ready() -> None:
    assert facts().readiness() == (True, "ready", "", None)


@pytest.mark.parametrize("upstream", [None, FakeUpstream(last_answer_at=NOW)])
def test_no_client_is_sent_to_a_server_that_stops(upstream: FakeUpstream | None) -> None:
    ready, state, reason, _ = facts(upstream=upstream, stopping=lambda: True).readiness()
    assert (ready, state) == (False, "stopping")
    assert "stopping" in reason


@pytest.mark.parametrize(
    ("upstream", "reason"),
    [
        (None, "The log is being read for the first time."),
        (FakeUpstream(), "No high watermark of the quorum is known yet."),
        (
            FakeUpstream(problem="ctl1:9093 refused."),
            "No high watermark of the quorum is known yet. ctl1:9093 refused.",
        ),
        (
            FakeUpstream(
                snapshot=SnapshotProgress("00000000000000000042-0000000007.checkpoint", 1000, 4000)
            ),
            "The snapshot 00000000000000000042-0000000007.checkpoint is being fetched: 1000 of 4000 bytes, 25 %.",
        ),
    ],
)
def test_loading_says_what_is_waited_for(upstream: FakeUpstream | None, reason: str) -> None:
    assert facts(FakePartition(State.LOADING), upstream).readiness() == (
        False,
        "loading",
        reason,
        None,
    )


def test_a_broken_log_says_where() -> None:
    ready, state, reason, _ = facts(
        FakePartition(State.BROKEN), problems=lambda: ["x.log, position 61: bad CRC"]
    ).readiness()
    assert (ready, state) == (False, "broken")
    assert "x.log, position 61: bad CRC." in reason


def test_a_directory_out_of_reach_is_stale() -> None:
    ready, state, reason, since = facts(
        FakePartition(State.STALE), problems=lambda: ["/data: gone"]
    ).readiness()
    assert (ready, state, since) == (False, "stale", None)
    assert "/data: gone." in reason


def test_a_silent_quorum_is_stale_whatever_the_partition_says_and_since_when() -> None:
    upstream = FakeUpstream(last_answer_at=NOW - 12.34, problem="ctl2:9093 does not answer.")
    ready, state, reason, since = facts(upstream=upstream).readiness()
    assert (ready, state) == (False, "stale")
    assert reason.startswith("The quorum has not answered for 12.3 s. ctl2:9093 does not answer. ")
    assert since == "2023-11-14T22:13:07Z"  # WALL is 22:13:20


def test_a_partition_that_is_stale_counts_before_the_time_is_over() -> None:
    assert (
        facts(FakePartition(State.STALE), FakeUpstream(last_answer_at=NOW - 3))
        .readiness()
        .reason.startswith("The quorum has not answered for 3.0 s.")
    )


@pytest.mark.parametrize(("age", "ready"), [(9.9, True), (10.1, False)])
def test_how_long_the_quorum_may_be_silent(age: float, ready: bool) -> None:
    assert facts(upstream=FakeUpstream(last_answer_at=NOW - age)).readiness().ready is ready


@pytest.mark.parametrize(
    ("changes", "offsets", "ms"),
    [
        ({}, 3, 400),
        ({"leader_high_watermark": -1}, None, 400),
        ({"leader_high_watermark": 480}, 0, 400),  # a new leader knows less at first
        ({"last_caught_up_at": None}, 3, 60_000),  # never: since the start
    ],
)
def test_lag(changes: dict[str, Any], offsets: int | None, ms: float) -> None:
    told = facts(upstream=FakeUpstream(**changes))
    assert told.lag_offsets() == offsets
    assert told.lag_ms() == pytest.approx(ms)


def test_there_is_no_lag_without_a_quorum() -> None:
    assert (facts().lag_offsets(), facts().lag_ms(), facts().silent_s()) == (None, None, None)


def test_progress_of_a_snapshot_whose_size_is_unknown() -> None:
    assert progress(SnapshotProgress("x", 5, 0)) == "5 bytes"


def test_moments_are_utc() -> None:
    assert facts().utc(0) == "2023-11-14T22:13:20Z"
    assert facts(wall=lambda: WALL + 1).utc(1) == "2023-11-14T22:13:20Z"
