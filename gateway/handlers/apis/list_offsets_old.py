"""ListOffsets version 0, which consumers of Kafka 0.8 and 0.9 send: returns a list of offsets.

Kafka 4.0 removed it (KIP-896). Kafka returned the base offsets of segments and the log end, newest
first, by the time of each file's last change (``legacyFetchOffsetsBefore``). Here the whole log is
one segment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from gateway.handlers.access import Operation, may
from gateway.ports.services import State
from gateway.ports.streamed import Streamed, filled, respond
from kwire.messages.old.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from gateway.ports.services import Partition
    from kwire.message import Message
    from kwire.messages.old.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest

LATEST: Final = -1
EARLIEST: Final = -2


def handle(request: ListOffsetsRequest, context: Context) -> Message | Streamed:
    """Return at most ``max_num_offsets`` offsets for each partition, in descending order."""
    topics = (
        filled(
            ListOffsetsTopicResponse(name=topic.name),
            "partitions",
            _answers(topic.name, topic.partitions, context),
        )
        for topic in request.topics
    )
    size = sum(1 + len(topic.partitions) for topic in request.topics)
    return respond(ListOffsetsResponse(), "topics", topics, size)


def _answers(
    name: str, partitions: Iterable[ListOffsetsPartition], context: Context
) -> Iterator[ListOffsetsPartitionResponse]:
    for one in partitions:
        yield _answer(name, one, context)


def _answer(
    name: str, asked: ListOffsetsPartition, context: Context
) -> ListOffsetsPartitionResponse:
    log = _log(name, asked, context)
    if isinstance(log, ErrorCode):
        return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=log)
    offsets = _offsets(log, asked.timestamp, context.wall_ms)[: max(0, asked.max_num_offsets)]
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index, old_style_offsets=offsets
    )


def _log(name: str, asked: ListOffsetsPartition, context: Context) -> Partition | ErrorCode:
    if not may(context, Operation.DESCRIBE, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    log = context.gateway.partitions.find(name, asked.partition_index)
    return (
        log
        if isinstance(log, ErrorCode) or log.state is not State.LOADING
        else ErrorCode.LEADER_NOT_AVAILABLE
    )


def _offsets(partition: Partition, timestamp: int, wall_ms: int) -> list[int]:
    end, start = partition.high_watermark, partition.log_start_offset
    if timestamp == LATEST:
        return [end, start] if end > start else [end]
    if timestamp == EARLIEST:
        return [start]
    newest = partition.max_timestamp()
    found = [end] if wall_ms <= timestamp and end > start else []
    return found + ([start] if newest is None or newest.timestamp <= timestamp else [])
