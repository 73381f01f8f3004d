"""DescribeQuorum (key 55): returns the state of the metadata quorum (KIP-595, KIP-836, KIP-853).

If this node belongs to a quorum, or observes one, the leader is asked and its response is passed
on. Over files this node is the leader of the log that it serves, as in Metadata and
DescribeCluster; the LEADER_CHANGE and KRAFT_VOTERS records in them have the nodes that led and
voted.
"""

from __future__ import annotations

import copy
from itertools import islice
from typing import TYPE_CHECKING, Final

from gateway.handlers.access import Operation, may_on_cluster
from gateway.handlers.topic import PARTITION
from gateway.ports.pending_response import PendingResponse
from gateway.ports.services import State
from gateway.ports.streamed import Streamed, filled, respond
from kwire.messages.describe_quorum_response import (
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from kwire.protocol import CLUSTER_METADATA_TOPIC, ApiKey, ErrorCode
from kwire.uuid import ZERO_UUID

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from gateway.ports.services import Quorum
    from kwire.message import Message
    from kwire.messages.describe_quorum_request import DescribeQuorumRequest

API_KEY: Final = ApiKey.DESCRIBE_QUORUM
VERSIONS: Final = range(3)

#: The first version with error messages, directory ids and the nodes' addresses (KIP-853).
_NODES: Final = 2
#: The time that the leader has to answer, s.
_WAIT_S: Final = 5.0


def handle(
    request: DescribeQuorumRequest, context: Context
) -> Message | Streamed | PendingResponse:
    """Return the state of partition 0 of ``__cluster_metadata``.

    A request for any other set of partitions gets UNKNOWN_TOPIC_OR_PARTITION in each of them, as
    from ``KafkaRaftClient``. While there is no leader the error is NOT_LEADER_OR_FOLLOWER, on which
    clients retry.
    """
    if not may_on_cluster(context, Operation.DESCRIBE):
        return DescribeQuorumResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    named = ((t.topic_name, p.partition_index) for t in request.topics for p in t.partitions)
    if list(islice(named, 2)) != [(CLUSTER_METADATA_TOPIC, PARTITION)]:
        return _refused_each(
            request,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "The quorum has one partition: __cluster_metadata-0.",
        )
    if context.gateway.quorum is not None:
        return _asked_of_leader(request, context, context.gateway.quorum)
    if context.gateway.partition.state is State.LOADING:
        return _refused(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            "The log is still being loaded; ask again.",
        )
    response = DescribeQuorumResponse(
        topics=[TopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[_partition(context)])]
    )
    if context.version >= _NODES:
        response.nodes = [_node(context)]
    return response


def _asked_of_leader(
    request: DescribeQuorumRequest, context: Context, quorum: Quorum
) -> PendingResponse:
    def refused(why: str) -> DescribeQuorumResponse:
        return _refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, why)

    def tell(answer: DescribeQuorumResponse | str) -> None:
        pending.complete(
            refused(answer) if isinstance(answer, str) else _at_version(answer, context.version)
        )

    late = "The leader of the quorum has not answered; ask again."
    pending = PendingResponse(deadline=context.now + _WAIT_S, expire=lambda: refused(late))
    quorum.describe(tell)
    return pending


def _at_version(answer: DescribeQuorumResponse, version: int) -> DescribeQuorumResponse:
    """Return the leader's response without the fields that ``version`` does not have."""
    if version >= _NODES:
        return answer
    answer = copy.deepcopy(answer)
    answer.nodes = []
    for topic in answer.topics:
        for partition in topic.partitions:
            for replica in (*partition.current_voters, *partition.observers):
                replica.replica_directory_id = ZERO_UUID
    return answer


def _refused(fault: ErrorCode, why: str) -> DescribeQuorumResponse:
    """Return the error for partition 0 of ``__cluster_metadata``."""
    partition = PartitionData(partition_index=PARTITION, error_code=fault, error_message=why)
    return DescribeQuorumResponse(
        topics=[TopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])]
    )


def _refused_each(request: DescribeQuorumRequest, fault: ErrorCode, why: str) -> Message | Streamed:
    """Return the error for each partition that the request names, which may be thousands."""
    topics = (
        filled(
            TopicData(topic_name=topic.topic_name),
            "partitions",
            (
                PartitionData(
                    partition_index=partition.partition_index, error_code=fault, error_message=why
                )
                for partition in topic.partitions
            ),
        )
        for topic in request.topics
    )
    size = sum(1 + len(topic.partitions) for topic in request.topics)
    return respond(DescribeQuorumResponse(), "topics", topics, size)


def _partition(context: Context) -> PartitionData:
    gateway, log = context.gateway, context.gateway.partition
    return PartitionData(
        partition_index=PARTITION,
        leader_id=gateway.node_id,
        leader_epoch=log.leader_epoch,
        high_watermark=log.high_watermark,
        current_voters=[
            ReplicaState(
                replica_id=gateway.node_id,
                log_end_offset=log.high_watermark,
                # A leader has always just fetched from itself and is never behind
                # (``LeaderState.describeReplicaState``).
                last_fetch_timestamp=context.wall_ms,
                last_caught_up_timestamp=context.wall_ms,
            )
        ],
    )


def _node(context: Context) -> Node:
    endpoint = context.gateway.endpoint(context.peer.listener)
    listener = Listener(name=endpoint.listener, host=endpoint.host, port=endpoint.port)
    return Node(node_id=context.gateway.node_id, listeners=[listener])
