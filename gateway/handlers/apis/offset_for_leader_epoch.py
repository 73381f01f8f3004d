"""OffsetForLeaderEpoch (key 23): returns the end of an epoch, with which a consumer detects that
the log was truncated (KIP-320).

A consumer takes a wrong result for lost data, so results are exactly those of Kafka's
``LeaderEpochFileCache``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.access import Operation, may, may_on_cluster
from gateway.handlers.topic import end_of_epoch, partition_fault
from gateway.ports.streamed import filled, respond
from kwire.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from gateway.ports.services import Partition
    from gateway.ports.streamed import Streamed
    from kwire.message import Message
    from kwire.messages.offset_for_leader_epoch_request import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderPartition,
        OffsetForLeaderTopic,
    )

API_KEY: Final = ApiKey.OFFSET_FOR_LEADER_EPOCH
VERSIONS: Final = range(2, 5)


def handle(request: OffsetForLeaderEpochRequest, context: Context) -> Message | Streamed:
    """Return the largest epoch up to the requested one, and its end offset; -1 and -1 for an epoch
    later than the current one.
    """

    def ends(topic: OffsetForLeaderTopic) -> OffsetForLeaderTopicResult | Streamed:
        partitions = (_answer(topic.topic, asked, context) for asked in topic.partitions)
        return filled(OffsetForLeaderTopicResult(topic=topic.topic), "partitions", partitions)

    size = len(request.topics) + sum(len(topic.partitions) for topic in request.topics)
    return respond(OffsetForLeaderEpochResponse(), "topics", map(ends, request.topics), size)


def _answer(topic: str, asked: OffsetForLeaderPartition, context: Context) -> EpochEndOffset:
    log = _log(topic, asked, context)
    fault = log if isinstance(log, ErrorCode) else partition_fault(log, asked.current_leader_epoch)
    if isinstance(log, ErrorCode) or fault:
        return EpochEndOffset(error_code=fault, partition=asked.partition)
    epoch, end = end_of_epoch(log, asked.leader_epoch)
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end)


def _log(topic: str, asked: OffsetForLeaderPartition, context: Context) -> Partition | ErrorCode:
    # Followers of old releases ask, too.
    if not (
        may(context, Operation.DESCRIBE, topic) or may_on_cluster(context, Operation.CLUSTER_ACTION)
    ):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return context.gateway.partitions.find(topic, asked.partition)
