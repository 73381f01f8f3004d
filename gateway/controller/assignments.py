"""From the replicas of new partitions to their records: ISR, leader, directories; and the rules for
replicas chosen by hand.

Knows no request.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.controller.errors import ApiError
from gateway.controller.nodes import Nodes
from gateway.controller.placement import place
from gateway.controller.request_context import ControllerRequestContext
from gateway.slices import Slices
from kwire.messages.partition_record import PartitionRecord
from kwire.protocol import ErrorCode
from kwire.protocol.metadata_version import is_directory_assignment_supported
from kwire.uuid import Uuid


def placed_partitions(
    topic_id: Uuid, first: int, count: int, factor: int, context: ControllerRequestContext
) -> Slices[list[PartitionRecord]]:
    """``count`` new partitions from index ``first`` on, placed by the controller. Raises ApiError."""
    nodes = context.nodes
    partitions = []
    for index, replicas in enumerate(
        place(nodes.usable(), count, factor, context.random_below), first
    ):
        partition = _new_partition(topic_id, index, replicas, nodes, context.level)
        # The placer puts a node that is up first.
        assert partition is not None, (
            f"partition {index} was placed on {replicas}, none of which is active"
        )
        partitions.append(partition)
        yield
    return partitions


def by_hand_partition(
    topic_id: Uuid, index: int, replicas: Sequence[int], context: ControllerRequestContext
) -> PartitionRecord:
    """A new partition on ``replicas``, which were checked. Raises ApiError where none of them is
    up.
    """
    partition = _new_partition(topic_id, index, replicas, context.nodes, context.level)
    if partition is None:
        raise bad_assignment(
            f"All brokers specified in the manual partition assignment for partition {index} are fenced or in controlled"
            " shutdown."
        )
    return partition


def check_by_hand(replicas: Sequence[int], expected_count: int | None, nodes: Nodes) -> None:
    """The rules of a manual assignment: known nodes, each once, as many as the partitions before
    have.

    Raises ApiError INVALID_REPLICA_ASSIGNMENT
    (``ReplicationControlManager.validateManualPartitionAssignment``).
    """
    if not replicas:
        raise bad_assignment("The manual partition assignment includes an empty replica list.")
    seen: set[int] = set()
    for node_id in sorted(replicas):
        if node_id not in nodes:
            raise bad_assignment(
                f"The manual partition assignment includes broker {node_id}, but no such broker is registered."
            )
        if node_id in seen:
            raise bad_assignment(
                f"The manual partition assignment includes the broker {node_id} more than once."
            )
        seen.add(node_id)
    if expected_count is not None and len(replicas) != expected_count:
        raise bad_assignment(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not"
            f" consistent with previous partitions, which have {expected_count} replica(s)."
        )


def bad_assignment(why: str) -> ApiError:
    """The refusal of replicas chosen by hand."""
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)


def _new_partition(
    topic_id: Uuid, index: int, replicas: Sequence[int], nodes: Nodes, level: int
) -> PartitionRecord | None:
    """A partition as it begins, led by the first replica that is up; None if none of them is."""
    isr = [node_id for node_id in replicas if nodes.is_active(node_id)]
    if not isr:
        return None
    directories = (
        [nodes.default_directory(node_id) for node_id in replicas]
        if is_directory_assignment_supported(level)
        else []
    )
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=isr,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=directories,
    )
