"""DescribeTopicPartitions (key 75): topics and their partitions, a page at a time (KIP-966).

The lists of eligible leaders are empty rather than null: Java's ``describeTopics`` throws NullPointerException on null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.access import Operation, may, topic_operations
from gateway.handlers.errors import ErrorCode
from gateway.handlers.topic import METADATA_TOPIC_ID, PARTITION, TOPIC_NAME, is_valid_name
from gateway.ports import State
from kwire.messages.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from kwire.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest

API_KEY: Final = 75
VERSIONS: Final = range(1)

#: Partitions in one answer at most (Kafka's ``max.request.partition.size.limit``).
LIMIT_MAX: Final = 2000


def handle(request: DescribeTopicPartitionsRequest, context: Context) -> DescribeTopicPartitionsResponse:
    """Topics in the order of their names from the cursor on; none named means all. The next cursor is null at the end.

    INVALID_REQUEST for every topic named when the cursor's partition is negative.
    """
    cursor = request.cursor
    names = sorted({topic.name for topic in request.topics}) or [TOPIC_NAME]
    if cursor is not None and cursor.partition_index < 0:
        return DescribeTopicPartitionsResponse(topics=[_refused(name, ErrorCode.INVALID_REQUEST) for name in names])
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
    return _page(names, request, context)


def _page(names: list[str], request: DescribeTopicPartitionsRequest, context: Context) -> DescribeTopicPartitionsResponse:
    response = DescribeTopicPartitionsResponse()
    left = max(1, min(request.response_partition_limit, LIMIT_MAX))
    forbidden = []
    for name in names:
        if not may(context, Operation.DESCRIBE, name):
            if request.topics:  # of all topics, those one may not describe are left out
                forbidden.append(_refused(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        elif left == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        elif name == TOPIC_NAME:
            cursor = request.cursor
            first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
            topic = _found(first, context)
            left -= len(topic.partitions)
            response.topics.append(topic)
        else:
            known = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_valid_name(name) else ErrorCode.INVALID_TOPIC_EXCEPTION
            response.topics.append(_refused(name, known))
    response.topics.extend(forbidden)
    return response


def _refused(name: str, fault: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=fault, name=name)


def _found(first: int, context: Context) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=TOPIC_NAME,
        topic_id=METADATA_TOPIC_ID,
        partitions=[_partition(context)] if first <= PARTITION else [],
        topic_authorized_operations=topic_operations(context, TOPIC_NAME),
    )


def _partition(context: Context) -> DescribeTopicPartitionsResponsePartition:
    node, partition = context.gateway.node_id, context.gateway.partition
    loading = partition.state is State.LOADING
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if loading else ErrorCode.NONE,
        partition_index=PARTITION,
        leader_id=-1 if loading else node,
        leader_epoch=-1 if loading else partition.leader_epoch,
        replica_nodes=[node],
        isr_nodes=[node],
        eligible_leader_replicas=[],
        last_known_elr=[],
    )
