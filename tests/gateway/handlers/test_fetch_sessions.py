"""The cache of Fetch sessions: which sessions go for others, ids and epochs."""

from __future__ import annotations

import secrets

import pytest

from gateway.handlers.fetch_sessions import (
    EVICTION_S,
    FetchedPartition,
    FetchSession,
    FetchSessionCache,
    next_epoch,
)
from kwire.protocol import ErrorCode
from kwire.uuid import ZERO_UUID


def create(cache: FetchSessionCache, size: int, now: float) -> FetchSession | None:
    session = cache.create(size, by_id=False, now=now)
    if session is not None:
        for index in range(size):
            cache.add(session, FetchedPartition("orders", ZERO_UUID, index))
    return session


def use(cache: FetchSessionCache, session: FetchSession, now: float) -> object:
    return cache.find(session.id, session.epoch, by_id=False, now=now)


def test_new_session_does_not_replace_one_that_is_in_use() -> None:
    cache = FetchSessionCache(1, secrets.randbelow)
    first = create(cache, 1, 0)
    assert first is not None
    assert create(cache, 100, EVICTION_S) is None
    assert use(cache, first, EVICTION_S) is first


def test_session_that_was_not_used_for_long_goes_first_whatever_its_size() -> None:
    cache = FetchSessionCache(2, secrets.randbelow)
    first, second = create(cache, 50, 0), create(cache, 1, 0)
    assert first is not None and second is not None
    use(cache, second, 10)
    assert create(cache, 1, EVICTION_S + 5) is not None
    assert use(cache, first, EVICTION_S + 5) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert use(cache, second, EVICTION_S + 5) is second
    assert (cache.evictions, cache.partition_count) == (1, 2)


@pytest.mark.parametrize(("size", "is_created"), [(3, True), (2, False)])
def test_larger_session_replaces_the_smallest_of_those_that_exist_for_long(
    size: int, is_created: bool
) -> None:
    cache, now = FetchSessionCache(2, secrets.randbelow), EVICTION_S + 1
    small, large = create(cache, 2, 0), create(cache, 9, 0)
    assert small is not None and large is not None
    use(cache, small, now)
    use(cache, large, now)
    assert (create(cache, size, now) is not None) is is_created
    assert (use(cache, small, now) is small) is not is_created


def test_cache_without_slots_begins_no_session() -> None:
    assert create(FetchSessionCache(0, secrets.randbelow), 1, 0) is None


def test_id_that_is_taken_is_not_given_again() -> None:
    numbers = iter([4, 4, 5])
    cache = FetchSessionCache(2, lambda _: next(numbers))
    sessions = [create(cache, 1, 0), create(cache, 1, 0)]
    assert [session and session.id for session in sessions] == [5, 6]


def test_epoch_after_the_last_is_the_first() -> None:
    assert (next_epoch(1), next_epoch(2**31 - 1)) == (2, 1)
