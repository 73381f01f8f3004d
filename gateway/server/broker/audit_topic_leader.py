"""Appends entries to the audit topic at its leader: in this process, or by Produce to another
broker. Knows no audit log (``gateway.server.broker.audit_forwarder``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from gateway.broker.produce.validation import ProducedBatch
from gateway.ports.replicas import Appended
from gateway.ports.services import AUDIT_TOPIC, PARTITION
from gateway.server.node_client.errors import UpstreamError
from kwire.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kwire.protocol import ErrorCode, error_name
from kwire.records.header import read_header

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.broker.produce.refusal import BatchRefused
    from gateway.ports.replicas import ProducerIds, Replicas
    from gateway.server.broker.broker_connection import BrokerConnection
    from gateway.sources.metadata_loader import MetadataLoader
    from kwire.messages.partition_record import PartitionRecord
    from kwire.messages.produce_response import ProduceResponse

#: Those with topic names: a broker that does not know the id yet does not know the name either.
_VERSIONS: Final = range(7, 13)
_ALL: Final = -1
#: How long the leader waits for its followers, ms (``request.timeout.ms`` of a producer).
_TIMEOUT_MS: Final = 30_000
#: The leader has the batch already, among the producer's last five, or before them.
_KNOWN: Final = ErrorCode.DUPLICATE_SEQUENCE_NUMBER
#: The leader does not know the producer's last batch: a new producer has to begin.
_FENCED: Final = frozenset({
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
})  # fmt: skip


class NotAppended(Exception):
    """The leader has not acknowledged a batch; it may have it. The text says who failed and why.
    ``needs_producer``: the batch has to come from a new producer.
    """

    def __init__(self, reason: str, *, needs_producer: bool = False) -> None:
        super().__init__(reason)
        self.needs_producer = needs_producer


class AuditTopicLeader:
    """The leader of the partition in the image. One call at a time."""

    def __init__(
        self,
        node_id: int,
        loader: MetadataLoader,
        replicas: Replicas,
        producer_ids: ProducerIds,
        connect: Callable[[int], BrokerConnection],
    ) -> None:
        """``connect`` makes the connection to a broker, of the client id that may write the
        topic.
        """
        self._node_id = node_id
        self._loader = loader
        self._replicas = replicas
        self._producer_ids = producer_ids
        self._connect = connect
        self._connection: tuple[int, BrokerConnection] | None = None

    @property
    def partition(self) -> PartitionRecord | None:
        """The partition in the image; None before the topic is created."""
        image = self._loader.image
        topic_id = image.topic_ids.get(AUDIT_TOPIC)
        return None if topic_id is None else image.partitions[topic_id].get(PARTITION)

    async def new_producer(self) -> int:
        """Return a producer id that no other producer has. Raises NotAppended."""
        outcomes: list[int | ErrorCode] = []
        given = trio.Event()

        def take(outcome: int | ErrorCode) -> None:
            outcomes.append(outcome)
            given.set()

        self._producer_ids.allocate(take)
        await given.wait()
        (outcome,) = outcomes
        if isinstance(outcome, ErrorCode):
            raise NotAppended(f"no producer id: {outcome.name}")
        return outcome

    async def append(self, partition: PartitionRecord, batch: bytes) -> None:
        """Append a batch; return when all replicas in sync have it. Raises NotAppended."""
        leader = partition.leader
        if leader < 0:
            raise NotAppended(f"{AUDIT_TOPIC}-{PARTITION} has no leader")
        if leader == self._node_id:
            await self._close()
            error, message = await self._append_here(partition, batch)
        else:
            error, message = await self._produce(leader, batch)
        if error not in (ErrorCode.NONE, _KNOWN):
            why = f"broker {leader}: {error_name(error)}" + (f": {message}" if message else "")
            raise NotAppended(why, needs_producer=error in _FENCED)

    async def _append_here(self, partition: PartitionRecord, batch: bytes) -> tuple[int, str]:
        found = self._replicas.find_writable(partition.topic_id, partition.partition_id)
        if isinstance(found, ErrorCode):
            return found, ""
        if found.backlog.is_full:
            return ErrorCode.KAFKA_STORAGE_ERROR, "the disk does not keep up"
        outcomes: list[Appended | BatchRefused] = []
        done = trio.Event()

        def take(outcome: Appended | BatchRefused) -> None:
            outcomes.append(outcome)
            done.set()

        data = bytearray(batch)
        found.append(ProducedBatch(data, read_header(data), -1), take)
        await done.wait()
        (outcome,) = outcomes
        return (
            (ErrorCode.NONE, "")
            if isinstance(outcome, Appended)
            else (outcome.error, outcome.message)
        )

    async def _produce(self, leader: int, batch: bytes) -> tuple[int, str]:
        data = PartitionProduceData(index=PARTITION, records=batch)
        request = ProduceRequest(
            acks=_ALL,
            timeout_ms=_TIMEOUT_MS,
            topic_data=[TopicProduceData(name=AUDIT_TOPIC, partition_data=[data])],
        )
        if self._connection is None or self._connection[0] != leader:
            await self._close()
            self._connection = leader, self._connect(leader)
        try:
            response: ProduceResponse = await self._connection[1].call(
                request, _VERSIONS, more_s=_TIMEOUT_MS / 1000
            )
        except UpstreamError as error:
            raise NotAppended(str(error)) from error
        for topic in response.responses:
            for one in topic.partition_responses:
                return one.error_code, one.error_message or ""
        raise NotAppended(f"broker {leader}: its response to Produce has no partition")

    async def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection[1].close()
