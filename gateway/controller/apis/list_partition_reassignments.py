"""ListPartitionReassignments: lists the partitions that move, with their replicas (KIP-455). It
changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.controller.admin_api import AdminApi, Refusal, SlicedDecision
from gateway.controller.partition_change import is_reassigning
from gateway.controller.request_context import ControllerRequestContext, ControllerResult
from kwire.message import Message
from kwire.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from kwire.protocol import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kwire.messages.list_partition_reassignments_request import (
        ListPartitionReassignmentsRequest,
    )
    from kwire.uuid import Uuid


def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, context: ControllerRequestContext
) -> SlicedDecision:
    """Return the reassignments of the requested partitions, or of all. A partition without one, or
    that does not exist, is left out.
    """
    # Without the index every partition of the cluster would be looked at for the few that move.
    yield from context.state.index_partitions()
    topics = []
    for topic_id, indexes in _asked(request, context):
        partitions = []
        for index in indexes:
            one = _ongoing(topic_id, index, context)
            if one is not None:
                partitions.append(one)
            yield
        # A topic without moves is left out, as a partition is.
        if partitions:
            topics.append(
                OngoingTopicReassignment(name=context.image.topics[topic_id], partitions=partitions)
            )
    return ControllerResult(
        [], ListPartitionReassignmentsResponse(error_message=None, topics=topics)
    )


def _asked(
    request: ListPartitionReassignmentsRequest, context: ControllerRequestContext
) -> Iterable[tuple[Uuid, list[int]]]:
    if request.topics is not None:
        topic_ids = context.image.topic_ids
        return [
            (topic_ids[one.name], one.partition_indexes)
            for one in request.topics
            if one.name in topic_ids
        ]
    # Grouped by topic, as the response has them.
    found: dict[Uuid, list[int]] = {}
    for topic_id, index in context.state.partitions.reassigning:
        found.setdefault(topic_id, []).append(index)
    return found.items()


def _ongoing(
    topic_id: Uuid, index: int, context: ControllerRequestContext
) -> OngoingPartitionReassignment | None:
    partition = context.image.partitions[topic_id].get(index)
    # Left out and no error: a move that has just ended looks the same to the tool.
    if partition is None or not is_reassigning(partition):
        return None
    return OngoingPartitionReassignment(
        partition_index=index,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding_replicas),
        removing_replicas=list(partition.removing_replicas),
    )


def _refuse(request: ListPartitionReassignmentsRequest, refusal: Refusal) -> Message:
    # The error of the whole: the request names no element that it could stand at.
    return ListPartitionReassignmentsResponse(
        error_code=refusal.error, error_message=refusal.message
    )


API: Final = AdminApi(
    key=ApiKey.LIST_PARTITION_REASSIGNMENTS,
    operation="listPartitionReassignments",
    decide=list_partition_reassignments,
    refuse=_refuse,
    cluster_operation="DESCRIBE",
    reads_only=True,
)
