"""Metadata (key 3): where the topic is and who serves it, which is always this node.

There is one broker, the node that was asked, at the address that clients of the same listener can reach. A topic that
does not exist is never created. ``__cluster_metadata`` is not marked internal: clients hide internal topics, and
Spark reads nothing of them without saying so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.access import NOT_ASKED, Operation, cluster_operations, may, topic_operations
from gateway.handlers.errors import ErrorCode
from gateway.handlers.topic import METADATA_TOPIC_ID, PARTITION, TOPIC_NAME, is_valid_name
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

API_KEY: Final = 3
VERSIONS: Final = range(14)

#: The versions that answer with the operations allowed on the cluster (later ones have DescribeCluster for it).
_CLUSTER_OPERATIONS: Final = range(8, 11)
#: From here on a topic may be asked by id, and be without a name in the answer (KIP-516).
_BY_ID: Final = 12


def handle(request: MetadataRequest, context: Context) -> MetadataResponse:
    """Answer for the topics asked: null (in version 0: none) means all."""
    gateway = context.gateway
    endpoint = gateway.endpoint(context.peer.listener)
    response = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=gateway.node_id, host=endpoint.host, port=endpoint.port)],
        cluster_id=gateway.partition.cluster_id or None,  # not known before a quorum was met
        controller_id=gateway.node_id,
        topics=_all_topics(request, context) if _asks_all(request, context) else _topics(request, context),
    )
    if context.version in _CLUSTER_OPERATIONS and request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(context)
    return response


def _asks_all(request: MetadataRequest, context: Context) -> bool:
    return request.topics is None or (context.version == 0 and not request.topics)


def _all_topics(request: MetadataRequest, context: Context) -> list[MetadataResponseTopic]:
    # What one may not describe is left out rather than refused: the question named nothing.
    return [_found(request, context)] if may(context, Operation.DESCRIBE, TOPIC_NAME) else []


def _topics(request: MetadataRequest, context: Context) -> list[MetadataResponseTopic]:
    # Kafka collects the names in a set: a request that repeats one gets one answer.
    asked = {(topic.name, topic.topic_id): topic for topic in request.topics or ()}
    return [_topic(topic, request, context) for topic in asked.values()]


def _topic(asked: MetadataRequestTopic, request: MetadataRequest, context: Context) -> MetadataResponseTopic:
    if context.version < _BY_ID and (asked.name is None or asked.topic_id != ZERO_UUID):
        # Versions 10 and 11 have the fields but not the meaning; Kafka refuses such a request whole.
        return MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=asked.name or "", topic_id=asked.topic_id)
    if asked.name is None or asked.topic_id != ZERO_UUID:
        return _by_id(asked, request, context)
    if not may(context, Operation.DESCRIBE, asked.name):
        return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=asked.name)
    if asked.name == TOPIC_NAME:
        return _found(request, context)
    fault = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_valid_name(asked.name) else ErrorCode.INVALID_TOPIC_EXCEPTION
    return MetadataResponseTopic(error_code=fault, name=asked.name)


def _by_id(asked: MetadataRequestTopic, request: MetadataRequest, context: Context) -> MetadataResponseTopic:
    if asked.topic_id != METADATA_TOPIC_ID:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id)
    if not may(context, Operation.DESCRIBE, TOPIC_NAME):
        fault = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return MetadataResponseTopic(error_code=fault, name=None, topic_id=asked.topic_id)
    return _found(request, context)


def _found(request: MetadataRequest, context: Context) -> MetadataResponseTopic:
    asked = context.version >= 8 and request.include_topic_authorized_operations
    return MetadataResponseTopic(
        name=TOPIC_NAME,
        topic_id=METADATA_TOPIC_ID,
        partitions=[_partition(context)],
        topic_authorized_operations=topic_operations(context, TOPIC_NAME) if asked else NOT_ASKED,
    )


def _partition(context: Context) -> MetadataResponsePartition:
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
