"""From the replicas of a new partition to its record: ISR, leader, directories; and the rules for replicas chosen by hand.

Knows no request.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.controller.errors import ApiError, Error
from gateway.controller.nodes import Nodes
from kwire.cluster.snapshot import partition_version
from kwire.messages.partition_record import PartitionRecord
from kwire.uuid import Uuid


def check_by_hand(replicas: Sequence[int], expected_count: int | None, nodes: Nodes) -> None:
    """The rules of a manual assignment: known nodes, each once, as many as the partitions before have.

    Raises ApiError INVALID_REPLICA_ASSIGNMENT (``ReplicationControlManager.validateManualPartitionAssignment``).
    """
    if not replicas:
        raise _refused("The manual partition assignment includes an empty replica list.")
    seen: set[int] = set()
    for node_id in sorted(replicas):
        if node_id not in nodes:
            raise _refused(f"The manual partition assignment includes broker {node_id}, but no such broker is registered.")
        if node_id in seen:
            raise _refused(f"The manual partition assignment includes the broker {node_id} more than once.")
        seen.add(node_id)
    if expected_count is not None and len(replicas) != expected_count:
        raise _refused(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not"
            f" consistent with previous partitions, which have {expected_count} replica(s)."
        )


def new_partition(topic_id: Uuid, index: int, replicas: Sequence[int], nodes: Nodes, level: int) -> PartitionRecord | None:
    """The record of a partition as it begins, led by the first replica that is up; None if none of them is."""
    isr = [node_id for node_id in replicas if nodes.is_active(node_id)]
    if not isr:
        return None
    directories = [nodes.default_directory(node_id) for node_id in replicas] if partition_version(level) else []
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=isr,
        leader=isr[0],
        directories=directories,
    )


def _refused(why: str) -> ApiError:
    return ApiError(Error.INVALID_REPLICA_ASSIGNMENT, why)
