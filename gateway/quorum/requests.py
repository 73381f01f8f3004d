"""Builds the requests of a replica at each of their versions. It keeps no state.

Follows ``RaftUtil`` and the ``build...Request`` methods of ``KafkaRaftClient``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from gateway.base.address import Address
from gateway.quorum.partition import PARTITION, Position
from gateway.quorum.voter_set import VoterNode
from kwire.messages import (
    add_raft_voter_request,
    begin_quorum_epoch_request,
    describe_quorum_request,
    end_quorum_epoch_request,
    fetch_request,
    fetch_snapshot_request,
    update_raft_voter_request,
    vote_request,
)
from kwire.messages.add_raft_voter_request import AddRaftVoterRequest
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from kwire.messages.describe_cluster_request import DescribeClusterRequest
from kwire.messages.describe_quorum_request import DescribeQuorumRequest
from kwire.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.fetch_snapshot_request import FetchSnapshotRequest
from kwire.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from kwire.messages.update_raft_voter_request import UpdateRaftVoterRequest
from kwire.messages.vote_request import VoteRequest
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.protocol import CLUSTER_METADATA_TOPIC
from kwire.uuid import METADATA_TOPIC_ID, Uuid

#: Every version, down to those of Kafka before 3.9, which have no directory ids (KIP-853).
VOTE_VERSIONS: Final = range(3)
#: Version 2 added the pre-vote (KIP-996). Below it a peer would take the request for a real vote.
PRE_VOTE_VERSIONS: Final = range(2, 3)
#: Version 1 brought the voter's key and the leader's endpoints (KIP-853), for these three APIs
#: alike.
BEGIN_VERSIONS: Final = range(2)
END_VERSIONS: Final = range(2)
#: From the first version with topic ids on (KIP-516): Kafka's raft looks at the id alone, and
#: answers INVALID_REQUEST to version 12.
FETCH_VERSIONS: Final = range(13, 19)
FETCH_SNAPSHOT_VERSIONS: Final = range(2)
ADD_VOTER_VERSIONS: Final = range(2)
REMOVE_VOTER_VERSIONS: Final = range(1)
UPDATE_VOTER_VERSIONS: Final = range(1)
#: Version 3 is the first that names supported features, which the leader asks for (KIP-584).
API_VERSIONS_VERSIONS: Final = range(3, 5)
DESCRIBE_QUORUM_VERSIONS: Final = range(3)
#: Version 1 added the endpoint type. A controller answers only for the type CONTROLLER (KIP-919).
DESCRIBE_CLUSTER_VERSIONS: Final = range(1, 3)

#: The range of kraft.version that this code supports (KIP-853).
KRAFT_VERSIONS: Final = (0, 1)
#: The default of the tagged field, so that it is left out.
_NO_HIGH_WATERMARK: Final = (1 << 63) - 1
_SOFTWARE_NAME: Final = "kwire"
_CONTROLLERS: Final = 2


def vote(
    version: int,
    *,
    cluster_id: str | None,
    epoch: int,
    candidate: tuple[int, Uuid],
    voter: VoterNode,
    log_end: Position,
    pre_vote: bool,
) -> VoteRequest:
    """Ask ``voter`` for its vote in ``epoch`` (KIP-595), or with ``pre_vote`` whether it would
    grant it (KIP-996).
    """
    partition = vote_request.PartitionData(
        partition_index=PARTITION,
        replica_epoch=epoch,
        replica_id=candidate[0],
        last_offset_epoch=log_end.epoch,
        last_offset=log_end.offset,
    )
    request = VoteRequest(
        cluster_id=cluster_id,
        topics=[vote_request.TopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])],
    )
    # Below it neither side has a directory id to compare (KIP-853).
    if version >= 1:
        request.voter_id = voter.id
        partition.replica_directory_id = candidate[1]
        partition.voter_directory_id = voter.directory_id
    if version >= 2:
        partition.pre_vote = pre_vote
    return request


def begin_quorum_epoch(
    version: int,
    *,
    cluster_id: str | None,
    epoch: int,
    leader_id: int,
    voter: VoterNode,
    endpoints: Mapping[str, Address],
) -> BeginQuorumEpochRequest:
    """Announce the leader of ``epoch`` and its endpoints to ``voter``."""
    partition = begin_quorum_epoch_request.PartitionData(
        partition_index=PARTITION, leader_id=leader_id, leader_epoch=epoch
    )
    topic = begin_quorum_epoch_request.TopicData(
        topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition]
    )
    request = BeginQuorumEpochRequest(cluster_id=cluster_id, topics=[topic])
    if version >= 1:
        request.voter_id = voter.id
        partition.voter_directory_id = voter.directory_id
        request.leader_endpoints = [
            begin_quorum_epoch_request.LeaderEndpoint(name=name, host=at.host, port=at.port)
            for name, at in endpoints.items()
        ]
    return request


def end_quorum_epoch(
    version: int,
    *,
    cluster_id: str | None,
    epoch: int,
    leader_id: int,
    successors: Sequence[tuple[int, Uuid]],
    endpoints: Mapping[str, Address],
) -> EndQuorumEpochRequest:
    """Announce that ``leader_id`` has resigned, and its preferred successors, best first."""
    partition = end_quorum_epoch_request.PartitionData(
        partition_index=PARTITION, leader_id=leader_id, leader_epoch=epoch
    )
    topic = end_quorum_epoch_request.TopicData(
        topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition]
    )
    request = EndQuorumEpochRequest(cluster_id=cluster_id, topics=[topic])
    # Below version 1 a voter gets the same order by ids alone.
    if version >= 1:
        partition.preferred_candidates = [
            end_quorum_epoch_request.ReplicaInfo(
                candidate_id=id, candidate_directory_id=directory_id
            )
            for id, directory_id in successors
        ]
        request.leader_endpoints = [
            end_quorum_epoch_request.LeaderEndpoint(name=name, host=at.host, port=at.port)
            for name, at in endpoints.items()
        ]
    else:
        # The two fields hold the same list; a version has one of them.
        partition.preferred_successors = [id for id, _ in successors]
    return request


def fetch(
    version: int,
    *,
    cluster_id: str | None,
    replica: tuple[int, Uuid],
    epoch: int,
    log_end: Position,
    high_watermark: int,
    max_wait_ms: int,
    max_bytes: int,
) -> FetchRequest:
    """Fetch the records after ``log_end``; the offset acknowledges everything before it.

    ``high_watermark``: the last one that the leader reported (KIP-1166); a negative one is unknown,
    and the tagged field is then left out.
    """
    partition = fetch_request.FetchPartition(
        partition=PARTITION,
        # A leader of another epoch refuses it, so that a late request cannot acknowledge records to
        # it.
        current_leader_epoch=epoch,
        fetch_offset=log_end.offset,
        # 0 for an empty log, because Kafka's leader refuses a negative one.
        last_fetched_epoch=log_end.epoch,
        # Kafka's replicas send 0, and its leader reads the request's max_bytes alone. Other leaders
        # may read this one.
        partition_max_bytes=max_bytes,
    )
    # A replica without it is not counted as a voter whose directory id is in the log (KIP-853).
    if version >= 17:
        partition.replica_directory_id = replica[1]
    if version >= 18:
        partition.high_watermark = _NO_HIGH_WATERMARK if high_watermark < 0 else high_watermark
    request = FetchRequest(
        cluster_id=cluster_id,
        max_wait_ms=max_wait_ms,
        max_bytes=max_bytes,
        topics=[fetch_request.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )
    if version >= 15:
        # The replica epoch stays -1: it is for brokers' partitions (KIP-903), and raft does not
        # look at it.
        request.replica_state = fetch_request.ReplicaState(replica_id=replica[0])
    else:
        request.replica_id = replica[0]
    return request


def fetch_snapshot(
    version: int,
    *,
    cluster_id: str | None,
    replica: tuple[int, Uuid],
    epoch: int,
    id: SnapshotId,
    position: int,
    max_bytes: int,
) -> FetchSnapshotRequest:
    """Fetch the bytes of the leader's snapshot ``id`` from ``position`` on (KIP-630)."""
    # Always with one topic: a request without topics stops a Kafka 4.3 controller.
    partition = fetch_snapshot_request.PartitionSnapshot(
        partition=PARTITION,
        current_leader_epoch=epoch,
        snapshot_id=fetch_snapshot_request.SnapshotId(end_offset=id.end_offset, epoch=id.epoch),
        position=position,
    )
    if version >= 1:
        partition.replica_directory_id = replica[1]
    topic = fetch_snapshot_request.TopicSnapshot(
        name=CLUSTER_METADATA_TOPIC, partitions=[partition]
    )
    return FetchSnapshotRequest(
        cluster_id=cluster_id, replica_id=replica[0], max_bytes=max_bytes, topics=[topic]
    )


