"""Fetch of a follower: it gets the whole log, and tells its leader how far it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.handlers.apis import fetch
from gateway.handlers.context import Context
from gateway.ports.pending_response import PendingResponse
from gateway.ports.services import Isolation
from gateway.sources.data_partition import DataPartition
from kwire.protocol import ErrorCode
from kwire.uuid import Uuid
from tests.gateway.handlers.apis.test_fetch import BY_ID
from tests.gateway.handlers.own_world import OwnWorld
from tests.gateway.handlers.world import NODE, World
from tests.gateway.sources.data_partitions import batch_of, broker, partition, record, settle

PEER = 2


class Replicas:
    """The one partition of this broker."""

    def __init__(self, found: DataPartition) -> None:
        self.found = found
        self.finds = 0
        self.fetched: list[tuple[int, bool]] = []
        self.held_back: set[int] = set()  # followers that are throttled

    @property
    def are_throttled(self) -> bool:
        return bool(self.held_back)

    def holds_back(self, partition: DataPartition, follower: int) -> bool:
        assert partition is self.found
        return follower in self.held_back

    def count_fetch(self, partition: DataPartition, size: int, *, of_follower: bool) -> None:
        self.fetched.append((size, of_follower))

    def find(self, record: Any) -> DataPartition:
        self.finds += 1
        return self.found


class Led(OwnWorld):
    """A broker that leads the partition ``orders-0``, with a follower that is in sync; ``proposed``
    are the changes of the ISR.
    """

    def __init__(self, directory: Path, isr: tuple[int, ...] = (1, PEER)) -> None:
        super().__init__()
        self.now = 100.0
        self.proposed: list[Any] = []
        self.log = partition(
            directory / "orders-0",
            broker=broker(
                now=lambda: self.now, propose=lambda _, proposal: self.proposed.append(proposal)
            ),
        )
        self.log.lead(record(1, 1, PEER, isr=list(isr)))
        settle(self.log)
        self.replicas = Replicas(self.log)
        self.create("orders", [NODE])
        self.id = self.quorum_image.topic_ids["orders"]

    def context(self, *args: Any, **more: Any) -> Context:
        return replace(super().context(*args, **more), now=self.now)

    def append(self, *values: bytes) -> None:
        self.log.append(batch_of(*values), lambda outcome: None, until_committed=False)
        settle(self.log)

    def fetch(self, offset: int | None, replica: int = PEER, **more: Any) -> Any:
        """Fetch from ``offset``, or within a session without naming the partition."""
        return fetch_from(self, self.id, offset, replica, **more)


def fetch_from(world: World, topic_id: Uuid, offset: int | None, replica: int, **more: Any) -> Any:
    """Fetch partition 0 from ``offset``, or within a session without naming it."""
    fields: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20}
    asked = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    for key in ("current_leader_epoch", "last_fetched_epoch", "log_start_offset"):
        asked |= {key: more.pop(key)} if key in more else {}
    fields["replica_state"] = {"replica_id": replica, "replica_epoch": more.pop("epoch", 100)}
    topics = [] if offset is None else [{"topic_id": topic_id, "partitions": [asked]}]
    fields |= {"session_id": 0, "session_epoch": -1, "topics": topics, **more}
    return World.ask(world, fetch, BY_ID, **fields)


def data_of(answer: Any) -> Any:
    return answer.responses[0].partitions[0]


def test_follower_gets_the_log_end_and_a_consumer_the_high_watermark(tmp_path: Path) -> None:
    world = Led(tmp_path)
    world.append(b"a", b"b")
    data = data_of(world.fetch(0))
    assert len(data.records) > 0 and data.high_watermark == 0
    assert data_of(world.fetch(0, replica=-1)).records == b""
    world.fetch(2)
    assert world.log.high_watermark == 2
    assert len(data_of(world.fetch(0, replica=-1)).records) > 0


def test_response_has_the_high_watermark_that_the_request_has_moved(tmp_path: Path) -> None:
    world = Led(tmp_path)
    world.append(b"a")
    assert data_of(world.fetch(1)).high_watermark == 1


def test_follower_that_is_not_in_sync_joins(tmp_path: Path) -> None:
    world = Led(tmp_path, isr=(1,))
    world.append(b"a")
    world.fetch(0)
    assert world.proposed == []
    world.fetch(1)
    assert [tuple(one) for one in world.proposed[0].requested] == [(1, 100), (PEER, 100)]


@pytest.mark.parametrize("is_compared", [True, False])
def test_follower_hears_that_its_log_was_compared_before_the_records_were_deleted(
    tmp_path: Path, is_compared: bool
) -> None:
    world = Led(tmp_path)
    world.append(b"a", b"b")
    world.fetch(2, last_fetched_epoch=1)
    world.log.lead(record(2, 1, PEER))
    settle(world.log)
    if is_compared:
        answer = data_of(world.fetch(2, last_fetched_epoch=1))
        assert answer.current_leader.leader_epoch == -1  # the log start tells as much
    world.log.delete_records(2, lambda outcome: None)
    settle(world.log)
    answer = data_of(world.fetch(2, last_fetched_epoch=1))
    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.NONE, 2)
    named = answer.current_leader
    assert (named.leader_id, named.leader_epoch) == ((NODE, 2) if is_compared else (-1, -1))
    # A consumer compares its position itself.
    assert data_of(world.fetch(2, -1, last_fetched_epoch=1)).current_leader.leader_epoch == -1


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"replica": 3}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"epoch": 99}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"current_leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"current_leader_epoch": 2}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"offset": 2}, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_request_with_an_error_tells_nothing(
    tmp_path: Path, asked: dict[str, Any], error: ErrorCode
) -> None:
    world = Led(tmp_path)
    world.append(b"a")
    assert data_of(world.fetch(asked.pop("offset", 1), **asked)).error_code == error
    assert world.log.high_watermark == 0


def test_follower_whose_log_differs_tells_nothing(tmp_path: Path) -> None:
    world = Led(tmp_path)
    world.append(b"a")
    world.log.lead(record(3, 1, PEER))
    settle(world.log)
    world.append(b"b")
    data = data_of(world.fetch(2, last_fetched_epoch=2))
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (1, 1)
    assert world.log.high_watermark == 0


def test_follower_with_an_epoch_without_records_keeps_what_the_leader_has(tmp_path: Path) -> None:
    world = Led(tmp_path)
    world.append(b"a", b"b")
    world.log.lead(record(3, 1, PEER))
    settle(world.log)
    # It has led in epoch 2, and nothing was written: its log does not differ.
    data = data_of(world.fetch(2, last_fetched_epoch=2))
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (1, 2)


def test_following_needs_the_right_of_brokers(tmp_path: Path) -> None:
    world = Led(tmp_path)
    world.append(b"a")
    world.authorizer.forbidden = {("CLUSTER_ACTION", "CLUSTER", "kafka-cluster")}
    assert data_of(world.fetch(1)).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert world.log.high_watermark == 0
    world.authorizer.forbidden = {("READ", "TOPIC", "orders")}
    assert data_of(world.fetch(1)).error_code == 0


def test_waiting_follower_is_answered_by_an_append(tmp_path: Path) -> None:
    world = Led(tmp_path)
    pending = world.fetch(0, max_wait_ms=1000)
    assert isinstance(pending, PendingResponse)
    world.append(b"a")
    answers: list[Any] = []
    pending.attach(answers.append)
    pending.try_complete()
    assert len(data_of(answers[0]).records) > 0


def test_consumer_above_the_high_watermark_waits_until_it_is_there(tmp_path: Path) -> None:
    world = Led(tmp_path)
    world.append(b"a")
    pending = world.fetch(1, replica=-1, max_wait_ms=1000)
    assert isinstance(pending, PendingResponse)
    assert data_of(world.fetch(2, replica=-1)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_session_leaves_a_follower_out_that_has_everything_and_counts_its_requests(
    tmp_path: Path,
) -> None:
    world = Led(tmp_path)
    world.append(b"a")
    session = world.fetch(0, session_epoch=0).session_id
    world.fetch(1, session_id=session, session_epoch=1)
    world.fetch(None, session_id=session, session_epoch=2)
    world.now += 1000
    answer = world.fetch(None, session_id=session, session_epoch=3)
    assert answer.responses == []
    world.append(b"b")
    world.now += 29
    world.log.check_replicas(world.now)
    assert world.proposed == []
    world.now += 2
    world.log.check_replicas(world.now)
    assert [one.broker_id for one in world.proposed[0].requested] == [1]


def test_deletion_is_answered_when_the_follower_has_made_it(tmp_path: Path) -> None:
    world = Led(tmp_path)
    world.append(b"a", b"b")
    world.fetch(2, log_start_offset=0)
    outcomes: list[Any] = []
    world.log.delete_records(1, outcomes.append)
    settle(world.log)
    assert world.log.log_start_offset == 1 and outcomes == []
    assert data_of(world.fetch(2, log_start_offset=0)).log_start_offset == 1
    assert outcomes == []
    world.fetch(2, log_start_offset=1)
    assert outcomes == [1]


def test_end_of_the_log_is_told_to_replicas(tmp_path: Path) -> None:
    world = Led(tmp_path)
    world.append(b"a")
    assert world.log.visible_end(Isolation.LOG_END) == 1 and world.log.high_watermark == 0


@pytest.mark.parametrize("in_session", [False, True])
def test_follower_that_is_throttled_gets_no_records_until_it_is_not(
    tmp_path: Path, in_session: bool
) -> None:
    world = Led(tmp_path, isr=(1,))
    world.append(b"a")
    if in_session:
        world.replicas.held_back = {PEER}
        answer = world.fetch(0, session_epoch=0)
        more = {"session_id": answer.session_id, "session_epoch": 1}
    else:
        more = {}
    world.replicas.held_back = {PEER}
    answer = world.fetch(None if in_session else 0, **more)
    parts = [part for topic in answer.responses for part in topic.partitions]
    assert [bytes(one.records) for one in parts] == ([] if in_session else [b""])
    world.replicas.held_back = {PEER + 1}
    if in_session:
        more["session_epoch"] = 2
    answer = world.fetch(None if in_session else 0, **more)
    (part,) = [part for topic in answer.responses for part in topic.partitions]
    assert part.error_code == 0 and len(part.records) > 0


def test_throttled_follower_waits_and_hears_that_its_log_diverges(tmp_path: Path) -> None:
    world = Led(tmp_path, isr=(1,))
    world.append(b"a", b"b")
    world.replicas.held_back = {PEER}
    answer = world.fetch(1, max_wait_ms=1000)
    assert isinstance(answer, PendingResponse), "there is nothing to send"
    answer = world.fetch(2, max_wait_ms=1000, last_fetched_epoch=0)
    (part,) = answer.responses[0].partitions
    assert part.diverging_epoch.epoch >= 0


def test_log_of_a_session_is_found_again_only_after_topics_have_changed(tmp_path: Path) -> None:
    world = Led(tmp_path)
    session = world.fetch(0, session_epoch=0).session_id
    finds = world.replicas.finds
    for number in range(3):
        world.append(b"a")
        answer = world.fetch(number, session_id=session, session_epoch=1 + number)
        assert len(data_of(answer).records) > 0
    assert world.replicas.finds == finds
    world.create("others", [NODE])
    world.fetch(3, session_id=session, session_epoch=4)
    assert world.replicas.finds == finds + 1


def test_follower_without_the_right_of_brokers_is_refused_in_its_session(tmp_path: Path) -> None:
    world = Led(tmp_path)
    session = world.fetch(0, session_epoch=0).session_id
    world.append(b"a")
    assert data_of(world.fetch(0, session_id=session, session_epoch=1)).error_code == 0
    world.authorizer.forbidden = {("CLUSTER_ACTION", "CLUSTER", "kafka-cluster")}
    answer = world.fetch(1, session_id=session, session_epoch=2)
    assert data_of(answer).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
