"""Builds the requests of a metadata quorum's nodes, and finds out who leads it.

The builders give a valid request of a node that knows the quorum; a check changes what its rule is
about. Nothing here judges a server. Shapes as in Kafka's ``RaftUtil``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from kwire.conformance.connection import Connection
from kwire.conformance.outcome import NotOffered
from kwire.conformance.probe import Probe
from kwire.conformance.requests import NO_NODE
from kwire.message import Message
from kwire.messages import (
    begin_quorum_epoch_request,
    describe_quorum_request,
    end_quorum_epoch_request,
    fetch_request,
    fetch_snapshot_request,
    vote_request,
)
from kwire.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from kwire.messages.describe_cluster_request import DescribeClusterRequest
from kwire.messages.describe_quorum_request import DescribeQuorumRequest
from kwire.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.fetch_snapshot_request import FetchSnapshotRequest
from kwire.messages.vote_request import VoteRequest
from kwire.protocol import CLUSTER_METADATA_TOPIC, METADATA_TOPIC_ID, ApiKey, ErrorCode
from kwire.uuid import Uuid

#: Versions of Fetch in which the topic has an id. Kafka's quorum looks at the id alone.
FETCH_VERSIONS: Final = range(13, 19)
#: A cluster id that no cluster has.
OTHER_CLUSTER: Final = "kwire-conform-none"
#: A directory id that no node has.
OTHER_DIRECTORY: Final = Uuid(b"kwire-conform-di")
#: A topic id that no topic has.
OTHER_TOPIC: Final = Uuid(b"kwire-conform-to")
#: Replica id of a Fetch whose sender is no replica, so that the leader keeps no state of it.
NO_REPLICA: Final = -1
#: DescribeCluster's endpoint type of controllers (KIP-919).
_CONTROLLERS: Final = 2
_BEYOND: Final = 1 << 40


@dataclass(frozen=True)
class Quorum:
    """The quorum as one of its nodes describes it. ``leads``: that node is the leader."""

    cluster_id: str | None
    leader_id: int
    epoch: int
    leads: bool
    voters: tuple[int, ...]


def find_quorum(probe: Probe) -> Quorum:
    """Return the quorum once it has a leader. Raises ProbeTimeout."""
    found: Quorum = probe.until(lambda: _look(probe), "a leader of the quorum")
    return found


def require_leader(probe: Probe) -> Quorum:
    """As :func:`find_quorum`; the rule is not applicable to a node that does not lead."""
    quorum = find_quorum(probe)
    if not quorum.leads:
        probe.not_applicable(f"node {quorum.leader_id} leads the quorum, not this server")
    return quorum


def require_follower(probe: Probe) -> Quorum:
    """As :func:`find_quorum`; the rule is not applicable to the leader."""
    quorum = find_quorum(probe)
    if quorum.leads:
        probe.not_applicable("this server leads the quorum")
    return quorum


def _look(probe: Probe) -> Quorum | None:
    version, connection = probe.need(ApiKey.FETCH, *FETCH_VERSIONS), probe.connect()
    # Epoch 0 is older than any that has a leader: the answer names the present one (KIP-595).
    answer = probe.call(fetch(None, epoch=0, version=version), version, connection)
    found = only_partition(probe, answer).current_leader
    if found.leader_id < 0:
        return None
    # The leader alone answers a Fetch of the present epoch without an error.
    at_epoch = fetch(None, epoch=found.leader_epoch, version=version)
    error = only_partition(probe, probe.call(at_epoch, version, connection)).error_code
    if error not in (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER):
        return None  # an election came between the two answers
    leads = error == ErrorCode.NONE
    voters: tuple[int, ...] = ()
    if leads:
        newest = probe.newest(ApiKey.DESCRIBE_QUORUM)
        one = only_partition(probe, probe.call(describe_quorum(), newest, connection))
        if (one.leader_id, one.leader_epoch) != (found.leader_id, found.leader_epoch):
            return None
        voters = tuple(voter.replica_id for voter in one.current_voters)
    id = cluster_id(probe, connection)
    return Quorum(id, found.leader_id, found.leader_epoch, leads, voters)


def cluster_id(probe: Probe, on: Connection | None = None) -> str | None:
    """Return the cluster's id, None where DescribeCluster does not give it (before KIP-919)."""
    try:
        version = probe.need(ApiKey.DESCRIBE_CLUSTER, 1, 2)
    except NotOffered:
        return None
    answer = probe.call(DescribeClusterRequest(endpoint_type=_CONTROLLERS), version, on)
    return None if answer.error_code else str(answer.cluster_id)


# --- responses ------------------------------------------------------------------------------------


def only_partition(probe: Probe, answer: Any) -> Any:
    """Return the one partition of a response. Fails the rule if it has another number of them."""
    probe.expect_error(answer.error_code, ErrorCode.NONE)
    topics = answer.responses if hasattr(answer, "responses") else answer.topics
    found = [partition for topic in topics for partition in topic.partitions]
    probe.expect(len(found) == 1, f"the answer has {len(found)} partitions, not 1")
    return found[0]


def leader_in(partition: Any) -> tuple[int, int]:
    """Return (leader id, leader epoch) of a partition in a response."""
    at = getattr(partition, "current_leader", partition)
    return at.leader_id, at.leader_epoch


# --- requests -------------------------------------------------------------------------------------