def update_voter(cluster_id: str | None, epoch: int, node: VoterNode) -> UpdateRaftVoterRequest:
    """Send the endpoints and supported versions of this voter to the leader of ``epoch``
    (KIP-853).
    """
    return UpdateRaftVoterRequest(
        cluster_id=cluster_id,
        # Unlike AddRaftVoter: a voter set of an older epoch must not be changed by a late request.
        current_leader_epoch=epoch,
        voter_id=node.id,
        voter_directory_id=node.directory_id,
        listeners=[
            update_raft_voter_request.Listener(name=name, host=at.host, port=at.port)
            for name, at in node.endpoints.items()
        ],
        k_raft_version_feature=update_raft_voter_request.KRaftVersionFeature(
            min_supported_version=node.kraft_versions[0],
            max_supported_version=node.kraft_versions[1],
        ),
    )


def add_voter(
    version: int, *, cluster_id: str | None, node: VoterNode, timeout_ms: int
) -> AddRaftVoterRequest:
    """Ask the leader to add this node as a voter (KIP-853)."""
    request = AddRaftVoterRequest(
        cluster_id=cluster_id,
        timeout_ms=timeout_ms,
        voter_id=node.id,
        voter_directory_id=node.directory_id,
        listeners=[
            add_raft_voter_request.Listener(name=name, host=at.host, port=at.port)
            for name, at in node.endpoints.items()
        ],
    )
    # The record may not be committed before this node fetches it, and this node fetches only after
    # the response to this request: version 1 lets the leader answer first (KIP-1186).
    if version >= 1:
        request.ack_when_committed = False
    return request


def remove_voter(cluster_id: str | None, id: int, directory_id: Uuid) -> RemoveRaftVoterRequest:
    """Ask the leader to remove a voter (KIP-853)."""
    return RemoveRaftVoterRequest(
        cluster_id=cluster_id, voter_id=id, voter_directory_id=directory_id
    )


@lru_cache(maxsize=1)
def api_versions() -> ApiVersionsRequest:
    """Ask a node for the versions that it supports; the same message each time."""
    return ApiVersionsRequest(client_software_name=_SOFTWARE_NAME, client_software_version="1")


def describe_cluster() -> DescribeClusterRequest:
    """Ask a controller about the controllers (KIP-919): the smallest response with the cluster
    id.
    """
    return DescribeClusterRequest(endpoint_type=_CONTROLLERS)


def describe_quorum() -> DescribeQuorumRequest:
    """Ask the leader for the voters (KIP-836)."""
    partition = describe_quorum_request.PartitionData(partition_index=PARTITION)
    return DescribeQuorumRequest(
        topics=[
            describe_quorum_request.TopicData(
                topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition]
            )
        ]
    )
