"""Markers go to the leaders of their partitions: here, or to other brokers in one request each."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from gateway.broker.produce.refusal import BatchRefused
from gateway.broker.transactions.effects import WriteMarkers
from gateway.broker.transactions.transaction import TopicPartition
from gateway.ports.replicas import Appended
from gateway.server.broker.transaction_marker_channel_manager import (
    MarkerRequests,
    RemoteMarkers,
    TransactionMarkerChannelManager,
)
from kwire.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from kwire.protocol import ErrorCode

_HERE = 1
_T = [TopicPartition("t", number) for number in range(4)]
_GROUP = TopicPartition("__consumer_offsets", 0)


def effect(*partitions: TopicPartition, producer_id: int = 5, number: int = 9) -> WriteMarkers:
    return WriteMarkers(number, 3, producer_id, 2, True, 2, frozenset(partitions))


class World:
    """Two topics whose partitions have the leaders ``leaders``; notes what happens."""

    def __init__(self, **leaders: dict[int, int]) -> None:
        self.marked: list[tuple[int, TopicPartition, ErrorCode]] = []
        self.sent: list[tuple[int, RemoteMarkers]] = []
        self.offsets: list[tuple[int, int, bool]] = []
        self.outcome: Any = Appended(0, -1, 0)
        names = {"t": "t", "offsets": "__consumer_offsets"}
        image = SimpleNamespace(
            topic_ids={names[name]: name for name in leaders},
            partitions={
                name: {index: SimpleNamespace(leader=leader) for index, leader in of.items()}
                for name, of in leaders.items()
            },
        )
        loader: Any = SimpleNamespace(image=image)
        requests: Any = SimpleNamespace(send=lambda *sent: self.sent.append(sent))
        replicas: Any = self
        self.manager = TransactionMarkerChannelManager(
            _HERE, replicas, loader, requests, lambda *said: self.marked.append(said)
        )
        self.manager.on_offsets_marked = lambda *said: self.offsets.append(said)

    def find_writable(self, topic_id: Any, index: int) -> Any:
        if isinstance(self.outcome, ErrorCode):
            return self.outcome
        return SimpleNamespace(append_marker=self._append)

    def _append(self, *arguments: Any) -> None:
        assert arguments[:5] == (5, 2, True, 3, 2)
        arguments[5](self.outcome)


def test_partitions_of_another_broker_get_one_request() -> None:
    world = World(t={0: _HERE, 1: 2, 2: 3, 3: 2})
    world.manager.write(effect(*_T))
    assert world.marked == [(9, _T[0], ErrorCode.NONE)]
    assert [(broker, list(one.partitions)) for broker, one in world.sent] == [
        (2, [_T[1], _T[3]]),
        (3, [_T[2]]),
    ]
    world.sent[1][1].on_done(_T[2], ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert world.marked[-1] == (9, _T[2], ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_partition_without_leader_is_tried_again_and_a_deleted_one_is_not() -> None:
    world = World(t={0: -1})
    gone = TopicPartition("gone", 0)
    world.manager.write(effect(_T[0], _T[1], gone))
    assert sorted(world.marked) == [
        (9, gone, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (9, _T[0], ErrorCode.LEADER_NOT_AVAILABLE),
        (9, _T[1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


@pytest.mark.parametrize(
    "outcome", [ErrorCode.KAFKA_STORAGE_ERROR, BatchRefused(ErrorCode.KAFKA_STORAGE_ERROR, "")]
)
def test_partition_of_this_broker_that_takes_no_marker_says_why(outcome: Any) -> None:
    world = World(t={0: _HERE})
    world.outcome = outcome
    world.manager.write(effect(_T[0]))
    assert world.marked == [(9, _T[0], ErrorCode.KAFKA_STORAGE_ERROR)]


def test_groups_hear_of_markers_in_their_partitions_on_this_broker() -> None:
    world = World(t={0: _HERE}, offsets={0: _HERE})
    world.manager.write(effect(_T[0], _GROUP))
    assert world.offsets == [(5, 0, True)]
    assert len(world.marked) == 2


def test_markers_of_a_large_transaction_take_turns_and_are_sent_together() -> None:
    many = [TopicPartition("t", number) for number in range(4100)]
    world = World(t={number: 2 if number % 2 else _HERE for number in range(4100)})

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.manager.run)
            world.manager.write(effect(*many))
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    assert not world.marked
    trio.run(main)
    assert len(world.marked) == 2050
    assert [len(one.partitions) for _, one in world.sent] == [2000, 50]


def _remote(said: list[tuple[TopicPartition, ErrorCode]], producer_id: int = 5) -> RemoteMarkers:
    where = [_T[1], _T[2]]
    sent = effect(*where, producer_id=producer_id)
    return RemoteMarkers(sent, where, lambda *one: said.append(one))


@pytest.mark.parametrize("version", [1, 2])
def test_request_has_each_producer_once_and_is_read_by_brokers(version: int) -> None:
    said: list[tuple[TopicPartition, ErrorCode]] = []
    waiting = deque([_remote(said, producer_id) for producer_id in (5, 6, 5, 7)])
    kind = MarkerRequests()
    first = kind.take(waiting)
    assert [one.effect.producer_id for one in first] == [5, 6]
    assert [one.effect.producer_id for one in kind.take(waiting)] == [5, 7]
    sent = kind.request(first)
    marker = type(sent).decode(sent.encode(version), version).markers[0]
    assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (5, 2, True)
    assert marker.coordinator_epoch == 3
    assert marker.transaction_version == (2 if version > 1 else 0)
    assert [(one.name, one.partition_indexes) for one in marker.topics] == [("t", [1, 2])]


def test_answers_reach_their_partitions_and_missing_ones_are_written_again() -> None:
    said: list[tuple[TopicPartition, ErrorCode]] = []
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    results = [WritableTxnMarkerPartitionResult(partition_index=1, error_code=unknown)]
    topics = [WritableTxnMarkerTopicResult(name="t", partitions=results)]
    response = WriteTxnMarkersResponse(
        markers=[WritableTxnMarkerResult(producer_id=5, topics=topics)]
    )
    MarkerRequests().answered([_remote(said)], response)
    MarkerRequests().answered([_remote(said)], None)
    assert said == [
        # Its broker may not have heard of the topic yet.
        (_T[1], ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (_T[2], ErrorCode.NETWORK_EXCEPTION),
        (_T[1], ErrorCode.NETWORK_EXCEPTION),
        (_T[2], ErrorCode.NETWORK_EXCEPTION),
    ]
