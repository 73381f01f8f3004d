"""Metadata (key 3): returns topics, the leaders of their partitions, and the addresses of nodes.

Every node serves the metadata log, at its address for clients of the same listener; other topics
exist if this node belongs to a quorum of kwire. A broker has a missing topic created, if the client
allows that and may. ``__cluster_metadata`` is not marked internal: clients hide internal topics,
and Spark reads nothing of them without an error.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Final

from gateway.handlers.access import (
    NOT_ASKED,
    Operation,
    cluster_operations,
    may,
    may_on_cluster,
    requester_of,
    topic_operations,
)
from gateway.handlers.catalog import (
    Topic,
    controller_image,
    count_partitions,
    fixed_topics,
    topic_named,
    topic_with_id,
)
from gateway.handlers.metadata_encoding import NamedPartitions
from gateway.handlers.nodes import reachable_nodes
from gateway.handlers.topic import INTERNAL_TOPICS, PARTITION, is_valid_name
from gateway.ports.encoded import Encoded, PartlyEncoded
from gateway.ports.services import AUDIT_TOPIC_ID, State
from gateway.ports.streamed import WHOLE_MAX, Streamed
from kwire.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kwire.protocol import ApiKey, ErrorCode
from kwire.uuid import ZERO_UUID, Uuid

if TYPE_CHECKING:
    from gateway.base.slices import Slices
    from gateway.handlers.context import Context
    from gateway.handlers.metadata_encoding import EncodedTopics
    from kwire.messages.metadata_request import MetadataRequest, MetadataRequestTopic

    _Element = MetadataResponseTopic | Encoded

API_KEY: Final = ApiKey.METADATA
VERSIONS: Final = range(14)

#: The versions that return the operations allowed on the cluster; later clients use DescribeCluster
#: (KIP-700).
_CLUSTER_OPERATIONS: Final = range(8, 11)
#: The first version that returns the operations allowed on topics.
_TOPIC_OPERATIONS: Final = 8
#: Topics that are looked up in one step: each takes a call of the authorizer, and may have many
#: partitions.
_AT_ONCE_MAX: Final = 20
#: The first version that can request a topic by its id (KIP-516).
_BY_ID: Final = 12


def handle(request: MetadataRequest, context: Context) -> Streamed | PartlyEncoded:
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
        self._encoding = context.gateway.topic_index.encoding(context.version, self.nodes)
        self._asks_operations = (
            context.version >= _TOPIC_OPERATIONS and request.include_topic_authorized_operations
        )

    def all_topics(self, response: MetadataResponse) -> Streamed | PartlyEncoded:
        """Return ``response`` with every topic that the client may describe."""
        size = count_partitions(self._context, WHOLE_MAX + 1)
        if size <= WHOLE_MAX:
            return PartlyEncoded(
                response, "topics", [one for one in self._all() if one is not None]
            )
        return Streamed(response, "topics", self._all(), share_key=self._share_key())

    def _all(self) -> Iterator[_Element | None]:
        """Yield the topics of this server, then the others in the order of their names.

        Those without DESCRIBE are left out instead of refused: the request named none. A topic that
        is created or deleted meanwhile may be among them.
        """
        context, index = self._context, self._context.gateway.topic_index
        for topic in fixed_topics(context):
            if may(context, Operation.DESCRIBE, topic.name):
                yield (yield from self._found(topic))
        if controller_image(context) is None:
            return
        yield from index.follow()
        for run, start in index.runs():
            encoded = yield from index.encoded(run, self._encoding)
            yield from self._visible(encoded, run.names[start])
            yield None

    def _visible(self, encoded: EncodedTopics, first: str) -> Iterator[_Element | None]:
        """Yield the topics from the name ``first`` on that the client may describe, in as few
        pieces as possible.
        """
        context, names = self._context, encoded.names
        sees_all = context.gateway.authorizer.allows_all(context.peer.principal)
        allowed = [
            position
            for position in range(bisect_left(names, first), len(names))
            if sees_all or may(context, Operation.DESCRIBE, names[position])
        ]
        if len(allowed) == len(names) and not self._asks_operations:
            yield encoded
            return
        for position in allowed:
            yield self._cut(encoded, position)

    def _cut(self, encoded: EncodedTopics, position: int) -> Encoded:
        name = encoded.names[position]
        operations = topic_operations(self._context, name) if self._asks_operations else None
        return encoded.cut(position, operations)

    def topics(self, response: MetadataResponse) -> Streamed | PartlyEncoded:
        """Return ``response`` with the requested topics."""
        elements = self._named()
        found: list[_Element] = []
        for one in elements:
            if one is None or len(found) >= _AT_ONCE_MAX:
                return Streamed(response, "topics", chain(found, (one,), elements))
            found.append(one)
        return PartlyEncoded(response, "topics", found)

    def _named(self) -> Iterator[_Element | None]:
        """Yield each topic at its first occurrence in the request: Kafka collects the names in a
        set.
        """
        seen: set[tuple[str | None, Uuid]] = set()
        for topic in self._request.topics or ():
            key = topic.name, topic.topic_id
            if key in seen:
                yield None
            else:
                seen.add(key)
                yield (yield from self._topic(topic))

    def _share_key(self) -> Hashable:
        """Return what the response depends on, besides the API's version."""
        context, request = self._context, self._request
        changes, peer = context.gateway.topic_index.changes, context.peer
        asked = (
            request.include_topic_authorized_operations,
            request.include_cluster_authorized_operations,
        )
        who = (peer.principal, peer.host) if context.gateway.authorizer.keeps_acls else None
        topics = None if controller_image(context) is None else (changes, changes.number)
        return peer.listener, tuple(self.nodes.items()), asked, who, topics

    def _topic(self, asked: MetadataRequestTopic) -> Slices[_Element]:
        if asked.name is None or asked.topic_id != ZERO_UUID:
            if self._context.version < _BY_ID:
                # Versions 10 and 11 have the field, but Kafka refuses requests that use it
                # (KafkaApis).
                fault = ErrorCode.INVALID_REQUEST
                return MetadataResponseTopic(
                    error_code=fault, name=asked.name or "", topic_id=asked.topic_id
                )
            return (yield from self._by_id(asked))
        if not may(self._context, Operation.DESCRIBE, asked.name):
            return MetadataResponseTopic(
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=asked.name
            )
        topic = topic_named(asked.name, self._context)
        if topic is not None:
            return (yield from self._found(topic))
        return MetadataResponseTopic(
            error_code=self._missing(asked.name),
            name=asked.name,
            is_internal=asked.name in INTERNAL_TOPICS,
        )

    def _missing(self, name: str) -> ErrorCode:
        """Return the error for a topic that does not exist, and have it created. As in Kafka the
        client gets UNKNOWN_TOPIC_OR_PARTITION until it exists (``getTopicMetadata``).

        A broker that has just started may not know it yet. LEADER_NOT_AVAILABLE then: a producer
        that hears that its topic is unknown gives up what it has for it. Kafka answers nothing
        before it knows its topics.
        """
        context = self._context
        replicas = context.gateway.replicas
        if replicas is not None and not replicas.knows_topics and is_valid_name(name):
            return ErrorCode.LEADER_NOT_AVAILABLE
        creator = context.gateway.topic_creator
        creates = creator is not None and self._request.allow_auto_topic_creation
        if creates and not (
            may_on_cluster(context, Operation.CREATE) or may(context, Operation.CREATE, name)
        ):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if not is_valid_name(name):
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if creator is not None and creates:
            creator.create(name, requester_of(context))
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _by_id(self, asked: MetadataRequestTopic) -> Slices[_Element]:
        topic = topic_with_id(asked.topic_id, self._context)
        if topic is None:
            return MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id
            )
        if not may(self._context, Operation.DESCRIBE, topic.name):
            fault = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return MetadataResponseTopic(error_code=fault, name=None, topic_id=asked.topic_id)
        return (yield from self._found(topic))

    def _found(self, topic: Topic) -> Slices[_Element]:
        if topic.partitions is None:
            return self._of_the_log(topic)
        if controller_image(self._context) is not None and topic.topic_id != AUDIT_TOPIC_ID:
            index = self._context.gateway.topic_index
            encoded = index.encoded_topic(topic.name, self._encoding)
            if encoded is not None:
                return self._cut(encoded, bisect_left(encoded.names, topic.name))
        named = NamedPartitions(topic.name, topic.topic_id, topic.partitions)
        encoded = yield from self._encoding.encoder.encode([named])
        return self._cut(encoded, 0)

    def _of_the_log(self, topic: Topic) -> MetadataResponseTopic:
        """Return the metadata log, or a view of it."""
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[_of_metadata_log(self._context)],
            topic_authorized_operations=(
                topic_operations(self._context, topic.name) if self._asks_operations else NOT_ASKED
            ),
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