def vote(cluster: str | None, *, epoch: int, log_end: tuple[int, int], **other: Any) -> Message:
    """A Vote of a candidate that no quorum has. ``log_end``: (epoch, offset); ``other``: fields of
    the partition, and ``voter_id``.
    """
    voter_id = other.pop("voter_id", -1)
    partition = vote_request.PartitionData(
        replica_epoch=epoch,
        replica_id=other.pop("replica_id", NO_NODE),
        last_offset_epoch=log_end[0],
        last_offset=log_end[1],
        **other,
    )
    topic = vote_request.TopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return VoteRequest(cluster_id=cluster, voter_id=voter_id, topics=[topic])


def begin_epoch(
    cluster: str | None, *, epoch: int, leader_id: int, voter_id: int = -1, **other: Any
) -> Message:
    """A BeginQuorumEpoch of the leader, without endpoints: a leader's own are known."""
    partition = begin_quorum_epoch_request.PartitionData(
        leader_id=leader_id, leader_epoch=epoch, **other
    )
    topic = begin_quorum_epoch_request.TopicData(
        topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition]
    )
    return BeginQuorumEpochRequest(cluster_id=cluster, voter_id=voter_id, topics=[topic])


def end_epoch(cluster: str | None, *, epoch: int, leader_id: int) -> Message:
    """An EndQuorumEpoch of the leader, without successors."""
    partition = end_quorum_epoch_request.PartitionData(leader_id=leader_id, leader_epoch=epoch)
    topic = end_quorum_epoch_request.TopicData(
        topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition]
    )
    return EndQuorumEpochRequest(cluster_id=cluster, topics=[topic])


def fetch(
    cluster: str | None,
    *,
    epoch: int,
    version: int,
    offset: int = 0,
    last_epoch: int = 0,
    replica_id: int = NO_REPLICA,
    max_wait_ms: int = 0,
    max_bytes: int = 1 << 20,
    **other: Any,
) -> FetchRequest:
    """A Fetch of a replica whose log ends at ``offset`` in ``last_epoch``."""
    partition = fetch_request.FetchPartition(
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        partition_max_bytes=0,  # as Kafka's replicas: the limit of the request counts
        **other,
    )
    topic = fetch_request.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])
    request = FetchRequest(
        cluster_id=cluster, max_wait_ms=max_wait_ms, max_bytes=max_bytes, topics=[topic]
    )
    if version >= 15:
        request.replica_state = fetch_request.ReplicaState(replica_id=replica_id)
    else:
        request.replica_id = replica_id
    return request


def fetch_snapshot(
    cluster: str | None,
    *,
    epoch: int,
    snapshot: tuple[int, int],
    position: int = 0,
    max_bytes: int = 1 << 20,
    name: str = CLUSTER_METADATA_TOPIC,
    partition: int = 0,
) -> Message:
    """A FetchSnapshot of ``snapshot``: (end offset, epoch). It always has a topic, as a request
    without one ends the process of Kafka's controllers.
    """
    one = fetch_snapshot_request.PartitionSnapshot(
        partition=partition,
        current_leader_epoch=epoch,
        snapshot_id=fetch_snapshot_request.SnapshotId(end_offset=snapshot[0], epoch=snapshot[1]),
        position=position,
    )
    topic = fetch_snapshot_request.TopicSnapshot(name=name, partitions=[one])
    return FetchSnapshotRequest(
        cluster_id=cluster, replica_id=NO_REPLICA, max_bytes=max_bytes, topics=[topic]
    )


def describe_quorum(
    *named: tuple[str, Sequence[int]],
) -> DescribeQuorumRequest:
    """A DescribeQuorum of (topic, partitions), by default of the metadata partition."""
    return DescribeQuorumRequest(
        topics=[
            describe_quorum_request.TopicData(
                topic_name=name,
                partitions=[
                    describe_quorum_request.PartitionData(partition_index=index)
                    for index in indexes
                ],
            )
            for name, indexes in named or ((CLUSTER_METADATA_TOPIC, (0,)),)
        ]
    )


# --- what a replica of the log sees ---------------------------------------------------------------


def fetched(probe: Probe, quorum: Quorum, **fields: Any) -> Any:
    """Send a valid Fetch to the leader, and return the partition in its response. ``fields`` as in
    :func:`fetch`.
    """
    version = probe.need(ApiKey.FETCH, *FETCH_VERSIONS)
    request = fetch(quorum.cluster_id, version=version, **{"epoch": quorum.epoch, **fields})
    return only_partition(probe, probe.call(request, version))


def end_of_epoch(probe: Probe, quorum: Quorum, epoch: int) -> tuple[int, int]:
    """Return (epoch, end offset) of the leader's largest epoch that is not above ``epoch``."""
    # No log is as long, so that the leader names the place where the logs diverge (KIP-595).
    partition = fetched(probe, quorum, offset=_BEYOND, last_epoch=epoch)
    probe.expect_error(partition.error_code, ErrorCode.NONE)
    if partition.snapshot_id.end_offset >= 0:
        probe.not_applicable(f"the log of epoch {epoch} is in a snapshot")
    found = partition.diverging_epoch
    probe.expect(found.end_offset >= 0, f"a Fetch from offset {_BEYOND} has no diverging epoch")
    return found.epoch, found.end_offset
