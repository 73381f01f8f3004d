"""Makes the records of new partitions: replicas, ISR, leader, directories. Checks manual
assignments.

Follows ``ReplicationControlManager``. It knows no request.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.base.slices import Slices
from gateway.controller.errors import ApiError
from gateway.controller.nodes import Nodes
from gateway.controller.placement import place
from gateway.controller.request_context import ControllerRequestContext
from kwire.messages.partition_record import PartitionRecord
from kwire.protocol import ErrorCode
from kwire.protocol.metadata_version import is_directory_assignment_supported
from kwire.uuid import Uuid


def placed_partitions(
    topic_id: Uuid, first: int, count: int, factor: int, context: ControllerRequestContext
) -> Slices[list[PartitionRecord]]:
    """Return ``count`` new partitions from index ``first`` on, in slices, with ``factor`` replicas
    each, which the controller places.

    Raises ApiError INVALID_REPLICATION_FACTOR if the nodes are too few.
    """
    nodes = context.nodes
    partitions = []
    for index, replicas in enumerate(
        place(nodes.usable(), count, factor, context.random_below), first
    ):
        # Directories are chosen with the replicas, because the lists correspond by position
        # (KIP-858).
        partition = _new_partition(topic_id, index, replicas, nodes, context.level)
        # The placer puts an unfenced node first, which ``Nodes.usable`` gives only if it is not in
        # controlled shutdown.
        assert partition is not None, (
            f"partition {index} was placed on {replicas}, none of which is active"
        )
        partitions.append(partition)
        yield
    return partitions


def by_hand_partition(
    topic_id: Uuid, index: int, replicas: Sequence[int], context: ControllerRequestContext
) -> PartitionRecord:
    """Return a new partition on ``replicas``, which :func:`check_by_hand` has checked.

    Raises ApiError INVALID_REPLICA_ASSIGNMENT if none of them is active: the partition would begin
    without a leader.
    """
    partition = _new_partition(topic_id, index, replicas, context.nodes, context.level)
    # INVALID_REPLICA_ASSIGNMENT where the placer has INVALID_REPLICATION_FACTOR: the client chose
    # the nodes.
    if partition is None:
        raise bad_assignment(
            f"All brokers specified in the manual partition assignment for partition {index} are "
            "fenced or in controlled shutdown."
        )
    return partition


def check_by_hand(replicas: Sequence[int], expected_count: int | None, nodes: Nodes) -> None:
    """Check that a manual assignment has registered nodes, each once, and ``expected_count`` of
    them (None: any number).

    Raises ApiError INVALID_REPLICA_ASSIGNMENT
    (``ReplicationControlManager.validateManualPartitionAssignment``).
    """
    # In the order of ``validateManualPartitionAssignment``, because the client sees the first fault
    # alone.
    if not replicas:
        raise bad_assignment("The manual partition assignment includes an empty replica list.")
    seen: set[int] = set()
    # Sorted, so that the error names the same node as Kafka's.
    for node_id in sorted(replicas):
        if node_id not in nodes:
            raise bad_assignment(
                f"The manual partition assignment includes broker {node_id}, but no such broker is "
                "registered."
            )
        if node_id in seen:
            raise bad_assignment(
                f"The manual partition assignment includes the broker {node_id} more than once."
            )
        # After both checks: an unknown node that is there twice is unknown.
        seen.add(node_id)
    if expected_count is not None and len(replicas) != expected_count:
        raise bad_assignment(
            f"The manual partition assignment includes a partition with {len(replicas)} "
            "replica(s), but this is not consistent with previous partitions, which have "
            f"{expected_count} replica(s)."
        )


def bad_assignment(why: str) -> ApiError:
    """Return the error of an invalid manual assignment."""
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)


def _new_partition(
    topic_id: Uuid, index: int, replicas: Sequence[int], nodes: Nodes, level: int
) -> PartitionRecord | None:
    """Return a partition that its first active replica leads; None if no replica is active
    (``buildPartitionRegistration``).
    """
    assert len(set(replicas)) == len(replicas), f"partition {index} has a node twice: {replicas}"
    # All active replicas are in sync: the log is empty.
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
        # The first active one of the assignment, which is the preferred one if it is active.
        leader=isr[0],
        # A topic that is created again has another id, so both epochs may begin at 0 again.
        leader_epoch=0,
        partition_epoch=0,
        directories=directories,
    )
