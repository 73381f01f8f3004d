"""AlterPartitionReassignments: moves partitions to other brokers, or cancels a move (KIP-455,
KIP-860).

During a move a partition has all replicas, old and new. The move is complete when the new replicas
are in the ISR (``partition_change``), at once where they already are. Follows
``ReplicationControlManager.alterPartitionReassignments``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from gateway.controller.admin_api import AdminApi, Refusal, SlicedDecision, named_topics
from gateway.controller.assignments import bad_assignment, check_by_hand
from gateway.controller.errors import ApiError
from gateway.controller.partition_change import Election, Target, is_reassigning
from gateway.controller.partition_changes import PartitionChanges
from gateway.controller.records import check_count
from gateway.controller.request_context import ControllerRequestContext, ControllerResult
from gateway.ports.streamed import Streamed, filled, respond
from kwire.message import Message
from kwire.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from kwire.messages.alter_partition_reassignments_request import (
        AlterPartitionReassignmentsRequest,
        ReassignablePartition,
        ReassignableTopic,
    )
    from kwire.messages.partition_record import PartitionRecord


def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, context: ControllerRequestContext
) -> SlicedDecision:
    """Return the records, and a result for each partition."""
    may_resize = request.allow_replication_factor_change
    # One for the whole request, so that a partition that is named twice is moved from its new
    # state.
    changes = PartitionChanges(context)
    responses = []
    for topic in request.topics:
        partitions = []
        for one in topic.partitions:
            partitions.append(_result(topic.name, one, may_resize, changes, context))
            # Each time: the operation is atomic, and a request may name more partitions than it can
            # hold.
            check_count(changes.records)
            yield
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=partitions))
    answer = AlterPartitionReassignmentsResponse(
        error_message=None, allow_replication_factor_change=may_resize, responses=responses
    )
    return ControllerResult(changes.records, answer)


def _result(
    name: str,
    asked: ReassignablePartition,
    may_resize: bool,
    changes: PartitionChanges,
    context: ControllerRequestContext,
) -> ReassignablePartitionResponse:
    result = ReassignablePartitionResponse(
        partition_index=asked.partition_index, error_message=None
    )
    try:
        index = asked.partition_index
        # With the changes of this request: a second entry for a partition replaces the first.
        before = changes.named(
            name,
            index,
            f"Unable to find a topic named {name}.",
            f"Unable to find partition {name}:{index}.",
        )
        if asked.replicas is None:
            changes.make(before, _cancelled(name, before, changes.election(before.topic_id)))
        else:
            changes.make(before, _moved(asked.replicas, before, may_resize, context))
    except ApiError as refusal:
        result.error_code, result.error_message = refusal.error, refusal.message
    return result


def _moved(
    wanted: Sequence[int],
    before: PartitionRecord,
    may_resize: bool,
    context: ControllerRequestContext,
) -> Target:
    """Return the partition during its move to ``wanted``, which replaces a move that is in
    progress.
    """
    # Any number of replicas: a reassignment may change the replication factor (KIP-455).
    check_by_hand(wanted, None, context.nodes)
    # The factor that the partition will have when its current move ends, not that during the move.
    # Version 1 can forbid to change it (KIP-860).
    size = len({*before.replicas, *before.adding_replicas} - set(before.removing_replicas))
    if not may_resize and len(wanted) != size:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {size} to {len(wanted)}",
        )
    # Sorted as in ``PartitionReassignmentReplicas``, so that equal moves make equal records.
    removing = sorted(set(before.replicas) - set(wanted))
    adding = sorted(set(wanted) - set(before.replicas))
    if not adding:
        # The move waits for replicas that were being added and are still wanted. Kafka 4.3.1 also
        # waits, for ever, for those that are no longer wanted, and removes replicas that the move
        # before was to remove although this one wants them.
        adding = [node_id for node_id in before.adding_replicas if node_id in wanted]
    # The wanted replicas come first, in the requested order: the first one is preferred as leader.
    replicas = [*wanted, *removing]
    # Nodes of a quorum without brokers hold no records, so any of them is in sync at once.
    isr = None if context.image.brokers else replicas
    return Target(isr=isr, replicas=replicas, removing=removing, adding=adding)


def _cancelled(name: str, before: PartitionRecord, election: Election) -> Target:
    """Return the partition as it was before the move (``PartitionReassignmentRevert``)."""
    # NO_REASSIGNMENT_IN_PROGRESS, so that a tool can tell a move that has ended from one that it
    # cancelled.
    if not is_reassigning(before):
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = [node_id for node_id in before.replicas if node_id not in before.adding_replicas]
    isr = [node_id for node_id in before.isr if node_id not in before.adding_replicas]
    if not replicas:
        raise bad_assignment("Invalid replica assignment: addingReplicas contains all replicas.")
    if not isr:
        # All replicas in the ISR are new: an old replica that leads now may lack records.
        if election is not Election.UNCLEAN:
            raise bad_assignment(
                f"Unable to revert partition assignment for {name}:{before.partition_id} because "
                "it would require an unclean leader election."
            )
        # An unclean election of the first of the old replicas, as in
        # ``PartitionReassignmentRevert``.
        isr = replicas[:1]
    # Empty lists and not None: the record has to say that the move is over.
    return Target(isr=isr, replicas=replicas, removing=[], adding=[], election=election)


def _refuse(request: AlterPartitionReassignmentsRequest, refusal: Refusal) -> Message | Streamed:
    responses = (
        filled(
            ReassignableTopicResponse(name=topic.name),
            "partitions",
            _refused_partitions(topic, refusal),
        )
        for topic in request.topics
    )
    response = AlterPartitionReassignmentsResponse(
        error_code=refusal.error,
        error_message=refusal.message,
        allow_replication_factor_change=request.allow_replication_factor_change,
    )
    size = sum(1 + len(topic.partitions) for topic in request.topics)
    return respond(response, "responses", responses, size)


def _refused_partitions(
    topic: ReassignableTopic, refusal: Refusal
) -> Iterator[ReassignablePartitionResponse]:
    for partition in topic.partitions:
        yield ReassignablePartitionResponse(
            partition_index=partition.partition_index,
            error_code=refusal.error,
            error_message=refusal.message,
        )


API: Final = AdminApi(
    key=ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    operation="alterPartitionReassignments",
    decide=alter_partition_reassignments,
    refuse=_refuse,
    cluster_operation="ALTER",
    resources=named_topics,
)
