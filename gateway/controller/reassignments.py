"""AlterPartitionReassignments: partitions move to other brokers, or no longer do (KIP-455, KIP-860).

A move begins with all replicas, old and new; it ends when the new ones are in sync, which AlterPartition tells
(``partition_change``). One that adds nobody who is not in sync already ends at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gateway.controller.assignments import bad_assignment, check_by_hand
from gateway.controller.case import Case, Verdict
from gateway.controller.errors import ApiError, Error
from gateway.controller.partition_change import Election, Target, is_reassigning
from gateway.controller.partition_changes import PartitionChanges
from kwire.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from kwire.messages.alter_partition_reassignments_request import (
        AlterPartitionReassignmentsRequest,
        ReassignablePartition,
    )
    from kwire.messages.partition_record import PartitionRecord


def alter_partition_reassignments(request: AlterPartitionReassignmentsRequest, case: Case) -> Verdict:
    """The records, and a result for each partition. Raises ApiError where who asks may not."""
    if not case.may_on_cluster("ALTER"):
        raise ApiError(Error.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    may_resize = request.allow_replication_factor_change
    changes = PartitionChanges(case)
    responses = [
        ReassignableTopicResponse(
            name=topic.name, partitions=[_result(topic.name, one, may_resize, changes, case) for one in topic.partitions]
        )
        for topic in request.topics
    ]
    answer = AlterPartitionReassignmentsResponse(
        error_message=None, allow_replication_factor_change=may_resize, responses=responses
    )
    return Verdict(changes.records, answer)


def _result(
    name: str, asked: ReassignablePartition, may_resize: bool, changes: PartitionChanges, case: Case
) -> ReassignablePartitionResponse:
    result = ReassignablePartitionResponse(partition_index=asked.partition_index, error_message=None)
    try:
        index = asked.partition_index
        before = changes.named(name, index, f"Unable to find a topic named {name}.", f"Unable to find partition {name}:{index}.")
        if asked.replicas is None:
            changes.make(before, _cancelled(name, before, changes.election(before.topic_id)))
        else:
            changes.make(before, _moved(asked.replicas, before, may_resize, case))
    except ApiError as refusal:
        result.error_code, result.error_message = refusal.error, refusal.message
    return result


def _moved(wanted: Sequence[int], before: PartitionRecord, may_resize: bool, case: Case) -> Target:
    """What the partition is while it moves to ``wanted``, wherever a move that is under way would have taken it."""
    check_by_hand(wanted, None, case.nodes)
    size = len({*before.replicas, *before.adding_replicas} - set(before.removing_replicas))
    if not may_resize and len(wanted) != size:
        raise ApiError(Error.INVALID_REPLICATION_FACTOR, f"The replication factor is changed from {size} to {len(wanted)}")
    removing = sorted(set(before.replicas) - set(wanted))
    adding = sorted(set(wanted) - set(before.replicas))
    if not adding:
        # Who was being added and is still wanted is waited for. Kafka 4.3.1 also waits for those who are not, for ever, and
        # removes whom the move before was to remove, though they are wanted.
        adding = [node_id for node_id in before.adding_replicas if node_id in wanted]
    replicas = [*wanted, *removing]
    # Nodes of a quorum without brokers hold no records, so they are in sync wherever they are put.
    isr = None if case.image.brokers else replicas
    return Target(isr=isr, replicas=replicas, removing=removing, adding=adding)


def _cancelled(name: str, before: PartitionRecord, election: Election) -> Target:
    """The partition as it was before the move (``PartitionReassignmentRevert``)."""
    if not is_reassigning(before):
        raise ApiError(Error.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = [node_id for node_id in before.replicas if node_id not in before.adding_replicas]
    isr = [node_id for node_id in before.isr if node_id not in before.adding_replicas]
    if not replicas:
        raise bad_assignment("Invalid replica assignment: addingReplicas contains all replicas.")
    if not isr:
        # Everybody in sync is new: whoever leads then may lack records.
        if election is not Election.UNCLEAN:
            raise bad_assignment(
                f"Unable to revert partition assignment for {name}:{before.partition_id} because it would require an unclean"
                " leader election."
            )
        isr = replicas[:1]
    return Target(isr=isr, replicas=replicas, removing=[], adding=[], election=election)
