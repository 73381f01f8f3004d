"""Fetch sessions (KIP-227): responses name only partitions with news, and requests only changes."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from gateway.handlers.apis import fetch
from gateway.handlers.fetch_sessions import FetchSessionCache
from gateway.ports.pending_response import PendingResponse
from gateway.ports.services import Partition, State
from kwire.protocol import ErrorCode
from kwire.uuid import Uuid
from tests.gateway.handlers.apis.test_fetch import BY_ID, BY_NAME, data_of, one
from tests.gateway.handlers.own_world import OwnWorld
from tests.gateway.handlers.world import NODE, MemoryPartition, World, over_the_wire


class Replicas:
    """The partitions of a test, by topic id and number."""

    are_throttled = False

    def __init__(self) -> None:
        self.partitions: dict[tuple[Uuid, int], MemoryPartition] = {}
        self.fetched: list[tuple[int, bool]] = []

    def count_fetch(self, partition: Partition, size: int, *, of_follower: bool) -> None:
        self.fetched.append((size, of_follower))

    def find(self, record: Any) -> Partition | ErrorCode:
        found = self.partitions.get((record.topic_id, record.partition_id))
        if found is not None and found.state is State.BROKEN:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if found is None else found


class DataWorld(OwnWorld):
    """A broker with the topic ``orders`` of ``count`` empty partitions."""

    def __init__(self, count: int = 3) -> None:
        super().__init__()
        self.replicas = Replicas()
        self.create("orders", *[[NODE]] * count)
        self.id = self.quorum_image.topic_ids["orders"]
        self.logs = [MemoryPartition() for _ in range(count)]
        for index, log in enumerate(self.logs):
            self.replicas.partitions[self.id, index] = log

    def fetch(self, session: tuple[int, int], offsets: Any = (), **more: Any) -> Any:
        """Fetch within a session: {partition: offset} that changed; the answer or the pending
        response.
        """
        version = more.pop("version", BY_ID)
        fields: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20}
        fields |= {"session_id": session[0], "session_epoch": session[1], **more}
        name = {"topic_id": self.id} if version >= 13 else {"topic": "orders"}
        asked = [
            {"partition": index, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
            for index, offset in dict(offsets).items()
        ]
        fields["topics"] = [{**name, "partitions": asked}] if asked else []
        return World.ask(self, fetch, version, **fields)

    def begin(self, **more: Any) -> int:
        """Begin a session of all partitions at offset 0, and return its id."""
        answer = self.fetch((0, 0), dict.fromkeys(range(len(self.logs)), 0), **more)
        assert answer.session_id > 0
        return int(answer.session_id)


def named(answer: Any) -> dict[int, int]:
    """The partitions in an answer, with the bytes of their records."""
    return {
        data.partition_index: len(data.records)
        for topic in answer.responses
        for data in topic.partitions
    }


def errors(answer: Any) -> dict[int, int]:
    """The partitions in an answer, with their errors."""
    return {
        data.partition_index: data.error_code
        for topic in answer.responses
        for data in topic.partitions
    }


@pytest.mark.parametrize("version", range(7, 19))
def test_incremental_fetch_of_an_unknown_session_is_refused(version: int) -> None:
    session: dict[str, Any] = {"session_id": 77, "session_epoch": 1}
    answer = World().ask(fetch, version, max_wait_ms=500, min_bytes=1, **session)
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (answer.session_id, answer.responses) == (0, [])


def test_full_fetch_with_the_initial_epoch_begins_a_session() -> None:
    world = World()
    answer = world.ask(fetch, BY_ID, **one(BY_ID, 0), session_id=77, session_epoch=0)
    assert answer.error_code == 0 and answer.session_id > 0
    assert data_of(answer).error_code == 0 and len(world.fetch_sessions) == 1


def test_full_fetch_with_the_final_epoch_ends_its_session_and_begins_none() -> None:
    world = World()
    begun = world.ask(fetch, BY_ID, **one(BY_ID, 0), session_epoch=0).session_id
    answer = world.ask(fetch, BY_ID, **one(BY_ID, 0), session_id=begun, session_epoch=-1)
    assert (answer.session_id, len(world.fetch_sessions)) == (0, 0)


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
def test_partition_is_named_only_when_it_has_news(version: int) -> None:
    world = DataWorld()
    session = world.begin(version=version)
    assert named(world.fetch((session, 1), version=version)) == {}
    world.logs[1].append(2)
    assert named(world.fetch((session, 2), version=version)) == {1: 100}
    # Records come again until the client asks for later ones.
    assert named(world.fetch((session, 3), version=version)) == {1: 100}
    assert named(world.fetch((session, 4), {1: 2}, version=version)) == {}


@pytest.mark.parametrize("waits", [False, True])
def test_idle_session_hears_that_a_log_broke_until_it_can_be_read_again(waits: bool) -> None:
    world = DataWorld()
    session, log = world.begin(), world.logs[1]
    world.fetch((session, 1))
    pending = world.fetch((session, 2), max_wait_ms=500) if waits else None
    log.state = State.BROKEN
    for callback in list(log.listeners):
        callback()
    if isinstance(pending, PendingResponse):
        answer = pending.ready() if pending.ready is not None else None
    else:
        answer = world.fetch((session, 2))
    assert errors(answer) == {1: ErrorCode.KAFKA_STORAGE_ERROR}
    assert errors(world.fetch((session, 3))) == {1: ErrorCode.KAFKA_STORAGE_ERROR}
    log.state = State.READY
    assert errors(world.fetch((session, 4))) == {1: 0}
    assert errors(world.fetch((session, 5))) == {}


def test_moved_log_start_is_told_once() -> None:
    world = DataWorld()
    world.logs[0].append(5)
    session = world.begin()
    world.fetch((session, 1), {0: 5})
    world.logs[0].log_start_offset = 3
    for callback in list(world.logs[0].listeners):
        callback()
    answer = world.fetch((session, 2))
    assert [data.log_start_offset for t in answer.responses for data in t.partitions] == [3]
    assert named(world.fetch((session, 3))) == {}


def test_wrong_epoch_is_refused_and_the_right_one_still_served() -> None:
    world = DataWorld()
    session = world.begin()
    answer = world.fetch((session, 2))
    assert (answer.error_code, answer.session_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0)
    assert world.fetch((session, 1)).error_code == 0


def test_session_by_name_is_refused_in_a_version_with_ids_and_back() -> None:
    world = DataWorld()
    by_name, by_id = world.begin(version=BY_NAME), world.begin(version=BY_ID)
    for session, version in ((by_name, BY_ID), (by_id, BY_NAME)):
        answer = world.fetch((session, 1), version=version)
        assert answer.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_forgotten_partition_is_not_named_and_a_session_without_partitions_ends() -> None:
    world = DataWorld(2)
    session = world.begin()
    world.logs[0].append()
    world.logs[1].append()
    forgotten = [{"topic_id": world.id, "partitions": [0]}]
    answer = world.fetch((session, 1), forgotten_topics_data=forgotten)
    assert named(answer) == {1: 100}
    answer = world.fetch((session, 2), forgotten_topics_data=[{**forgotten[0], "partitions": [1]}])
    assert (answer.session_id, answer.responses, len(world.fetch_sessions)) == (0, [], 0)
    assert not any(log.listeners for log in world.logs)


def test_partition_with_an_error_is_named_each_time_until_it_is_well() -> None:
    world = DataWorld()
    log = world.replicas.partitions.pop((world.id, 2))
    session = world.begin()
    for epoch in (1, 2):
        assert named(world.fetch((session, epoch))) == {2: 0}
    world.replicas.partitions[world.id, 2] = log
    log.append()
    assert named(world.fetch((session, 3))) == {2: 100}


def test_topic_that_is_deleted_and_one_that_moved_are_told_without_records() -> None:
    world = DataWorld()
    session = world.begin()
    world.fetch((session, 1))
    del world.replicas.partitions[world.id, 1]
    world.create("others", [NODE])  # any change of topics
    answer = world.fetch((session, 2))
    [data] = answer.responses[0].partitions
    assert (data.partition_index, data.error_code) == (1, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_right_that_is_taken_away_ends_the_records() -> None:
    world = DataWorld()
    session = world.begin()
    world.fetch((session, 1))
    world.authorizer.forbidden = {("READ", "TOPIC", "*")}
    world.logs[0].append()
    [data] = world.fetch((session, 2)).responses[0].partitions
    assert data.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED and not len(data.records)


def test_waiting_fetch_hears_of_the_session_and_not_of_each_partition() -> None:
    world = DataWorld()
    session = world.begin()
    pending = world.fetch((session, 1), max_wait_ms=500)
    assert isinstance(pending, PendingResponse)
    [watched] = pending.partitions
    told: list[int] = []
    unsubscribe = watched.on_advance(lambda: told.append(1))
    world.logs[2].append()
    assert told == [1]
    unsubscribe()
    pending.try_complete()
    answers: list[Any] = []
    pending.attach(answers.append)
    assert named(over_the_wire(answers[0], BY_ID)) == {2: 100}
    world.logs[1].append()
    assert told == [1]


def test_waiting_fetch_is_refused_when_another_request_went_on_with_the_session() -> None:
    world = DataWorld()
    session = world.begin()
    pending = world.fetch((session, 1), max_wait_ms=500)
    world.logs[0].append()
    assert named(world.fetch((session, 2))) == {0: 100}
    pending.try_complete()
    answers: list[Any] = []
    pending.attach(answers.append)
    answer = over_the_wire(answers[0], BY_ID)
    assert answer.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert answer.session_id == session


def test_partitions_take_turns_where_the_response_is_too_small_for_all() -> None:
    world = DataWorld()
    for log in world.logs:
        log.append()
        log.append()
    session, served = world.begin(), []
    for epoch in range(1, 4):
        answer = world.fetch((session, epoch), max_bytes=100)
        served += [index for index, size in named(answer).items() if size]
    assert served == [0, 1, 2]


def test_bytes_of_all_partitions_together_are_limited_and_counted() -> None:
    world = DataWorld()
    for log in world.logs:
        log.append()
    offsets = dict.fromkeys(range(3), 0)
    assert named(world.fetch((0, -1), offsets, max_bytes=250)) == {0: 100, 1: 100, 2: 0}
    waits = {"min_bytes": 300, "max_wait_ms": 500}
    assert named(world.fetch((0, -1), offsets, **waits)) == {0: 100, 1: 100, 2: 100}
    assert isinstance(world.fetch((0, -1), offsets, **waits | {"min_bytes": 301}), PendingResponse)


def test_idle_session_looks_at_no_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    world = DataWorld(400)
    session = world.begin()
    world.fetch((session, 1))
    asked: list[Any] = []
    monkeypatch.setattr(Replicas, "find", lambda self, record: asked.append(record))
    monkeypatch.setattr(MemoryPartition, "bytes_available", lambda *_: asked.append(1))
    assert named(world.fetch((session, 2))) == {}
    assert asked == []


def test_session_of_many_partitions_is_begun_and_served_in_slices() -> None:
    world = DataWorld(1200)
    session = world.begin()
    world.logs[700].append()
    assert named(world.fetch((session, 1))) == {700: 100}
    assert named(world.fetch((session, 2), {700: 1})) == {}


def test_session_without_room_is_not_begun_and_one_that_outgrows_the_room_ends() -> None:
    world = DataWorld(3)
    world.fetch_sessions = FetchSessionCache(1000, secrets.randbelow, partitions_max=2)
    assert world.fetch((0, 0), {0: 0, 1: 0, 2: 0}).session_id == 0
    session = world.fetch((0, 0), {0: 0, 1: 0}).session_id
    assert session > 0
    answer = world.fetch((session, 1), {2: 0})
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(world.fetch_sessions) == 0
