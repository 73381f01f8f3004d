"""A broker's fetcher: what it asks one leader for, and what the answers do."""

import math

import pytest

from gateway.broker.replica.fetcher import NAMED_MAX
from gateway.broker.replica.followed import (
    Append,
    CutTo,
    Locate,
    Position,
    StartAt,
    Status,
    Truncate,
)
from kwire.messages.fetch_response import LeaderIdAndEpoch
from kwire.protocol import ErrorCode
from tests.gateway.broker.replica.fetches import (
    BACKOFF_S,
    BROKER_EPOCH,
    OTHER,
    TOPIC,
    answer,
    data,
    diverging,
    fetcher,
    forgotten,
    named,
    request,
)

AT_10 = (4, 10, 3)


# --- requests
# -------------------------------------------------------------------------------------------------


def test_first_request_names_every_partition_with_its_position_and_the_broker() -> None:
    made, _ = fetcher(0, 1)
    first = request(made)
    assert named(first) == {0: AT_10, 1: AT_10}
    assert (first.session_id, first.session_epoch) == (0, 0)
    assert (first.replica_state.replica_id, first.replica_state.replica_epoch) == (1, BROKER_EPOCH)


def test_fetcher_without_partitions_has_no_request() -> None:
    made, _ = fetcher()
    assert made.request(0.0, BROKER_EPOCH) is None
    assert made.deadline() == math.inf


def test_request_in_a_session_names_only_partitions_that_moved() -> None:
    made, (first, _) = fetcher(0, 1)
    request(made)
    made.answered(answer(data(0, records=b"x", high_watermark=5)), 0.0)
    made.positioned(first, Position(0, 12, 4))
    again = request(made)
    assert named(again) == {0: (4, 12, 4)}
    assert (again.session_id, again.session_epoch, forgotten(again)) == (7, 1, [])


def test_partition_with_news_but_no_records_is_not_named_again() -> None:
    made, (first,) = fetcher(0)
    request(made)
    assert made.answered(answer(data(0, high_watermark=9)), 0.0) == [Append(first, None, 9, -1)]
    made.positioned(first, Position(0, 10, 3))
    assert named(request(made)) == {}


def test_partition_whose_log_is_busy_is_forgotten_and_comes_back() -> None:
    made, (first, _) = fetcher(0, 1)
    request(made)
    made.answered(answer(data(0, records=b"x")), 0.0)
    without = request(made)
    assert (named(without), forgotten(without)) == ({}, [0])
    made.answered(answer(), 0.0)
    made.positioned(first, Position(0, 10, 3))
    assert named(request(made)) == {0: AT_10}


def test_no_request_while_every_log_is_busy() -> None:
    made, (first,) = fetcher(0)
    request(made)
    made.answered(answer(data(0, records=b"x")), 0.0)
    assert made.request(0.0, BROKER_EPOCH) is None
    made.positioned(first, Position(0, 11, 4))
    assert forgotten(request(made)) == []


def test_partition_that_is_followed_no_more_is_forgotten_once() -> None:
    made, _ = fetcher(0, 1)
    request(made)
    made.answered(answer(), 0.0)
    made.unfollow(TOPIC, 0)
    assert forgotten(request(made)) == [0]
    made.answered(answer(), 0.0)
    assert forgotten(request(made)) == []


def test_new_leader_epoch_is_named_and_not_forgotten() -> None:
    made, _ = fetcher(0)
    request(made)
    made.answered(answer(), 0.0)
    made.unfollow(TOPIC, 0)
    made.follow(TOPIC, 0, 5, Position(0, 10, 3))
    again = request(made)
    assert (named(again), forgotten(again)) == ({0: (5, 10, 3)}, [])


def test_partition_of_a_topic_of_the_same_index_is_another_one() -> None:
    made, _ = fetcher(0)
    made.follow(OTHER, 0, 9, Position(0, 0, -1))
    assert len(made) == 2
    made.unfollow(OTHER, 0)
    assert named(request(made)) == {0: AT_10}


def test_leader_without_sessions_gets_those_without_records_first() -> None:
    made, (first, _) = fetcher(0, 1)
    request(made)
    made.answered(answer(data(0, records=b"x"), session=0), 0.0)
    made.positioned(first, Position(0, 11, 4))
    assert list(named(request(made))) == [1, 0]


