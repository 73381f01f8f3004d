"""DescribeProducers (key 61): describes the producers of partitions (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from gateway.handlers.access import Operation, may
from gateway.handlers.catalog import topic_named
from gateway.handlers.context import Handler
from gateway.ports.streamed import Streamed, filled, respond
from kwire.messages.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from gateway.ports.replicas import ActiveProducer
    from kwire.message import Message
    from kwire.messages.describe_producers_request import DescribeProducersRequest


def describe_producers(request: DescribeProducersRequest, context: Context) -> Message | Streamed:
    """Return each partition with its idempotent producers, or with the error of a partition that
    does not exist or may not be read.
    """
    topics = (
        filled(
            TopicResponse(name=topic.name),
            "partitions",
            _partitions(topic.name, topic.partition_indexes, context),
        )
        for topic in request.topics
    )
    size = sum(1 + len(topic.partition_indexes) for topic in request.topics)
    return respond(DescribeProducersResponse(), "topics", topics, size)


def _partitions(name: str, indexes: Iterable[int], context: Context) -> Iterator[PartitionResponse]:
    for index in indexes:
        yield _partition(name, index, context)


def _partition(name: str, index: int, context: Context) -> PartitionResponse:
    if not may(context, Operation.READ, name):
        return PartitionResponse(
            partition_index=index, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
        )
    found = context.gateway.partitions.find(name, index)
    return PartitionResponse(
        partition_index=index,
        error_code=found if isinstance(found, ErrorCode) else ErrorCode.NONE,
        active_producers=[
            ProducerState(
                producer_id=one.producer_id,
                producer_epoch=one.epoch,
                last_sequence=one.last_sequence,
                last_timestamp=one.last_timestamp,
                coordinator_epoch=one.coordinator_epoch,
                current_txn_start_offset=one.txn_start_offset,
            )
            for one in _producers(name, index, context)
        ],
    )


def _producers(name: str, index: int, context: Context) -> Sequence[ActiveProducer]:
    replicas, topic = context.gateway.replicas, topic_named(name, context)
    if replicas is None or topic is None:
        return ()
    partition = replicas.find_writable(topic.topic_id, index)
    return () if isinstance(partition, ErrorCode) else partition.producers()


HANDLERS: Final = (
    Handler(ApiKey.DESCRIBE_PRODUCERS, "describe_producers", range(1), describe_producers),
)
