"""Builds the responses of a node at each of their versions; each names the epoch and its leader.

It decides nothing: the parts of the core pass error and content. Follows ``RaftUtil``.
"""

from __future__ import annotations

from typing import Any, Final

from gateway.base.sizes import MIB
from gateway.quorum import leader_distance
from gateway.quorum.effects import LogRange, Reply, SnapshotRange
from gateway.quorum.events import Requested
from gateway.quorum.node import Node
from gateway.quorum.partition import PARTITION, Position
from gateway.quorum.roles import DelayedFetch
from kwire.message import Message
from kwire.messages import (
    begin_quorum_epoch_response,
    end_quorum_epoch_response,
    fetch_response,
    fetch_snapshot_response,
    vote_response,
)
from kwire.messages.begin_quorum_epoch_response import BeginQuorumEpochResponse
from kwire.messages.end_quorum_epoch_response import EndQuorumEpochResponse
from kwire.messages.fetch_response import FetchResponse
from kwire.messages.fetch_snapshot_response import FetchSnapshotResponse
from kwire.messages.vote_response import VoteResponse
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.protocol import CLUSTER_METADATA_TOPIC, ErrorCode
from kwire.uuid import METADATA_TOPIC_ID

#: Record bytes in one response at most (``KafkaRaftClient.MAX_FETCH_SIZE_BYTES``).
FETCH_MAX_BYTES: Final = 8 * MIB
#: Kafka's raft fills the endpoints of a Fetch response from this version on, although version 16
#: has the field.
_FETCH_ENDPOINTS_FROM = 17


def reply(
    node: Node, number: int, message: Message, read: LogRange | SnapshotRange | None = None
) -> None:
    """Answer request ``number`` once the epoch and the vote that the response names are durable."""
    # Every response names the epoch, so every one waits for the epoch to be on disk.
    node.emit(Reply(number, message, read, node.state_token))


def refuse(node: Node, asked: Requested, answer: Any, error: ErrorCode) -> None:
    """Answer with an error of the request as a whole; ``answer`` is the response's class."""
    reply(node, asked.number, answer(error_code=error))


def vote(node: Node, asked: Requested, error: ErrorCode, granted: bool = False) -> None:
    """Answer a Vote."""
    partition = vote_response.PartitionData(
        partition_index=PARTITION,
        error_code=error,
        # Also beside an error: a candidate that lags learns the leader from its refusal, and need
        # not search.
        leader_id=node.leader_id,
        leader_epoch=node.epoch,
        vote_granted=granted,
    )
    answer = VoteResponse(
        topics=[vote_response.TopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])]
    )
    if asked.version >= 1:
        answer.node_endpoints = _endpoints(node, asked.listener, vote_response.NodeEndpoint)
    reply(node, asked.number, answer)


def begin_quorum_epoch(node: Node, asked: Requested, error: ErrorCode) -> None:
    """Answer a BeginQuorumEpoch."""
    partition = begin_quorum_epoch_response.PartitionData(
        partition_index=PARTITION,
        error_code=error,
        # Real Kafka raises IllegalStateException for a second leader of an epoch, so this is never
        # a guess: -1 if no leader is known.
        leader_id=node.leader_id,
        leader_epoch=node.epoch,
    )
    topic = begin_quorum_epoch_response.TopicData(
        topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition]
    )
    answer = BeginQuorumEpochResponse(topics=[topic])
    if asked.version >= 1:
        answer.node_endpoints = _endpoints(
            node, asked.listener, begin_quorum_epoch_response.NodeEndpoint
        )
    reply(node, asked.number, answer)


def end_quorum_epoch(node: Node, asked: Requested, error: ErrorCode) -> None:
    """Answer an EndQuorumEpoch."""
    partition = end_quorum_epoch_response.PartitionData(
        partition_index=PARTITION,
        error_code=error,
        leader_id=node.leader_id,
        leader_epoch=node.epoch,
    )
    topic = end_quorum_epoch_response.TopicData(
        topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition]
    )
    answer = EndQuorumEpochResponse(topics=[topic])
    if asked.version >= 1:
        answer.node_endpoints = _endpoints(
            node, asked.listener, end_quorum_epoch_response.NodeEndpoint
        )
    reply(node, asked.number, answer)


