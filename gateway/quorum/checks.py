"""Checks the requests of peers before they change anything (``KafkaRaftClient.validate...``).

It changes no state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from gateway.base.address import Address
from gateway.quorum.node import NO_NODE, Node
from gateway.quorum.partition import PARTITION
from gateway.quorum.roles import Leader
from kwire.protocol import CLUSTER_METADATA_TOPIC, ErrorCode
from kwire.uuid import ZERO_UUID, Uuid

#: Endpoints read from one request, and characters of a listener or host in them at most. No node
#: has so many; a hostile peer may name more, and those of a voter are in the log.
_ENDPOINTS_MAX: Final = 64
_NAME_MAX: Final = 255


def is_other_cluster(node: Node, cluster_id: str | None) -> bool:
    """Return whether the sender names another cluster. A null id passes (KIP-595), an empty one
    does not.
    """
    # The field is nullable since KIP-595, and Kafka's tools leave it out.
    return cluster_id is not None and cluster_id != node.cluster_id


def only_partition(topics: Sequence[Any]) -> Any:
    """Return the metadata partition of a Vote, BeginQuorumEpoch or EndQuorumEpoch request or
    response; None unless it is the only one (``hasValidTopicPartition``).
    """
    if len(topics) != 1 or topics[0].topic_name != CLUSTER_METADATA_TOPIC:
        return None
    partitions = topics[0].partitions
    return (
        partitions[0]
        if len(partitions) == 1 and partitions[0].partition_index == PARTITION
        else None
    )


def voter_only(node: Node, sender_id: int, epoch: int) -> ErrorCode:
    """Return the error of a request that only voters send (``validateVoterOnlyRequest``)."""
    # The epoch first: the sender learns the newer epoch from the response and stops asking.
    if epoch < node.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    # The sender need not be in the voter set that this node knows: while the voters change, either
    # node may be behind the other (KIP-853).
    return ErrorCode.INVALID_REQUEST if sender_id < 0 else ErrorCode.NONE


def leader_only(node: Node, epoch: int) -> ErrorCode:
    """Return the error of a request that only the leader of ``epoch``, or a relay that knows one,
    answers (``validateLeaderOnlyRequest``).
    """
    if epoch < node.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > node.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    answers = isinstance(node.role, Leader) or (
        node.is_relay and node.leader_id != NO_NODE and node.is_answered
    )
    return ErrorCode.NONE if answers else ErrorCode.NOT_LEADER_OR_FOLLOWER


def is_meant_for(node: Node, voter_id: int, directory_id: Uuid) -> bool:
    """Return whether this node is the voter that the sender wants to reach (``isValidVoterKey``).

    -1 and the zero directory id mean any node (KIP-853).
    """
    if voter_id >= 0 and voter_id != node.settings.node_id:
        return False
    # A voter that lost its disk has a new directory id. It must not answer for the old one, whose
    # vote and log it does not have (KIP-853).
    return directory_id == ZERO_UUID or directory_id == node.settings.directory_id


def is_consistent_leader(node: Node, epoch: int, leader_id: int) -> bool:
    """Return whether ``leader_id`` (-1: none) can lead ``epoch`` (``hasConsistentLeader``).

    Kafka throws IllegalStateException where it cannot, which stops the process. Here the caller
    refuses the message, because any peer could stop the node with one request.
    """
    if epoch == node.epoch and leader_id >= 0 and node.leader_id >= 0:
        return leader_id == node.leader_id
    # Only this node can make itself a leader, and it would know.
    return not node.is_self(leader_id)


def addresses(endpoints: Iterable[Any]) -> dict[str, Address]:
    """Return the endpoints of a request by listener name, without those that are no address."""
    found: dict[str, Address] = {}
    for endpoint in endpoints:
        if (
            len(found) < _ENDPOINTS_MAX
            and 0 < endpoint.port < 65536
            and 0 < len(endpoint.host) <= _NAME_MAX
            and len(endpoint.name) <= _NAME_MAX
        ):
            found[endpoint.name] = Address(endpoint.host, endpoint.port)
    return found
