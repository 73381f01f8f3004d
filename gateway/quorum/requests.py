"""The requests of an observer at each of their versions: what a raft leader expects in a Fetch and in a FetchSnapshot.

Rules are those of KIP-595, 630, 853, 903 and 1166 as ``KafkaRaftClient.buildFetchRequest`` and ``buildFetchSnapshotRequest``
ship them. Knows nothing of answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.quorum.settings import ObserverSettings
from gateway.snapshot_id import SnapshotId
from kwire.messages import describe_quorum_request, fetch_snapshot_request
from kwire.messages.describe_cluster_request import DescribeClusterRequest
from kwire.messages.describe_quorum_request import DescribeQuorumRequest
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kwire.messages.fetch_snapshot_request import FetchSnapshotRequest
from kwire.uuid import METADATA_TOPIC_ID, ZERO_UUID, Uuid

TOPIC_NAME: Final = "__cluster_metadata"
PARTITION: Final = 0

#: Below 13 a Fetch has no topic id, and a raft leader refuses it.
FETCH_VERSIONS: Final = range(13, 19)
FETCH_SNAPSHOT_VERSIONS: Final = range(2)
DESCRIBE_QUORUM_VERSIONS: Final = range(3)
#: Below 1 there is no endpoint type, and a controller answers for controllers only.
DESCRIBE_CLUSTER_VERSIONS: Final = range(1, 3)

_CONTROLLERS: Final = 2
_NO_HIGH_WATERMARK: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Identity:
    """Who asks, and of which cluster. ``replica_id`` -1: nobody in particular; then the directory id is not sent."""

    cluster_id: str | None = None
    replica_id: int = -1
    directory_id: Uuid | None = None

    @property
    def sent_directory_id(self) -> Uuid:
        """The directory id as it stands in requests. Without a replica id it would only make rows in DescribeQuorum."""
        return self.directory_id or ZERO_UUID if self.replica_id >= 0 else ZERO_UUID


@dataclass(frozen=True, slots=True)
class Position:
    """Where a log ends: the offset to be fetched next, and the epoch of the record before it."""

    offset: int
    epoch: int


def fetch(
    version: int, identity: Identity, settings: ObserverSettings, *, epoch: int, position: Position, high_watermark: int
) -> FetchRequest:
    """The Fetch of a replica at ``position`` that knows leader epoch ``epoch``.

    ``high_watermark``: the last one the leader told, negative when unknown; then the tag of version 18 is left out, as a
    leader answers -1 at once, again and again.
    """
    partition = FetchPartition(
        partition=PARTITION,
        current_leader_epoch=epoch,
        fetch_offset=position.offset,
        last_fetched_epoch=position.epoch,
        # Real replicas ask for 0 here, which raft leaders ignore; those who obey the field would starve us.
        partition_max_bytes=settings.fetch_max_bytes,
        replica_directory_id=identity.sent_directory_id,
        high_watermark=_NO_HIGH_WATERMARK if high_watermark < 0 else high_watermark,
    )
    request = FetchRequest(
        cluster_id=identity.cluster_id,
        max_wait_ms=settings.max_wait_ms,
        max_bytes=settings.fetch_max_bytes,
        topics=[FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )
    if version >= 15:
        request.replica_state = ReplicaState(replica_id=identity.replica_id)
    else:
        request.replica_id = identity.replica_id
    return request


def fetch_snapshot(
    identity: Identity, settings: ObserverSettings, *, epoch: int, snapshot_id: SnapshotId, position: int
) -> FetchSnapshotRequest:
    """Ask for the bytes of a snapshot from ``position`` on. Always one topic: a controller dies of a request with none."""
    partition = fetch_snapshot_request.PartitionSnapshot(
        partition=PARTITION,
        current_leader_epoch=epoch,
        snapshot_id=fetch_snapshot_request.SnapshotId(end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch),
        position=position,
        replica_directory_id=identity.sent_directory_id,
    )
    return FetchSnapshotRequest(
        cluster_id=identity.cluster_id,
        replica_id=identity.replica_id,
        max_bytes=settings.snapshot_max_bytes,
        topics=[fetch_snapshot_request.TopicSnapshot(name=TOPIC_NAME, partitions=[partition])],
    )


def describe_cluster() -> DescribeClusterRequest:
    """Asked of a controller about controllers (KIP-919): the cheapest answer with a cluster id in it."""
    return DescribeClusterRequest(endpoint_type=_CONTROLLERS)


def describe_quorum() -> DescribeQuorumRequest:
    """Who votes (KIP-836); only the leader knows."""
    partition = describe_quorum_request.PartitionData(partition_index=PARTITION)
    return DescribeQuorumRequest(topics=[describe_quorum_request.TopicData(topic_name=TOPIC_NAME, partitions=[partition])])
