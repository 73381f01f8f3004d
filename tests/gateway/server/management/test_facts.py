"""Facts of the server: ready or not and why, and how far it is behind the leader."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.ports.services import State
from gateway.server.management.facts import Facts
from gateway.server.quorum.quorum_status import QuorumStatus, SnapshotProgress
from tests.gateway.server.watched import NOW, WALL, FakePartition, facts, quorum_status


def test_server_is_ready_when_its_log_is_read() -> None:
    assert facts().readiness() == (True, "ready", "", None)


@pytest.mark.parametrize("quorum", [None, quorum_status(last_answer_at=NOW)])
def test_stopping_server_is_not_ready(quorum: QuorumStatus | None) -> None:
    ready, state, reason, _ = facts(quorum=quorum, stopping=lambda: True).readiness()
    assert (ready, state) == (False, "stopping")
    assert "stopping" in reason


@pytest.mark.parametrize(
    ("quorum", "reason"),
    [
        (None, "The log is being read for the first time."),
        (quorum_status(), "No high watermark of the quorum is known yet."),
        (
            quorum_status(problem="ctl1:9093 refused."),
            "No high watermark of the quorum is known yet. ctl1:9093 refused.",
        ),
        (
            quorum_status(
                snapshot=SnapshotProgress("00000000000000000042-0000000007.checkpoint", 1000, 4000)
            ),
            "The snapshot 00000000000000000042-0000000007.checkpoint is being fetched:"
            " 1000 of 4000 bytes, 25 %.",
        ),
    ],
)
def test_reason_while_loading_names_what_is_missing(
    quorum: QuorumStatus | None, reason: str
) -> None:
    assert facts(FakePartition(State.LOADING), quorum).readiness() == (
        False,
        "loading",
        reason,
        None,
    )


def test_reason_of_a_damaged_log_names_the_place() -> None:
    ready, state, reason, _ = facts(
        FakePartition(State.BROKEN), problems=lambda: ["x.log, position 61: bad CRC"]
    ).readiness()
    assert (ready, state) == (False, "broken")
    assert "x.log, position 61: bad CRC." in reason


def test_unreachable_directory_is_stale() -> None:
    ready, state, reason, since = facts(
        FakePartition(State.STALE), problems=lambda: ["/data: gone"]
    ).readiness()
    assert (ready, state, since) == (False, "stale", None)
    assert "/data: gone." in reason


def test_silent_quorum_makes_the_server_stale_and_since_says_from_when() -> None:
    quorum = quorum_status(last_answer_at=NOW - 12.34, problem="ctl2:9093 does not answer.")
    ready, state, reason, since = facts(quorum=quorum).readiness()
    assert (ready, state) == (False, "stale")
    assert reason.startswith("The quorum has not answered for 12.3 s. ctl2:9093 does not answer. ")
    assert since == "2023-11-14T22:13:07Z"  # WALL is 22:13:20


def test_stale_partition_makes_the_server_stale_before_the_quorum_is_silent_for_long() -> None:
    assert (
        facts(FakePartition(State.STALE), quorum_status(last_answer_at=NOW - 3))
        .readiness()
        .reason.startswith("The quorum has not answered for 3.0 s.")
    )


@pytest.mark.parametrize(("age", "ready"), [(9.9, True), (10.1, False)])
def test_server_is_not_ready_after_ten_silent_seconds_of_the_quorum(
    age: float, ready: bool
) -> None:
    assert facts(quorum=quorum_status(last_answer_at=NOW - age)).readiness().ready is ready


@pytest.mark.parametrize(
    ("changes", "offsets", "ms"),
    [
        ({}, 3, 400),
        ({"leader_high_watermark": -1}, None, 400),
        ({"leader_high_watermark": 480}, 0, 400),  # a new leader knows less at first
        ({"last_caught_up_at": None}, 3, 60_000),  # never: since the start
    ],
)
def test_lag_counts_offsets_and_time_behind_the_leader(
    changes: dict[str, Any], offsets: int | None, ms: float
) -> None:
    told = facts(quorum=quorum_status(**changes))
    assert told.lag_offsets() == offsets
    assert told.lag_ms() == pytest.approx(ms)


def test_lag_is_unknown_without_a_quorum() -> None:
    assert (facts().lag_offsets(), facts().lag_ms(), facts().silent_s()) == (None, None, None)


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        ({}, 40),
        ({"complete_since": None}, 0),  # it has never caught up
        ({"last_caught_up_at": NOW - 10.1}, 0),
        ({"last_caught_up_at": NOW - 9.9}, 40),
        ({"observes": False}, None),
    ],
)
def test_copy_of_an_observer_is_complete_since_it_has_kept_up(
    changes: dict[str, Any], seconds: float | None
) -> None:
    assert facts(quorum=quorum_status(**changes)).complete_s() == seconds


def test_damaged_copy_is_not_complete() -> None:
    assert facts(FakePartition(State.BROKEN), quorum_status()).complete_s() == 0
    assert facts().complete_s() is None


def test_progress_of_a_snapshot_of_unknown_size_shows_its_position() -> None:
    assert str(SnapshotProgress("x", 5, 0)) == "5 bytes"


def test_facts_at_one_moment_keep_one_status_of_the_quorum() -> None:
    epochs = iter(range(10))
    changing = replace(facts(), quorum=lambda: quorum_status(epoch=next(epochs)))
    assert [epoch_of(changing) for _ in range(2)] == [0, 1]
    at_one_moment = changing.at_one_moment()
    assert [epoch_of(at_one_moment) for _ in range(2)] == [2, 2]


def epoch_of(shown: Facts) -> int:
    status = shown.quorum_status()
    assert status is not None
    return status.epoch


def test_times_of_day_are_utc() -> None:
    assert facts().utc(0) == "2023-11-14T22:13:20Z"
    assert facts(wall=lambda: WALL + 1).utc(1) == "2023-11-14T22:13:20Z"
