"""ElectLeaders: elects preferred leaders, or leaders outside the ISR where there is none (KIP-460,
``ReplicationControlManager.electLeaders``).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from gateway.controller.admin_api import AdminApi, Refusal, Resource, SlicedDecision
from gateway.controller.errors import ApiError
from gateway.controller.partition_change import NO_LEADER, Election, Target
from gateway.controller.partition_changes import PartitionChanges
from gateway.controller.records import check_count
from gateway.controller.request_context import ControllerRequestContext, ControllerResult
from gateway.ports.streamed import Streamed, filled, respond
from kwire.message import Message
from kwire.messages.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from kwire.protocol import CLUSTER_METADATA_TOPIC, ApiKey, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kwire.messages.elect_leaders_request import ElectLeadersRequest
    from kwire.messages.partition_record import PartitionRecord


class ElectionType(enum.IntEnum):
    """The kinds of elections in a request (``ElectionType``)."""

    PREFERRED = 0
    UNCLEAN = 1


_ELECTIONS: Final = {
    ElectionType.PREFERRED: Election.PREFERRED,
    ElectionType.UNCLEAN: Election.UNCLEAN,
}


def elect_leaders(
    request: ElectLeadersRequest, context: ControllerRequestContext
) -> SlicedDecision:
    """Return a record for each new leader. Raises ApiError for an unknown election type."""
    try:
        kind = ElectionType(request.election_type)
    except ValueError:
        # INVALID_REQUEST and not the default: an unknown type may be a more dangerous one.
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}"
        ) from None
    # Null and not an empty list, which asks for no partition at all.
    of_all = request.topic_partitions is None
    changes = PartitionChanges(context)
    results = []
    for name, indexes in _asked(request, context):
        answers = []
        for index in indexes:
            answer = _elect(name, index, kind, changes)
            check_count(changes.records)
            # As in Kafka, all partitions are without those that need no election.
            if not of_all or answer.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                answers.append(answer)
            yield
        results.append(ReplicaElectionResult(topic=name, partition_result=answers))
    return ControllerResult(changes.records, ElectLeadersResponse(replica_election_results=results))


def _asked(
    request: ElectLeadersRequest, context: ControllerRequestContext
) -> Iterator[tuple[str, Iterable[int]]]:
    if request.topic_partitions is None:
        for topic_id, name in context.image.topics.items():
            yield name, sorted(context.image.partitions[topic_id])
    else:
        for topic in request.topic_partitions:
            yield topic.topic, topic.partitions


def _elect(name: str, index: int, kind: ElectionType, changes: PartitionChanges) -> PartitionResult:
    result = PartitionResult(partition_id=index, error_message=None)
    try:
        before = changes.named(
            name, index, f"No such topic as {name}", f"No such partition as {name}-{index}"
        )
        # Checked before the election: one that finds no better leader changes nothing, too, but has
        # another error (ReplicationControlManager.electLeader).
        if _is_led(before, kind):
            raise ApiError(
                ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
            )
        # ``make`` returns the same object if there is no record: no replica could be elected.
        if changes.make(before, Target(election=_ELECTIONS[kind])) is before:
            raise _unavailable(kind)
    except ApiError as refusal:
        result.error_code, result.error_message = refusal.error, refusal.message
    return result


def _is_led(partition: PartitionRecord, kind: ElectionType) -> bool:
    """Whether the partition has the leader that the election is for."""
    if kind is ElectionType.PREFERRED:
        return bool(partition.replicas) and partition.leader == partition.replicas[0]
    # An unclean election never deposes a leader: it would lose records for nothing.
    return partition.leader != NO_LEADER


def _unavailable(kind: ElectionType) -> ApiError:
    if kind is ElectionType.PREFERRED:
        return ApiError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."
        )
    return ApiError(
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        "Eligible topic partition leaders are not available.",
    )


def _refuse(request: ElectLeadersRequest, refusal: Refusal) -> Message | Streamed:
    # Null asks for every partition. Version 0 has no error but those of partitions, so its response
    # names a partition that exists.
    everything = [(CLUSTER_METADATA_TOPIC, [0])]
    asked = (
        everything
        if request.topic_partitions is None
        else [(one.topic, one.partitions) for one in request.topic_partitions]
    )
    results = (
        filled(
            ReplicaElectionResult(topic=name),
            "partition_result",
            _refused_partitions(indexes, refusal),
        )
        for name, indexes in asked
    )
    # The error of the whole has no message, and clients then do not look at the partitions: a
    # policy's reason would be lost.
    of_all = refusal.version > 0 and refusal.error != ErrorCode.POLICY_VIOLATION
    response = ElectLeadersResponse(error_code=refusal.error if of_all else ErrorCode.NONE)
    size = sum(1 + len(indexes) for _, indexes in asked)
    return respond(response, "replica_election_results", results, size)


def _refused_partitions(indexes: Iterable[int], refusal: Refusal) -> Iterator[PartitionResult]:
    for index in indexes:
        yield PartitionResult(
            partition_id=index, error_code=refusal.error, error_message=refusal.message
        )


def _resources(request: ElectLeadersRequest) -> Iterator[Resource]:
    for topic in request.topic_partitions or ():
        yield "TOPIC", topic.topic


API: Final = AdminApi(
    key=ApiKey.ELECT_LEADERS,
    operation="electLeaders",
    decide=elect_leaders,
    refuse=_refuse,
    cluster_operation="ALTER",
    resources=_resources,
)
