"""Metadata (key 3): returns topics, the leaders of their partitions, and the addresses of nodes.

Every node serves the metadata log, at its address for clients of the same listener; other topics
exist if this node belongs to a quorum of kwire. A missing topic is never created.
``__cluster_metadata`` is not marked internal: clients hide internal topics, and Spark reads nothing
of them without an error.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from gateway.handlers.access import NOT_ASKED, Operation, cluster_operations, may, topic_operations
from gateway.handlers.catalog import (
    Topic,
    Topics,
    count_partitions,
    own_image,
    topic_named,
    topic_with_id,
)
from gateway.handlers.nodes import Node, reachable_nodes
from gateway.handlers.streamed import Streamed, respond
from gateway.handlers.topic import INTERNAL_TOPICS, PARTITION, is_valid_name
from gateway.handlers.work import WHOLE_MAX
from gateway.ports import State
from kwire.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kwire.protocol import ApiKey, ErrorCode
from kwire.uuid import ZERO_UUID, Uuid

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from kwire.message import Message
    from kwire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
    from kwire.messages.partition_record import PartitionRecord

    _Element = MetadataResponseTopic | Streamed

API_KEY: Final = ApiKey.METADATA
VERSIONS: Final = range(14)

#: The versions that return the operations allowed on the cluster; later clients use DescribeCluster
#: (KIP-700).
_CLUSTER_OPERATIONS: Final = range(8, 11)
#: More topics than this are looked up in slices: each takes a call of the authorizer, and may have
#: many partitions.
_LOOKED_UP_MAX: Final = 20
#: The first version that can request a topic by its id (KIP-516).
_BY_ID: Final = 12


def handle(request: MetadataRequest, context: Context) -> Message | Streamed:
    """Return the requested topics; null requests all, and in version 0 an empty list does."""
    gateway = context.gateway
    answer = _Answer(request, context)
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node_id, host=node.host, port=node.port, rack=node.rack)
            for node_id, node in answer.nodes.items()
        ],
        cluster_id=gateway.partition.cluster_id or None,  # unknown until a quorum has answered
        controller_id=gateway.node_id,  # every node forwards admin requests (KIP-590)
    )
    if context.version in _CLUSTER_OPERATIONS and request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(context)
    return answer.all_topics(response) if _asks_all(request, context) else answer.topics(response)


def _asks_all(request: MetadataRequest, context: Context) -> bool:
    return request.topics is None or (context.version == 0 and not request.topics)


class _Answer:
    """Builds the response to one request."""

    def __init__(self, request: MetadataRequest, context: Context) -> None:
        self._request = request
        self._context = context
        self.nodes = reachable_nodes(context)

    def all_topics(self, response: MetadataResponse) -> Message | Streamed:
        """Return ``response`` with every topic that the client may describe, as of one moment."""
        context = self._context

        def elements() -> Iterator[_Element | None]:
            topics = Topics(context)
            # Topics without DESCRIBE are left out instead of refused: the request named none.
            for name in topics.names():
                yield (
                    self._found(topics.named(name))
                    if may(context, Operation.DESCRIBE, name)
                    else None
                )

        size = count_partitions(context, WHOLE_MAX + 1)
        return respond(
            response,
            "topics",
            elements(),
            size,
            share_key=None if size <= WHOLE_MAX else self._share_key(),
        )

    def topics(self, response: MetadataResponse) -> Message | Streamed:
        """Return ``response`` with the requested topics."""
        # Kafka collects the names in a set: a request that repeats one gets one answer.
        named = self._request.topics or ()
        if len(named) > _LOOKED_UP_MAX:
            return Streamed(response, "topics", self._one_by_one(named))
        asked = {(topic.name, topic.topic_id): topic for topic in named}
        found = [self._topic(topic) for topic in asked.values()]
        if not any(isinstance(one, Streamed) for one in found):
            response.topics = found  # type: ignore[assignment]
            return response
        return Streamed(response, "topics", found)

    def _one_by_one(self, named: Sequence[MetadataRequestTopic]) -> Iterator[_Element | None]:
        """Yield each topic at its first occurrence in the request."""
        seen: set[tuple[str | None, Uuid]] = set()
        for topic in named:
            key = topic.name, topic.topic_id
            yield None if key in seen else self._topic(topic)
            seen.add(key)

    def _share_key(self) -> Hashable:
        """Return what the response depends on, besides the API's version."""
        context, request = self._context, self._request
        image, peer = own_image(context), context.peer
        asked = (
            request.include_topic_authorized_operations,
            request.include_cluster_authorized_operations,
        )
        who = (peer.principal, peer.host) if context.gateway.authorizer.keeps_acls else None
        return peer.listener, asked, who, None if image is None else (id(image), image.next_offset)

    def _topic(self, asked: MetadataRequestTopic) -> _Element:
        if asked.name is None or asked.topic_id != ZERO_UUID:
            if self._context.version < _BY_ID:
                # Versions 10 and 11 have the field, but Kafka refuses requests that use it
                # (KafkaApis).
                fault = ErrorCode.INVALID_REQUEST
                return MetadataResponseTopic(
                    error_code=fault, name=asked.name or "", topic_id=asked.topic_id
                )
            return self._by_id(asked)
        if not may(self._context, Operation.DESCRIBE, asked.name):
            return MetadataResponseTopic(
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=asked.name
            )
        topic = topic_named(asked.name, self._context)
        if topic is not None:
            return self._found(topic)
        fault = (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if is_valid_name(asked.name)
            else ErrorCode.INVALID_TOPIC_EXCEPTION
        )
        return MetadataResponseTopic(error_code=fault, name=asked.name)

    def _by_id(self, asked: MetadataRequestTopic) -> _Element:
        topic = topic_with_id(asked.topic_id, self._context)
        if topic is None:
            return MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id
            )
        if not may(self._context, Operation.DESCRIBE, topic.name):
            fault = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return MetadataResponseTopic(error_code=fault, name=None, topic_id=asked.topic_id)
        return self._found(topic)

    def _found(self, topic: Topic) -> _Element:
        context, partitions = self._context, topic.partitions
        asked = context.version >= 8 and self._request.include_topic_authorized_operations
        found = MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.name in INTERNAL_TOPICS,
            topic_authorized_operations=topic_operations(context, topic.name)
            if asked
            else NOT_ASKED,
        )
        if partitions is None:
            found.partitions = [_of_metadata_log(context)]
            return found
        if len(partitions) < WHOLE_MAX:
            found.partitions = [
                _partition(partitions[index], self.nodes) for index in sorted(partitions)
            ]
            return found
        return Streamed(
            found,
            "partitions",
            (_partition(partitions[index], self.nodes) for index in sorted(partitions)),
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
        # As in Kafka during an election: the partition exists without a known leader, and clients
        # retry.
        fault = ErrorCode.LEADER_NOT_AVAILABLE
        return MetadataResponsePartition(
            error_code=fault,
            partition_index=PARTITION,
            leader_id=-1,
            replica_nodes=[node],
            isr_nodes=[node],
        )
    return MetadataResponsePartition(
        partition_index=PARTITION,
        leader_id=node,
        leader_epoch=partition.leader_epoch,
        replica_nodes=[node],
        isr_nodes=[node],
    )
