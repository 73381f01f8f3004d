"""A batch of entries goes to the leader of the audit topic, here or at another broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio

from gateway.broker.produce.refusal import BatchRefused
from gateway.ports.replicas import Appended
from gateway.ports.services import AUDIT_TOPIC
from gateway.server.broker.audit_topic_leader import AuditTopicLeader, NotAppended
from gateway.server.node_client.errors import UpstreamError
from kwire.messages.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kwire.protocol import ErrorCode
from kwire.records import Record, encode_batch
from kwire.uuid import Uuid

HERE, THERE = 1, 2
TOPIC_ID = Uuid(bytes(15) + b"\1")
BATCH = encode_batch(
    [Record(offset=0, timestamp=5, value=b"a")], producer_id=3, producer_epoch=0, base_sequence=0
)


class World:
    """Node 1, and a partition with a ``leader``; ``outcome`` is what the next append gets."""

    def __init__(self, leader: int, outcome: Any = None) -> None:
        self.record: Any = SimpleNamespace(leader=leader, topic_id=TOPIC_ID, partition_id=0)
        self.outcome = Appended(0, -1, 0) if outcome is None else outcome
        self.is_full = False
        self.asked: list[Any] = []
        self.connections: list[int] = []
        self.closed = 0
        image = SimpleNamespace(
            topic_ids={AUDIT_TOPIC: TOPIC_ID}, partitions={TOPIC_ID: {0: self.record}}
        )
        loader: Any = SimpleNamespace(image=image)
        me: Any = self
        self.leader = AuditTopicLeader(HERE, loader, me, me, self._connect)

    # --- replicas and producer ids of the node

    def find_writable(self, topic_id: Uuid, index: int) -> Any:
        assert (topic_id, index) == (TOPIC_ID, 0)
        if isinstance(self.outcome, ErrorCode):
            return self.outcome
        backlog = SimpleNamespace(is_full=self.is_full)
        return SimpleNamespace(backlog=backlog, append=self._append)

    def _append(self, batch: Any, on_done: Any) -> None:
        self.asked.append(bytes(batch.data))
        assert batch.header.producer_id == 3
        on_done(self.outcome)

    def allocate(self, on_done: Any) -> None:
        on_done(self.outcome)

    # --- another broker

    def _connect(self, broker_id: int) -> Any:
        self.connections.append(broker_id)
        return self

    async def call(self, request: Any, versions: range, *, more_s: float) -> Any:
        self.asked.append(request)
        assert versions[-1] < 13 and more_s > 0, "by the name; as long as the leader may wait"
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    async def close(self) -> None:
        self.closed += 1

    def append(self) -> str:
        """Append a batch; the text of the error, "" without."""
        try:
            trio.run(self.leader.append, self.record, BATCH)
        except NotAppended as error:
            return f"{error}{' (new producer)' if error.needs_producer else ''}"
        return ""


def response(error: int, message: str | None = None) -> ProduceResponse:
    one = PartitionProduceResponse(index=0, error_code=error, error_message=message)
    return ProduceResponse(responses=[TopicProduceResponse(partition_responses=[one])])


def test_leader_of_this_node_appends_at_once() -> None:
    world = World(HERE)
    assert world.append() == "" and world.asked == [BATCH] and world.connections == []


def test_leader_elsewhere_gets_a_produce_request_that_all_replicas_acknowledge() -> None:
    world = World(THERE, response(0))
    assert world.append() == "" and world.append() == "" and world.connections == [THERE]
    (topic,) = world.asked[0].topic_data
    assert (world.asked[0].acks, topic.name) == (-1, AUDIT_TOPIC)
    assert [(one.index, one.records) for one in topic.partition_data] == [(0, BATCH)]


def test_connection_is_closed_when_the_leader_moves_here() -> None:
    world = World(THERE, response(0))
    world.append()
    world.record.leader, world.outcome = HERE, Appended(0, -1, 0)
    assert world.append() == "" and world.closed == 1


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, "broker 1: NOT_LEADER_OR_FOLLOWER"),
        (
            BatchRefused(ErrorCode.NOT_ENOUGH_REPLICAS, "1 of 2"),
            "broker 1: NOT_ENOUGH_REPLICAS: 1 of 2",
        ),
        (
            BatchRefused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ""),
            "broker 1: OUT_OF_ORDER_SEQUENCE_NUMBER (new producer)",
        ),
        (BatchRefused(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, ""), ""),
    ],
)
def test_refusal_of_this_node_names_broker_and_error(outcome: Any, text: str) -> None:
    assert World(HERE, outcome).append() == text


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (response(6), "broker 2: NOT_LEADER_OR_FOLLOWER"),
        (response(87, "no"), "broker 2: INVALID_RECORD: no"),
        (response(59), "broker 2: UNKNOWN_PRODUCER_ID (new producer)"),
        (response(47), "broker 2: INVALID_PRODUCER_EPOCH (new producer)"),
        (response(46), ""),
        (ProduceResponse(), "broker 2: its response to Produce has no partition"),
        (UpstreamError("h:1", "down"), "h:1: down"),
    ],
)
def test_refusal_of_another_broker_names_it_and_the_error(outcome: Any, text: str) -> None:
    assert World(THERE, outcome).append() == text


def test_slow_disk_is_given_no_further_batch() -> None:
    world = World(HERE)
    world.is_full = True
    assert "the disk does not keep up" in world.append() and world.asked == []


def test_partition_without_a_leader_gets_no_batch() -> None:
    assert "has no leader" in World(-1).append()


def test_producer_id_is_that_of_the_broker() -> None:
    world = World(HERE, 7)
    assert trio.run(world.leader.new_producer) == 7
    world.outcome = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    with pytest.raises(NotAppended, match="COORDINATOR_LOAD_IN_PROGRESS"):
        trio.run(world.leader.new_producer)
