"""Answers DescribeQuorum: the log end of every replica as the leader knows it (KIP-595, 836, 853).

It changes no state. Follows ``LeaderState.describeQuorum``.
"""

from __future__ import annotations

from typing import Final

from gateway.quorum import responses
from gateway.quorum.events import Requested
from gateway.quorum.node import Node
from gateway.quorum.partition import PARTITION
from gateway.quorum.roles import Leader, Progress
from kwire.messages.describe_quorum_request import DescribeQuorumRequest
from kwire.messages.describe_quorum_response import (
    DescribeQuorumResponse,
    Listener,
    PartitionData,
    ReplicaState,
    TopicData,
)
from kwire.messages.describe_quorum_response import Node as DescribedNode
from kwire.protocol import CLUSTER_METADATA_TOPIC, ErrorCode
from kwire.uuid import ZERO_UUID, Uuid

#: Seconds after its last fetch until an observer is left out
#: (``LeaderState.OBSERVER_SESSION_TIMEOUT_MS``).
_OBSERVER_S: Final = 300.0

#: The default messages of these errors (Kafka's ``Errors``), which its leader sends word for word.
_MESSAGES = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: (
        "For requests intended only for the leader, this error indicates that the broker is not "
        "the current leader. For requests intended for any replica, this error indicates that the "
        "broker is not a replica of the topic partition."
    ),
}


def describe_quorum(node: Node, asked: Requested) -> None:
    """Answer a DescribeQuorum request.

    A node that does not lead answers NOT_LEADER_OR_FOLLOWER without the leader's id, as in Kafka.
    """
    request = asked.message
    assert isinstance(request, DescribeQuorumRequest), request
    role = node.role
    named = [
        (topic.topic_name, [one.partition_index for one in topic.partitions])
        for topic in request.topics
    ]
    # As ``hasValidTopicPartition``: the metadata partition and no other.
    if named != [(CLUSTER_METADATA_TOPIC, [PARTITION])]:
        return responses.reply(
            node, asked.number, _refusal(named, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, asked.version)
        )
    if not isinstance(role, Leader):
        # Real Kafka 4.3 leaves leader and epoch at 0 here, so the response is no way to find the
        # leader.
        return responses.reply(
            node, asked.number, _refusal(named, ErrorCode.NOT_LEADER_OR_FOLLOWER, asked.version)
        )
    answer = DescribeQuorumResponse(
        topics=[
            TopicData(
                topic_name=CLUSTER_METADATA_TOPIC,
                partitions=[_partition(node, role, asked.version)],
            )
        ]
    )
    if asked.version >= 2:
        # The voters alone, because only they have endpoints in the log (KIP-853).
        answer.nodes = _nodes(node)
    return responses.reply(node, asked.number, answer)


def observers_of(leader: Leader, now: float) -> list[Progress]:
    """Return the replicas without a vote that fetched recently, by id."""
    return [
        seen for _, seen in sorted(leader.observers.items()) if now - seen.fetched_at < _OBSERVER_S
    ]


def _refusal(
    named: list[tuple[str, list[int]]], error: ErrorCode, version: int
) -> DescribeQuorumResponse:
    def partition(index: int) -> PartitionData:
        refused = PartitionData(partition_index=index, error_code=error)
        if version >= 2:
            refused.error_message = _MESSAGES[error]
        return refused

    return DescribeQuorumResponse(
        topics=[
            TopicData(topic_name=name, partitions=[partition(index) for index in indexes])
            for name, indexes in named
        ]
    )


def _partition(node: Node, leader: Leader, version: int) -> PartitionData:
    me = node.settings
    # The leader counts as caught up at any time (KIP-836). Its end is the flushed one: that is what
    # it counts for the high watermark, too.
    own_state = _state(
        me.node_id, me.directory_id, node.log.flushed, node.wall_ms, node.wall_ms, version
    )
    voters = [
        _replica(leader.progress[voter.id], version) if voter.id in leader.progress else own_state
        for voter in node.voters
    ]
    observers = [_replica(observer, version) for observer in observers_of(leader, node.now)]
    if not node.is_voter:
        # The leader was removed from the voters, and leads until that record is committed
        # (KIP-853).
        observers.append(own_state)
    return PartitionData(
        partition_index=PARTITION,
        leader_id=me.node_id,
        leader_epoch=leader.epoch,
        # -1 before the first commit of this epoch, as in
        # ``KafkaRaftClient.handleDescribeQuorumRequest``.
        high_watermark=leader.high_watermark,
        current_voters=voters,
        observers=observers,
    )


def _replica(replica: Progress, version: int) -> ReplicaState:
    return _state(
        replica.id,
        replica.directory_id,
        replica.offset,
        replica.fetched_ms,
        replica.caught_up_ms,
        version,
    )


def _state(
    id: int, directory_id: Uuid, offset: int, fetched_ms: int, caught_up_ms: int, version: int
) -> ReplicaState:
    state = ReplicaState(replica_id=id, log_end_offset=offset)
    if version >= 1:
        state.last_fetch_timestamp, state.last_caught_up_timestamp = fetched_ms, caught_up_ms
    # The default of the field is the zero id.
    if version >= 2 and directory_id != ZERO_UUID:
        state.replica_directory_id = directory_id
    return state


def _nodes(node: Node) -> list[DescribedNode]:
    return [
        DescribedNode(
            node_id=voter.id,
            listeners=[
                Listener(name=name, host=at.host, port=at.port)
                for name, at in voter.endpoints.items()
            ],
        )
        for voter in node.voters
    ]
