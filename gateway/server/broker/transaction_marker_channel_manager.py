"""Writes the markers of ended transactions: to partitions of this broker directly, to others by
WriteTxnMarkers to their leaders. Follows Kafka's ``TransactionMarkerChannelManager``.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from gateway.broker.transactions.transaction import TopicPartition
from gateway.ports.replicas import Appended
from gateway.server.broker.broker_requests import by_topic, take_each_once
from kwire.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kwire.protocol import ErrorCode, known_error
from kwire.protocol.topic import GROUP_METADATA_TOPIC

if TYPE_CHECKING:
    from gateway.broker.produce.refusal import BatchRefused
    from gateway.broker.transactions.effects import WriteMarkers
    from gateway.ports.replicas import Replicas
    from gateway.server.broker.broker_requests import BrokerRequests
    from gateway.sources.metadata_loader import MetadataLoader
    from kwire.messages.write_txn_markers_response import WriteTxnMarkersResponse
    from kwire.uuid import Uuid

#: Markers that are written at once; those of larger transactions take turns with other tasks.
_AT_ONCE: Final = 8
#: Partitions of one request, at most.
_PARTITIONS_MAX: Final = 2000


class RemoteMarkers(NamedTuple):
    """The markers of a transaction for partitions that another broker leads. ``on_done`` is called
    with each partition and its error.
    """

    effect: WriteMarkers
    partitions: Sequence[TopicPartition]
    on_done: Callable[[TopicPartition, ErrorCode], None]


class MarkerRequests:
    """``RequestKind`` of WriteTxnMarkers."""

    versions: Final = range(1, 3)

    def take(self, waiting: deque[RemoteMarkers]) -> list[RemoteMarkers]:
        """Take one marker a producer: the response tells them apart by it."""
        return take_each_once(waiting, lambda one: one.effect.producer_id, _PARTITIONS_MAX)

    def request(self, entries: Sequence[RemoteMarkers]) -> WriteTxnMarkersRequest:
        return WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(
                    producer_id=one.effect.producer_id,
                    producer_epoch=one.effect.producer_epoch,
                    transaction_result=one.effect.commits,
                    topics=[
                        WritableTxnMarkerTopic(name=topic, partition_indexes=numbers)
                        for topic, numbers in by_topic(one.partitions).items()
                    ],
                    coordinator_epoch=one.effect.coordinator_epoch,
                    transaction_version=one.effect.transaction_version,
                )
                for one in entries
            ]
        )

    def answered(
        self, entries: Sequence[RemoteMarkers], response: WriteTxnMarkersResponse | None
    ) -> None:
        """Tell the outcome of each marker; one without an answer is written again."""
        results = {} if response is None else _results(response)
        for one in entries:
            found = results.get(one.effect.producer_id, {})
            for where in one.partitions:
                one.on_done(where, found.get(where, ErrorCode.NETWORK_EXCEPTION))


def _results(
    response: WriteTxnMarkersResponse,
) -> dict[int, dict[TopicPartition, ErrorCode]]:
    return {
        one.producer_id: {
            TopicPartition(topic.name, of.partition_index): _error(of.error_code)
            for topic in one.topics
            for of in topic.partitions
        }
        for one in response.markers
    }


def _error(code: int) -> ErrorCode:
    """Return the error of a partition on another broker."""
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        # It may not have heard of the topic yet. Whether it is deleted is in this broker's image.
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return known_error(code)


class TransactionMarkerChannelManager:
    """The markers that are being written; :meth:`run` is the task.

    ``on_marked`` is called with the number of an effect, a partition and its error or NONE.
    """

    def __init__(
        self,
        node_id: int,
        replicas: Replicas,
        loader: MetadataLoader,
        requests: BrokerRequests[RemoteMarkers],
        on_marked: Callable[[int, TopicPartition, ErrorCode], None],
    ) -> None:
        self._node_id = node_id
        self._replicas = replicas
        self._loader = loader
        self._requests = requests
        self._on_marked = on_marked
        #: Is called with a producer, a partition of ``__consumer_offsets`` and whether it commits,
        #: when the partition has the marker: offsets of the transaction count from then on.
        self.on_offsets_marked: Callable[[int, int, bool], None] = lambda *_: None
        self._waiting: deque[WriteMarkers] = deque()
        self._wake = trio.Event()

    def write(self, effect: WriteMarkers) -> None:
        """Have the markers written, and call ``on_marked`` for each."""
        if len(effect.partitions) > _AT_ONCE:
            self._waiting.append(effect)
            self._wake.set()
            return
        remote: dict[int, list[TopicPartition]] = defaultdict(list)
        for where in sorted(effect.partitions):
            self._write(effect, where, remote)
        self._send(effect, remote)

    async def run(self) -> None:
        """Write the markers of large transactions, for ever."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            while self._waiting:
                effect = self._waiting.popleft()
                remote: dict[int, list[TopicPartition]] = defaultdict(list)
                for where in sorted(effect.partitions):
                    self._write(effect, where, remote)
                    await trio.lowlevel.checkpoint()
                self._send(effect, remote)

    def _write(
        self,
        effect: WriteMarkers,
        where: TopicPartition,
        remote: dict[int, list[TopicPartition]],
    ) -> None:
        """Write a marker here, or add its partition to those of its leader."""
        image = self._loader.image
        topic_id = image.topic_ids.get(where.topic)
        record = None if topic_id is None else image.partitions[topic_id].get(where.partition)
        if topic_id is None or record is None:
            self._on_marked(effect.number, where, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif record.leader < 0:
            self._on_marked(effect.number, where, ErrorCode.LEADER_NOT_AVAILABLE)
        elif record.leader != self._node_id:
            remote[record.leader].append(where)
        else:
            self._append(effect, where, topic_id)

    def _append(self, effect: WriteMarkers, where: TopicPartition, topic_id: Uuid) -> None:
        found = self._replicas.find_writable(topic_id, where.partition)
        if isinstance(found, ErrorCode):
            self._on_marked(effect.number, where, found)
            return
        found.append_marker(
            effect.producer_id,
            effect.producer_epoch,
            effect.commits,
            effect.coordinator_epoch,
            effect.transaction_version,
            partial(self._appended, effect, where),
        )

    def _appended(
        self, effect: WriteMarkers, where: TopicPartition, outcome: Appended | BatchRefused
    ) -> None:
        if not isinstance(outcome, Appended):
            self._on_marked(effect.number, where, outcome.error)
            return
        if where.topic == GROUP_METADATA_TOPIC:
            self.on_offsets_marked(effect.producer_id, where.partition, effect.commits)
        self._on_marked(effect.number, where, ErrorCode.NONE)

    def _send(self, effect: WriteMarkers, remote: dict[int, list[TopicPartition]]) -> None:
        done = partial(self._on_marked, effect.number)
        for leader, partitions in remote.items():
            for first in range(0, len(partitions), _PARTITIONS_MAX):
                some = partitions[first : first + _PARTITIONS_MAX]
                self._requests.send(leader, RemoteMarkers(effect, some, done))