def fetch(
    node: Node,
    asked: Requested | DelayedFetch,
    error: ErrorCode = ErrorCode.NONE,
    *,
    high_watermark: int = -1,
    read: LogRange | None = None,
    diverging: Position | None = None,
    snapshot: SnapshotId | None = None,
) -> None:
    """Answer a Fetch with records, with the divergence of the logs, with a snapshot, or an
    error.
    """
    partition = fetch_response.PartitionData(
        partition_index=PARTITION,
        error_code=error,
        # ``last_stable_offset`` keeps its default of -1, as in the responses of Kafka's raft.
        high_watermark=high_watermark,
        # A replica that asks below it learns how far the log goes back, whatever else the response
        # holds.
        log_start_offset=node.log.start_offset,
        current_leader=fetch_response.LeaderIdAndEpoch(
            leader_id=node.leader_id, leader_epoch=node.epoch
        ),
        # Never null: decoders of several clients fail on null records (KAFKA-18648).
        records=b"",
    )
    if diverging is not None:
        partition.diverging_epoch = fetch_response.EpochEndOffset(
            epoch=diverging.epoch, end_offset=diverging.offset
        )
    if snapshot is not None:
        partition.snapshot_id = fetch_response.SnapshotId(
            end_offset=snapshot.end_offset, epoch=snapshot.epoch
        )
    topic = fetch_response.FetchableTopicResponse(partitions=[partition])
    # Version 12 names the topic, as in KIP-595. Raft in Kafka 3.1 and later looks at ids alone.
    if asked.version >= 13:
        topic.topic_id = METADATA_TOPIC_ID
    else:
        topic.topic = CLUSTER_METADATA_TOPIC
    answer = FetchResponse(responses=[topic])
    if asked.version >= _FETCH_ENDPOINTS_FROM:
        answer.node_endpoints = _endpoints(node, asked.listener, fetch_response.NodeEndpoint)
    _add_distance(node, answer)
    reply(node, asked.number, answer, read)


def fetch_snapshot(
    node: Node,
    asked: Requested,
    topic_name: str,
    index: int,
    error: ErrorCode = ErrorCode.NONE,
    *,
    id: SnapshotId | None = None,
    read: SnapshotRange | None = None,
) -> None:
    """Answer a FetchSnapshot."""
    partition = fetch_snapshot_response.PartitionSnapshot(
        index=index,
        error_code=error,
        current_leader=fetch_snapshot_response.LeaderIdAndEpoch(
            leader_id=node.leader_id, leader_epoch=node.epoch
        ),
        # Empty beside an error, never null: the generated Java class cannot write a null one.
        unaligned_records=b"",
    )
    if id is not None:
        partition.snapshot_id = fetch_snapshot_response.SnapshotId(
            end_offset=id.end_offset, epoch=id.epoch
        )
    if read is not None:
        # ``size`` and the bytes come from the driver, which reads the file
        # (``gateway.server.quorum.raft_bytes``).
        partition.position = read.position
    topic = fetch_snapshot_response.TopicSnapshot(name=topic_name, partitions=[partition])
    answer = FetchSnapshotResponse(topics=[topic])
    if asked.version >= 1:
        answer.node_endpoints = _endpoints(
            node, asked.listener, fetch_snapshot_response.NodeEndpoint
        )
    _add_distance(node, answer)
    reply(node, asked.number, answer, read)


def _add_distance(node: Node, answer: Any) -> None:
    if node.is_relay:
        leader_distance.write(answer, node.distance, node.leader_answered_at, node.now)


def _endpoints(node: Node, listener: str, endpoint: Any) -> list[Any]:
    """Return the leader's endpoint at ``listener``, if it is known."""
    at = node.leader_endpoint(listener)
    # At the listener that the request came by: that is the one that the sender can reach. Kafka 4.3
    # nodes with ``controller.quorum.bootstrap.servers`` exit without it ("Unknown leader
    # endpoints").
    return [endpoint(node_id=node.leader_id, host=at.host, port=at.port)] if at is not None else []
