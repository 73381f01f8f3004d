"""DescribeTopicPartitions (key 75): returns topics and their partitions, page by page (KIP-966).

The lists of eligible leader replicas are empty rather than null: Java's ``describeTopics`` throws
NullPointerException on null.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from gateway.handlers.access import Operation, may, topic_operations
from gateway.handlers.catalog import Topic, controller_image, names_in_order, topic_named
from gateway.handlers.nodes import Node, reachable_nodes
from gateway.handlers.topic import INTERNAL_TOPICS, PARTITION, is_valid_name
from gateway.ports.services import State
from gateway.ports.streamed import Streamed, filled, respond
from kwire.messages.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from kwire.message import Message
    from kwire.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest
    from kwire.messages.partition_record import PartitionRecord

API_KEY: Final = ApiKey.DESCRIBE_TOPIC_PARTITIONS
VERSIONS: Final = range(1)

#: Partitions in one response at most (``max.request.partition.size.limit``).
LIMIT_MAX: Final = 2000


def handle(request: DescribeTopicPartitionsRequest, context: Context) -> Message | Streamed:
    """Return topics in the order of their names from the cursor on; an empty list requests all.
    The next cursor is null after the last page.

    If the partition of the cursor is negative, every requested topic gets INVALID_REQUEST.
    """
    image = controller_image(context)
    size = max(
        len(request.topics),
        0 if image is None else len(image.topics),
        min(request.response_partition_limit, LIMIT_MAX),
    )
    response = DescribeTopicPartitionsResponse()
    return respond(response, "topics", _page(request, response, context), size)


def _names(request: DescribeTopicPartitionsRequest, context: Context) -> Iterator[str | None]:
    """Yield the requested names, or all, from the cursor on; None after each step of work."""
    cursor = request.cursor
    first = cursor.topic_name if cursor is not None and cursor.partition_index >= 0 else ""
    if not request.topics:
        return names_in_order(first, context)
    return iter(sorted({topic.name for topic in request.topics if topic.name >= first}))


def _page(
    request: DescribeTopicPartitionsRequest,
    response: DescribeTopicPartitionsResponse,
    context: Context,
) -> Iterator[DescribeTopicPartitionsResponseTopic | Streamed | None]:
    left, cursor = max(1, min(request.response_partition_limit, LIMIT_MAX)), request.cursor
    nodes = reachable_nodes(context)
    forbidden = []
    for name in _names(request, context):
        if name is None:
            yield None
            continue
        if cursor is not None and cursor.partition_index < 0:
            yield _refused(name, ErrorCode.INVALID_REQUEST)
            continue
        if not may(context, Operation.DESCRIBE, name):
            if request.topics:  # a request for all topics does not name those without DESCRIBE
                forbidden.append(_refused(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            yield None
            continue
        if left == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = topic_named(name, context)
        if topic is None and not request.topics:
            yield None  # it was deleted while the response was made
            continue
        if topic is None:
            known = (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if is_valid_name(name)
                else ErrorCode.INVALID_TOPIC_EXCEPTION
            )
            yield _refused(name, known)
            continue
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        indexes = [index for index in _indexes(topic) if index >= first]
        yield _found(topic, indexes[:left], nodes, context)
        if len(indexes) > left:
            response.next_cursor = Cursor(topic_name=name, partition_index=indexes[left])
            break
        left -= len(indexes)
    yield from forbidden


def _indexes(topic: Topic) -> list[int]:
    return [PARTITION] if topic.partitions is None else sorted(topic.partitions)


def _refused(name: str, fault: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=fault, name=name)


def _found(
    topic: Topic, indexes: list[int], nodes: Mapping[int, Node], context: Context
) -> DescribeTopicPartitionsResponseTopic | Streamed:
    found = DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        topic_authorized_operations=topic_operations(context, topic.name),
    )
    known = topic.partitions
    if known is None:
        found.partitions = [_of_metadata_log(context) for _ in indexes]
        return found
    return filled(found, "partitions", (_partition(known[index], nodes) for index in indexes))


def _partition(
    record: PartitionRecord, nodes: Mapping[int, Node]
) -> DescribeTopicPartitionsResponsePartition:
    led = record.leader in nodes
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if led else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=record.partition_id,
        leader_id=record.leader if led else -1,
        leader_epoch=record.leader_epoch,
        replica_nodes=record.replicas,
        isr_nodes=record.isr,
        eligible_leader_replicas=record.eligible_leader_replicas or [],
        last_known_elr=record.last_known_elr or [],
        offline_replicas=[node_id for node_id in record.replicas if node_id not in nodes],
    )


def _of_metadata_log(context: Context) -> DescribeTopicPartitionsResponsePartition:
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
