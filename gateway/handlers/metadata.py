"""Metadata (key 3): which topics there are, where their partitions are, and how the nodes can be reached.

The metadata log is served by every node, at the address that clients of the same listener can reach; other topics are there
where this node is part of a quorum of its own. A topic that does not exist is never created. ``__cluster_metadata`` is not
marked internal: clients hide internal topics, and Spark reads nothing of them without saying so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from gateway.handlers.access import NOT_ASKED, Operation, cluster_operations, may, topic_operations
from gateway.handlers.catalog import Topic, topic_named, topic_names, topic_with_id
from gateway.handlers.errors import ErrorCode
from gateway.handlers.nodes import Node, reachable_nodes
from gateway.handlers.topic import INTERNAL_TOPICS, PARTITION, is_valid_name
from gateway.ports import State
from kwire.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kwire.uuid import ZERO_UUID

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from kwire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
    from kwire.messages.partition_record import PartitionRecord

API_KEY: Final = 3
VERSIONS: Final = range(14)

#: The versions that answer with the operations allowed on the cluster (later ones have DescribeCluster for it).
_CLUSTER_OPERATIONS: Final = range(8, 11)
#: From here on a topic may be asked by id, and be without a name in the answer (KIP-516).
_BY_ID: Final = 12


def handle(request: MetadataRequest, context: Context) -> MetadataResponse:
    """Answer for the topics asked: null (in version 0: none) means all."""
    gateway = context.gateway
    answer = _Answer(request, context)
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node_id, host=node.host, port=node.port, rack=node.rack)
            for node_id, node in answer.nodes.items()
        ],
        cluster_id=gateway.partition.cluster_id or None,  # not known before a quorum was met
        controller_id=gateway.node_id,  # every node takes what is for the controller
        topics=answer.all_topics() if _asks_all(request, context) else answer.topics(),
    )
    if context.version in _CLUSTER_OPERATIONS and request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(context)
    return response


def _asks_all(request: MetadataRequest, context: Context) -> bool:
    return request.topics is None or (context.version == 0 and not request.topics)


class _Answer:
    """One request while its topics are looked up."""

    def __init__(self, request: MetadataRequest, context: Context) -> None:
        self._request = request
        self._context = context
        self.nodes = reachable_nodes(context)

    def all_topics(self) -> list[MetadataResponseTopic]:
        # What one may not describe is left out rather than refused: the question named nothing.
        allowed = (name for name in topic_names(self._context) if may(self._context, Operation.DESCRIBE, name))
        return [self._found(topic) for name in allowed if (topic := topic_named(name, self._context)) is not None]

    def topics(self) -> list[MetadataResponseTopic]:
        # Kafka collects the names in a set: a request that repeats one gets one answer.
        asked = {(topic.name, topic.topic_id): topic for topic in self._request.topics or ()}
        return [self._topic(topic) for topic in asked.values()]

    def _topic(self, asked: MetadataRequestTopic) -> MetadataResponseTopic:
        if asked.name is None or asked.topic_id != ZERO_UUID:
            if self._context.version < _BY_ID:
                # Versions 10 and 11 have the fields but not the meaning; Kafka refuses such a request whole.
                fault = ErrorCode.INVALID_REQUEST
                return MetadataResponseTopic(error_code=fault, name=asked.name or "", topic_id=asked.topic_id)
            return self._by_id(asked)
        if not may(self._context, Operation.DESCRIBE, asked.name):
            return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=asked.name)
        topic = topic_named(asked.name, self._context)
        if topic is not None:
            return self._found(topic)
        fault = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_valid_name(asked.name) else ErrorCode.INVALID_TOPIC_EXCEPTION
        return MetadataResponseTopic(error_code=fault, name=asked.name)

    def _by_id(self, asked: MetadataRequestTopic) -> MetadataResponseTopic:
        topic = topic_with_id(asked.topic_id, self._context)
        if topic is None:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id)
        if not may(self._context, Operation.DESCRIBE, topic.name):
            fault = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return MetadataResponseTopic(error_code=fault, name=None, topic_id=asked.topic_id)
        return self._found(topic)

    def _found(self, topic: Topic) -> MetadataResponseTopic:
        context = self._context
        asked = context.version >= 8 and self._request.include_topic_authorized_operations
        if topic.partitions is None:
            partitions = [_of_metadata_log(context)]
        else:
            partitions = [_partition(topic.partitions[index], self.nodes) for index in sorted(topic.partitions)]
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=partitions,
            topic_authorized_operations=topic_operations(context, topic.name) if asked else NOT_ASKED,
        )


def _partition(record: PartitionRecord, nodes: Mapping[int, Node]) -> MetadataResponsePartition:
    led = record.leader in nodes
    return MetadataResponsePartition(
        error_code=ErrorCode.NONE if led else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=record.partition_id,
        leader_id=record.leader if led else -1,
        leader_epoch=record.leader_epoch,
        replica_nodes=record.replicas,
        isr_nodes=record.isr,
        offline_replicas=[node_id for node_id in record.replicas if node_id not in nodes],
    )


def _of_metadata_log(context: Context) -> MetadataResponsePartition:
    node, partition = context.gateway.node_id, context.gateway.partition
    if partition.state is State.LOADING:
        # As Kafka in an election: the partition is there, who leads it is not known yet. Clients ask again.
        fault = ErrorCode.LEADER_NOT_AVAILABLE
        return MetadataResponsePartition(
            error_code=fault, partition_index=PARTITION, leader_id=-1, replica_nodes=[node], isr_nodes=[node]
        )
    return MetadataResponsePartition(
        partition_index=PARTITION,
        leader_id=node,
        leader_epoch=partition.leader_epoch,
        replica_nodes=[node],
        isr_nodes=[node],
    )
