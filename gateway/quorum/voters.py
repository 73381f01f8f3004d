"""Reads the voters from a DescribeQuorum response (KIP-836, 853), and refuses a replica id that is
a voter's.

A replica that uses a voter's id would be counted towards the high watermark (a voter without a
directory id is matched by its id alone), so an observer sends its id only after it has read the
voters.
"""

from __future__ import annotations

from collections.abc import Collection

from gateway.quorum.partition import PARTITION
from kwire.messages.describe_quorum_response import DescribeQuorumResponse
from kwire.messages.describe_quorum_response import PartitionData as QuorumPartition
from kwire.protocol import CLUSTER_METADATA_TOPIC, ErrorCode


def refusal(replica_id: int, voters: Collection[int]) -> str | None:
    """Return why ``replica_id`` cannot be an observer's in a quorum of ``voters``, as a sentence;
    None if it can.
    """
    if replica_id < 0 or replica_id not in voters:
        return None
    listed = ", ".join(map(str, sorted(voters)))
    return (
        f"replica.id {replica_id} is a voter of the quorum (voters: {listed}). Fetches under it "
        "would count towards the high watermark as if that voter had the records. Choose an id "
        "that no node of the cluster has, or -1."
    )


def described_partition(response: DescribeQuorumResponse) -> QuorumPartition | None:
    """Return the metadata partition of a DescribeQuorum response, None if it has an error or lacks
    the partition.
    """
    if response.error_code != ErrorCode.NONE:
        return None
    for topic in response.topics:
        for partition in topic.partitions:
            if (
                topic.topic_name == CLUSTER_METADATA_TOPIC
                and partition.partition_index == PARTITION
            ):
                found: QuorumPartition = partition
                return found if found.error_code == ErrorCode.NONE else None
    return None


def voters_described(response: DescribeQuorumResponse) -> frozenset[int] | None:
    """Return the ids of the voters in a leader's DescribeQuorum response (KIP-836); None for any
    other response.
    """
    # A node that does not lead answers with an error and no voters, which is no empty quorum.
    partition = described_partition(response)
    voters = (
        frozenset(voter.replica_id for voter in partition.current_voters)
        if partition
        else frozenset()
    )
    return voters or None


def endpoints_described(response: DescribeQuorumResponse) -> list[tuple[int, str, int]]:
    """Return (node id, host, port) of each node in a DescribeQuorum response, with its first
    listener; none below version 2 (KIP-853).
    """
    return [
        (node.node_id, node.listeners[0].host, node.listeners[0].port)
        for node in response.nodes
        if node.listeners
    ]
