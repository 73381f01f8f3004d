"""What every request of a peer is checked for before anything happens
(``KafkaRaftClient.validate...``). Changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from gateway.address import Address
from gateway.quorum.errors import ErrorCode
from gateway.quorum.node import Node
from gateway.quorum.partition import PARTITION, TOPIC_NAME
from gateway.quorum.roles import Leader
from kwire.uuid import ZERO_UUID, Uuid

#: Endpoints of one node looked at: nobody has more listeners.
_ENDPOINTS_MAX: Final = 64


def is_other_cluster(node: Node, cluster_id: str | None) -> bool:
    """Does the sender name another cluster? None is nobody's, and lets pass (KIP-595); an empty one
    is refused.
    """
    return cluster_id is not None and cluster_id != node.cluster_id


def only_partition(topics: Sequence[Any]) -> Any:
    """The metadata partition of a Vote, BeginQuorumEpoch or EndQuorumEpoch; None unless it is the
    only one named.
    """
    if len(topics) != 1 or topics[0].topic_name != TOPIC_NAME:
        return None
    partitions = topics[0].partitions
    return (
        partitions[0]
        if len(partitions) == 1 and partitions[0].partition_index == PARTITION
        else None
    )


def voter_only(node: Node, sender_id: int, epoch: int) -> ErrorCode:
    """What voters ask of voters: not in an epoch that is over (``validateVoterOnlyRequest``)."""
    if epoch < node.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.INVALID_REQUEST if sender_id < 0 else ErrorCode.NONE


def leader_only(node: Node, epoch: int) -> ErrorCode:
    """What only the leader of the epoch answers (``validateLeaderOnlyRequest``)."""
    if epoch < node.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > node.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.NONE if isinstance(node.role, Leader) else ErrorCode.NOT_LEADER_OR_FOLLOWER


def is_meant_for(node: Node, voter_id: int, directory_id: Uuid) -> bool:
    """Is this node the voter that the sender wanted to reach? -1 and a zero id: whoever is there
    (KIP-853).
    """
    if voter_id >= 0 and voter_id != node.settings.node_id:
        return False
    return directory_id == ZERO_UUID or directory_id == node.settings.directory_id


def is_consistent_leader(node: Node, epoch: int, leader_id: int) -> bool:
    """Can ``leader_id`` (-1: none) lead ``epoch``, for all that is known here?
    (``hasConsistentLeader``)

    Kafka throws where it cannot, which stops the process: any peer could stop it so.
    """
    if epoch == node.epoch and leader_id >= 0 and node.leader_id >= 0:
        return leader_id == node.leader_id
    return not node.is_self(leader_id)  # of which this node would know


def addresses(endpoints: Iterable[Any]) -> dict[str, Address]:
    """Endpoints of a request by listener name, as far as they can be addresses."""
    found: dict[str, Address] = {}
    for endpoint in endpoints:
        if (
            len(found) < _ENDPOINTS_MAX
            and 0 < endpoint.port < 65536
            and 0 < len(endpoint.host) < 256
        ):
            found[endpoint.name] = Address(endpoint.host, endpoint.port)
    return found
