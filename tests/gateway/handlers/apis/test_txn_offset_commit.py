"""TxnOffsetCommit verifies the transaction, and has the group keep what the client may commit."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.broker.transactions.transaction import TopicPartition
from gateway.groups.events import CommitResult, TxnOffsetCommit
from gateway.handlers.apis import txn_offset_commit
from gateway.handlers.table import handlers
from gateway.ports.pending_response import PendingResponse, WorkType
from gateway.ports.work import completed
from kwire.protocol import ErrorCode
from kwire.uuid import Uuid
from tests.gateway.handlers.transaction_world import TransactionWorld
from tests.gateway.handlers.world import World, build, over_the_wire

#: The version with ids of topics.
BY_ID = 6
GROUPS = TopicPartition("__consumer_offsets", 7)


class MemoryGroups:
    """Keeps the events; answers each offset with ``error``."""

    def __init__(self) -> None:
        self.error = ErrorCode.NONE
        self.is_silent = False
        self.events: list[TxnOffsetCommit] = []

    def submit(self, event: TxnOffsetCommit, pending: Any) -> None:
        self.events.append(event)
        if self.is_silent:
            return
        pending.complete(CommitResult(errors=[self.error] * len(event.offsets)))


class OffsetsWorld(TransactionWorld):
    """A group coordinator, and a transaction that has the partition of the group."""

    def __init__(self, *, is_added: bool = True) -> None:
        super().__init__()
        self.groups = MemoryGroups()
        if is_added:
            self.transactions.driver.add(self.producer, GROUPS, name="pay")

    def commit_offsets(
        self, version: int, *wanted: tuple[str, int], **fields: Any
    ) -> list[ErrorCode]:
        """Commit offset 5 of each partition, and return the errors."""
        topics = []
        for name, index in wanted or [("t", 0)]:
            unknown = Uuid(bytes([9] * 16))
            topic_id = self.quorum_image.topic_ids.get(name, unknown)
            named = {"name": name} if version < BY_ID else {"topic_id": topic_id}
            partitions = [{"partition_index": index, "committed_offset": 5}]
            topics.append({**named, "partitions": partitions})
        fields = {"group_id": "g", **fields}
        answer = self.of(txn_offset_commit, version, topics=topics, **fields)
        return [ErrorCode(one.error_code) for topic in answer.topics for one in topic.partitions]


@pytest.mark.parametrize("version", txn_offset_commit.VERSIONS)
def test_offsets_get_to_the_group_with_their_producer(version: int) -> None:
    world = OffsetsWorld()
    assert world.commit_offsets(version) == [ErrorCode.NONE]
    (event,) = world.groups.events
    assert (event.group_id, event.producer_id, event.producer_epoch) == ("g", *world.producer)
    assert [(one.topic, one.partition, one.offset) for one in event.offsets] == [("t", 0, 5)]


@pytest.mark.parametrize("version", txn_offset_commit.VERSIONS)
def test_partition_that_is_not_in_the_transaction_is_added_or_refused(version: int) -> None:
    world = OffsetsWorld(is_added=False)
    expected = {
        6: ErrorCode.NONE,
        5: ErrorCode.NONE,
        4: ErrorCode.TRANSACTION_ABORTABLE,
    }.get(version, ErrorCode.INVALID_TXN_STATE)
    assert world.commit_offsets(version) == [expected]
    assert len(world.groups.events) == (version >= 5)
    known = world.transactions.driver.known("pay")
    assert known.partitions == ({GROUPS} if version >= 5 else frozenset())


@pytest.mark.parametrize("version", txn_offset_commit.VERSIONS)
def test_request_without_a_group_id_is_refused_before_its_transaction_is_looked_at(
    version: int,
) -> None:
    world = OffsetsWorld(is_added=False)
    assert world.commit_offsets(version, group_id="") == [ErrorCode.INVALID_GROUP_ID]
    assert not world.groups.events
    assert world.transactions.driver.known("pay").partitions == frozenset()


def test_fenced_producer_commits_nothing() -> None:
    world = OffsetsWorld(is_added=False)
    world.transactions.driver.producer("pay")
    assert world.commit_offsets(5) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert not world.groups.events


@pytest.mark.parametrize(
    ("version", "unknown"),
    [(5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (BY_ID, ErrorCode.UNKNOWN_TOPIC_ID)],
)
def test_each_partition_has_its_own_error(version: int, unknown: ErrorCode) -> None:
    world = OffsetsWorld()
    world.create("secret", [7])
    world.authorizer.forbidden.add(("READ", "TOPIC", "secret"))
    world.groups.error = ErrorCode.ILLEGAL_GENERATION
    assert world.commit_offsets(version, ("none", 0), ("t", 0), ("t", 9), ("secret", 0)) == [
        unknown,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ]


@pytest.mark.parametrize("version", txn_offset_commit.VERSIONS)
def test_coordinator_that_loads_is_named_to_clients_that_know_the_error(version: int) -> None:
    world = OffsetsWorld()
    world.groups.error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    known = version >= 2
    assert world.commit_offsets(version) == [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if known else ErrorCode.COORDINATOR_NOT_AVAILABLE
    ]


@pytest.mark.parametrize(
    ("forbidden", "error"),
    [
        (
            ("WRITE", "TRANSACTIONAL_ID", "pay"),
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        (("READ", "GROUP", "g"), ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ],
)
def test_client_without_a_permission_is_refused(
    forbidden: tuple[str, str, str], error: ErrorCode
) -> None:
    world = OffsetsWorld()
    world.authorizer.forbidden.add(forbidden)
    assert world.commit_offsets(5) == [error]


def test_group_without_a_partition_has_no_coordinator_yet() -> None:
    world = OffsetsWorld()
    world.transactions.offsets_partition = None
    assert world.commit_offsets(5) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_server_that_is_no_broker_refuses_every_client() -> None:
    topics = [{"name": "t", "partitions": [{"partition_index": 0}]}]
    answer = World().ask(txn_offset_commit, 5, transactional_id="pay", topics=topics)
    assert answer.topics[0].partitions[0].error_code == (
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    )


def test_commit_that_is_not_replicated_in_time_gets_coordinator_not_available() -> None:
    world = OffsetsWorld()
    world.groups.is_silent = True
    partitions = [{"partition_index": 0, "committed_offset": 5}]
    topics = [{"topic_id": world.quorum_image.topic_ids["t"], "partitions": partitions}]
    fields = {"group_id": "g", "topics": topics, "transactional_id": "pay"}
    producer = {"producer_id": world.producer.producer_id, "producer_epoch": world.producer.epoch}
    request_class = handlers()[txn_offset_commit.API_KEY].request_type(BY_ID)
    request = build(request_class, fields | producer)
    pending = txn_offset_commit.handle(request, world.context(BY_ID))
    if isinstance(pending, WorkType):
        pending = completed(pending)
    assert isinstance(pending, PendingResponse)
    assert pending.deadline == world.context(BY_ID).now + 5.0
    assert pending.expire is not None
    (topic,) = over_the_wire(pending.expire(), BY_ID).topics
    assert [one.error_code for one in topic.partitions] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
