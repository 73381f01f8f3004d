"""ListPartitionReassignments: which partitions move, from where to where (KIP-455). It changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.controller.case import Case, Verdict
from gateway.controller.errors import ApiError, Error
from gateway.controller.partition_change import is_reassigning
from kwire.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kwire.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
    from kwire.uuid import Uuid


def list_partition_reassignments(request: ListPartitionReassignmentsRequest, case: Case) -> Verdict:
    """Those that move, of the partitions asked or of all; no error for one that does not exist. Raises ApiError."""
    if not case.may_on_cluster("DESCRIBE"):
        raise ApiError(Error.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    topics = []
    for topic_id, indexes in _asked(request, case):
        partitions = [one for index in indexes if (one := _ongoing(topic_id, index, case)) is not None]
        if partitions:
            topics.append(OngoingTopicReassignment(name=case.image.topics[topic_id], partitions=partitions))
    return Verdict([], ListPartitionReassignmentsResponse(error_message=None, topics=topics))


def _asked(request: ListPartitionReassignmentsRequest, case: Case) -> Iterable[tuple[Uuid, list[int]]]:
    if request.topics is not None:
        topic_ids = case.image.topic_ids
        return [(topic_ids[one.name], one.partition_indexes) for one in request.topics if one.name in topic_ids]
    found: dict[Uuid, list[int]] = {}
    for topic_id, index in case.state.partitions.reassigning:
        found.setdefault(topic_id, []).append(index)
    return found.items()


def _ongoing(topic_id: Uuid, index: int, case: Case) -> OngoingPartitionReassignment | None:
    partition = case.image.partitions[topic_id].get(index)
    if partition is None or not is_reassigning(partition):
        return None
    return OngoingPartitionReassignment(
        partition_index=index,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding_replicas),
        removing_replicas=list(partition.removing_replicas),
    )
