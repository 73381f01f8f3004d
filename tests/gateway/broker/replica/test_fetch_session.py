"""A Fetch session on the side of the follower (KIP-227)."""

from gateway.broker.replica.fetch_session import FetchSession

LAST_EPOCH = 2**31 - 1


def opened() -> FetchSession:
    session = FetchSession()
    session.answered(7)
    return session


def test_first_request_of_a_connection_asks_for_a_session() -> None:
    session = FetchSession()
    assert (session.id, session.epoch, session.is_full) == (0, 0, True)


def test_requests_of_an_open_session_count_from_one() -> None:
    session = opened()
    seen = [(session.id, session.epoch)]
    session.answered(7)
    seen.append((session.id, session.epoch))
    assert seen == [(7, 1), (7, 2)]
    assert not session.is_full


def test_leader_without_room_for_sessions_is_asked_in_full_each_time() -> None:
    session = FetchSession()
    session.answered(0)
    assert (session.id, session.epoch) == (0, 0)


def test_session_that_the_leader_closes_is_opened_again() -> None:
    session = opened()
    session.answered(0)
    assert (session.id, session.epoch) == (0, 0)


def test_session_that_the_leader_does_not_know_is_not_named_again() -> None:
    session = opened()
    session.lost()
    assert (session.id, session.epoch) == (0, 0)


def test_request_without_an_answer_has_its_session_closed_by_the_next_one() -> None:
    session = opened()
    session.restart()
    assert (session.id, session.epoch, session.is_full) == (7, 0, True)
    session.answered(8)
    assert (session.id, session.epoch) == (8, 1)


def test_epoch_behind_the_largest_one_is_one() -> None:
    session = opened()
    session.epoch = LAST_EPOCH
    session.answered(7)
    assert session.epoch == 1