def test_many_partitions_are_named_in_several_requests_without_a_wait_between() -> None:
    made, _ = fetcher(*range(NAMED_MAX + 2))
    first = request(made)
    made.answered(answer(), 0.0)
    second = request(made)
    made.answered(answer(), 0.0)
    third = request(made)
    assert len(named(first)) == NAMED_MAX
    assert sorted(named(second)) == [NAMED_MAX, NAMED_MAX + 1]
    assert [one.max_wait_ms for one in (first, second, third)] == [0, 500, 500]
    assert named(third) == {}


def test_leader_without_sessions_is_asked_for_many_partitions_in_turn() -> None:
    made, _ = fetcher(*range(NAMED_MAX + 2))
    request(made)
    made.answered(answer(session=0), 0.0)
    assert list(named(request(made)))[:2] == [NAMED_MAX, NAMED_MAX + 1]


def test_lag_is_what_the_leader_has_committed_and_the_log_lacks() -> None:
    made, (first, second) = fetcher(0, 1)
    request(made)
    assert made.partitions == [first, second] and first.lag == 0  # not known yet
    made.answered(answer(data(0, records=b"x", high_watermark=13), data(1, high_watermark=9)), 0.0)
    assert (first.lag, second.lag) == (3, 0)
    made.positioned(first, Position(0, 13, 4))
    assert first.lag == 0


# --- answers
# -------------------------------------------------------------------------------------------------


def test_records_are_a_step_with_the_leaders_high_watermark_and_log_start() -> None:
    made, (first,) = fetcher(0)
    request(made)
    steps = made.answered(
        answer(data(0, records=b"abc", high_watermark=12, log_start_offset=3)), 0.0
    )
    assert steps == [Append(first, b"abc", 12, 3)]
    assert first.status is Status.BUSY


@pytest.mark.parametrize(("behind", "is_compared"), [(0, True), (1, False)])
def test_leader_that_names_itself_has_compared_the_log(behind: int, is_compared: bool) -> None:
    made, (first,) = fetcher(0)
    request(made)
    named = LeaderIdAndEpoch(leader_id=2, leader_epoch=first.leader_epoch - behind)
    steps = made.answered(answer(data(0, log_start_offset=10, current_leader=named)), 0.0)
    assert steps == [Append(first, None, 0, 10, is_compared)]


def test_answer_of_an_older_leader_epoch_changes_nothing() -> None:
    made, _ = fetcher(0)
    request(made)
    made.follow(TOPIC, 0, 5, Position(0, 10, 3))
    assert made.answered(answer(data(0, records=b"abc")), 0.0) == []


def test_step_of_an_older_leader_epoch_does_not_move_the_new_one() -> None:
    made, (old,) = fetcher(0)
    request(made)
    made.answered(answer(data(0, records=b"abc")), 0.0)
    new = made.follow(TOPIC, 0, 5, Position(0, 10, 3))
    made.positioned(old, Position(0, 99, 4))
    made.back_off(old, 0.0)
    assert (new.position, new.status) == (Position(0, 10, 3), Status.READY)


def test_partition_that_was_not_asked_for_changes_nothing() -> None:
    made, _ = fetcher(0)
    request(made)
    assert made.answered(answer(data(1, records=b"abc")), 0.0) == []


def test_partition_that_comes_twice_in_an_answer_counts_once() -> None:
    made, (first,) = fetcher(0)
    request(made)
    steps = made.answered(answer(data(0, records=b"a"), data(0, records=b"b")), 0.0)
    assert steps == [Append(first, b"a", 0, -1)]


def test_diverging_epoch_is_a_truncation() -> None:
    made, (first,) = fetcher(0)
    request(made)
    assert made.answered(answer(diverging(0, 2, 6)), 0.0) == [Truncate(first, 2, 6)]


@pytest.mark.parametrize("end", [4, 6])
def test_log_of_which_the_leader_has_deleted_all_that_may_agree_begins_anew(end: int) -> None:
    made, (first,) = fetcher(0)
    request(made)
    one = diverging(0, 2, end)
    one.log_start_offset = 6
    assert made.answered(answer(one), 0.0) == [StartAt(first, 6)]


