"""ListOffsets (key 2): returns the offset of a timestamp, or an end of the log for a negative one.

A consumer's latest offset is the end that its isolation level lets it see. There is no tiered
storage, so its offsets are unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from gateway.handlers.access import Operation, may
from gateway.handlers.apis import list_offsets_old
from gateway.handlers.topic import epoch_fault
from gateway.ports.services import Isolation, OffsetAt, State
from gateway.ports.streamed import Streamed, filled, respond
from kwire.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kwire.messages.old.list_offsets_request import ListOffsetsRequest as OldListOffsetsRequest
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from gateway.ports.services import Partition
    from kwire.message import Message
    from kwire.messages.list_offsets_request import (
        ListOffsetsPartition,
        ListOffsetsRequest,
        ListOffsetsTopic,
    )

API_KEY: Final = ApiKey.LIST_OFFSETS
VERSIONS: Final = range(12)
#: Version 0 answers with a list of offsets. Kafka 4.0 removed it and its schema (KIP-896).
OLD_REQUESTS: Final = {0: OldListOffsetsRequest}

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
#: The version from which on each special timestamp may be asked
#: (``ReplicaManager.timestampMinSupportedVersion``).
_SINCE: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,  # KIP-734
    EARLIEST_LOCAL: 8,  # KIP-405
    LATEST_TIERED: 9,  # KIP-1005
    EARLIEST_PENDING_UPLOAD: 11,  # KIP-1023
}
#: The first version whose clients know OFFSET_NOT_AVAILABLE (KIP-207).
_OFFSET_NOT_AVAILABLE: Final = 5
_NOWHERE: Final = OffsetAt(-1, -1, -1)
#: No record that the client may see has the timestamp.
_NOT_YET: Final = OffsetAt(-1, -1, -1)


def handle(request: Any, context: Context) -> Message | Streamed:
    """Return one offset for each partition (version 0: several); a repeated partition is refused
    once, as in Kafka.
    """
    return (
        list_offsets_old.handle(request, context)
        if context.version in OLD_REQUESTS
        else _handle(request, context)
    )


def _handle(request: ListOffsetsRequest, context: Context) -> Message | Streamed:
    count = Counter(
        (topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    )
    repeated = {key for key, times in count.items() if times > 1}
    policy = context.gateway.partitions.policy
    isolation = policy.isolation(request.replica_id, request.isolation_level)

    refused: set[tuple[str, int]] = set()

    def partitions(topic: ListOffsetsTopic) -> Iterator[ListOffsetsPartitionResponse]:
        for partition in topic.partitions:
            key = topic.name, partition.partition_index
            if key in refused:
                continue
            response = _answer(topic, partition, repeated, isolation, context)
            if response.error_code == ErrorCode.INVALID_REQUEST:
                refused.add(key)
            yield response

    topics = (
        filled(ListOffsetsTopicResponse(name=topic.name), "partitions", partitions(topic))
        for topic in request.topics
    )
    size = len(request.topics) + count.total()
    return respond(ListOffsetsResponse(), "topics", topics, size)


def _answer(
    topic: ListOffsetsTopic,
    asked: ListOffsetsPartition,
    repeated: set[tuple[str, int]],
    isolation: Isolation,
    context: Context,
) -> ListOffsetsPartitionResponse:
    log = _log(topic.name, asked, context)
    if (
        topic.name,
        asked.partition_index,
    ) in repeated and log is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        log = ErrorCode.INVALID_REQUEST
    if isinstance(log, ErrorCode):
        return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=log)
    found = _look_up(log, asked.timestamp, log.visible_end(isolation))
    # An earlier leader may have told of an offset that is above this high watermark: a client that
    # hears of a smaller one takes records for lost (KIP-207).
    is_unsure = log.is_lagging and isolation is not Isolation.LOG_END
    if is_unsure and (asked.timestamp == LATEST or found is _NOT_YET):
        return ListOffsetsPartitionResponse(
            partition_index=asked.partition_index, error_code=_not_available(context)
        )
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch if context.version >= 4 else -1,
    )


def _log(name: str, asked: ListOffsetsPartition, context: Context) -> Partition | ErrorCode:
    if not may(context, Operation.DESCRIBE, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if asked.timestamp < 0 and context.version < _SINCE.get(asked.timestamp, VERSIONS.stop):
        return ErrorCode.UNSUPPORTED_VERSION
    log = context.gateway.partitions.find(name, asked.partition_index)
    if isinstance(log, ErrorCode):
        return log
    if log.state is State.LOADING:
        # An error rather than offset 0: a client that takes an end below its own position for true
        # loses data, or stops (Spark).
        return _not_available(context)
    return epoch_fault(log, asked.current_leader_epoch) or log


def _not_available(context: Context) -> ErrorCode:
    if context.version >= _OFFSET_NOT_AVAILABLE:
        return ErrorCode.OFFSET_NOT_AVAILABLE
    return ErrorCode.LEADER_NOT_AVAILABLE


def _look_up(partition: Partition, timestamp: int, end: int) -> OffsetAt:
    """Return what is asked about the records below ``end``, which the consumer may see."""
    if timestamp == LATEST:
        return OffsetAt(end, -1, partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = partition.log_start_offset
        return OffsetAt(start, -1, partition.epoch_at(start))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _NOWHERE
    found = (
        partition.max_timestamp()
        if timestamp == MAX_TIMESTAMP
        else partition.offset_for_timestamp(timestamp)
    )
    return found if found is not None and found.offset < end else _NOT_YET