def test_diverging_epoch_without_an_end_is_a_pause() -> None:
    made, (first,) = fetcher(0)
    request(made)
    assert made.answered(answer(diverging(0, 2, -1)), 0.0) == []
    assert first.status is Status.WAITING


@pytest.mark.parametrize(
    ("leaders", "step"),
    [((0, 6), CutTo), ((6, 6), StartAt), ((15, 20), StartAt), ((3, 20), None), ((10, 10), None)],
)
def test_position_outside_of_the_leaders_log(leaders: tuple[int, int], step: type | None) -> None:
    made, (first,) = fetcher(0)
    request(made)
    out_of_range = data(0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    assert made.answered(answer(out_of_range), 0.0) == [Locate(first)]
    found = made.located(first, *leaders)
    assert (None if found is None else type(found)) is step


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_error_of_a_partition_is_a_pause_of_this_partition_alone(code: ErrorCode) -> None:
    made, (first, _) = fetcher(0, 1)
    request(made)
    assert made.answered(answer(data(0, error_code=code)), 10.0) == []
    assert (first.status, first.error) == (Status.WAITING, code)
    assert forgotten(request(made, 10.0)) == [0]
    made.answered(answer(), 10.0)
    assert named(request(made, 10.0 + BACKOFF_S)) == {0: AT_10}


def test_pause_of_the_only_partition_is_the_deadline() -> None:
    made, _ = fetcher(0)
    request(made)
    made.answered(answer(data(0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)), 10.0)
    assert made.request(10.0, BROKER_EPOCH) is None
    assert made.deadline() == 10.0 + BACKOFF_S
    assert forgotten(request(made, 10.0 + BACKOFF_S)) == []


def test_fenced_epoch_is_not_fetched_before_the_leader_has_another() -> None:
    made, (first,) = fetcher(0)
    request(made)
    made.answered(answer(data(0, error_code=ErrorCode.FENCED_LEADER_EPOCH)), 0.0)
    assert first.status is Status.STOPPED
    assert made.deadline() == math.inf
    made.follow(TOPIC, 0, 5, Position(0, 10, 3))
    assert named(request(made)) == {0: (5, 10, 3)}


# --- errors of the session and of the connection
# -------------------------------------------------------------------------------------------------


def test_session_that_the_leader_does_not_know_is_opened_anew_at_once() -> None:
    made, _ = fetcher(0)
    request(made)
    made.answered(answer(), 0.0)
    request(made)
    made.answered(answer(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND), 0.0)
    again = request(made)
    assert (again.session_id, again.session_epoch) == (0, 0)
    assert named(again) == {0: AT_10}


def test_sessions_lost_one_after_the_other_are_not_asked_for_in_a_busy_loop() -> None:
    made, _ = fetcher(0)
    for _ in range(2):
        request(made)
        made.answered(answer(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND), 0.0)
    assert made.request(0.0, BROKER_EPOCH) is None
    assert made.deadline() == BACKOFF_S


def test_other_error_of_the_whole_answer_is_a_pause() -> None:
    made, _ = fetcher(0)
    request(made)
    assert made.answered(answer(error=ErrorCode.UNKNOWN_SERVER_ERROR), 0.0) == []
    assert made.request(0.0, BROKER_EPOCH) is None


def test_request_without_an_answer_is_repeated_in_full_after_a_pause() -> None:
    made, _ = fetcher(0)
    request(made)
    made.answered(answer(), 0.0)
    request(made)
    made.failed(5.0)
    assert made.request(5.0, BROKER_EPOCH) is None
    again = request(made, 5.0 + BACKOFF_S)
    assert (again.session_id, again.session_epoch) == (7, 0)
    assert named(again) == {0: AT_10}


def test_throttled_partition_is_left_out_for_a_while_unless_it_is_in_sync() -> None:
    made, (first, second, third) = fetcher(0, 1, 2)
    request(made)
    made.answered(
        answer(data(0, high_watermark=99), data(1, high_watermark=10), data(2, high_watermark=99)),
        0.0,
    )
    for one in (first, second, third):
        made.positioned(one, Position(0, 10, 3))
    made.hold_back(0.0, lambda one: one is not third)
    assert forgotten(request(made)) == [0], "the second has everything, the third is not throttled"
    made.answered(answer(), 0.0)
    assert named(request(made, BACKOFF_S)) == {0: AT_10}
