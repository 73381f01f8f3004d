"""ElectLeaders: the first replica leads again, or anybody rather than nobody (KIP-460, ``electLeaders``)."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from gateway.controller.case import Case, Verdict
from gateway.controller.errors import ApiError, Error
from gateway.controller.partition_change import NO_LEADER, Election, Target
from gateway.controller.partition_changes import PartitionChanges
from kwire.messages.elect_leaders_response import ElectLeadersResponse, PartitionResult, ReplicaElectionResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kwire.messages.elect_leaders_request import ElectLeadersRequest
    from kwire.messages.partition_record import PartitionRecord


class ElectionType(enum.IntEnum):
    """What the request calls them."""

    PREFERRED = 0
    UNCLEAN = 1


_ELECTIONS: Final = {ElectionType.PREFERRED: Election.PREFERRED, ElectionType.UNCLEAN: Election.UNCLEAN}


def elect_leaders(request: ElectLeadersRequest, case: Case) -> Verdict:
    """A record for each new leader. Raises ApiError where who asks may not, or asks for another kind of election."""
    if not case.may_on_cluster("ALTER"):
        raise ApiError(Error.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    try:
        kind = ElectionType(request.election_type)
    except ValueError:
        raise ApiError(Error.INVALID_REQUEST, f"Unknown election type {request.election_type}") from None
    of_all = request.topic_partitions is None
    changes = PartitionChanges(case)
    results = []
    for name, indexes in _asked(request, case):
        answers = [_elect(name, index, kind, changes) for index in indexes]
        if of_all:  # of those that need none, nothing is said
            answers = [one for one in answers if one.error_code != Error.ELECTION_NOT_NEEDED]
        results.append(ReplicaElectionResult(topic=name, partition_result=answers))
    return Verdict(changes.records, ElectLeadersResponse(replica_election_results=results))


def _asked(request: ElectLeadersRequest, case: Case) -> Iterator[tuple[str, Iterable[int]]]:
    if request.topic_partitions is None:
        for topic_id, name in case.image.topics.items():
            yield name, sorted(case.image.partitions[topic_id])
    else:
        for topic in request.topic_partitions:
            yield topic.topic, topic.partitions


def _elect(name: str, index: int, kind: ElectionType, changes: PartitionChanges) -> PartitionResult:
    result = PartitionResult(partition_id=index, error_message=None)
    try:
        before = changes.named(name, index, f"No such topic as {name}", f"No such partition as {name}-{index}")
        if _is_led(before, kind):
            raise ApiError(Error.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
        if changes.make(before, Target(election=_ELECTIONS[kind])) is before:
            raise _unavailable(kind)
    except ApiError as refusal:
        result.error_code, result.error_message = refusal.error, refusal.message
    return result


def _is_led(partition: PartitionRecord, kind: ElectionType) -> bool:
    """By who is wanted?"""
    if kind is ElectionType.PREFERRED:
        return bool(partition.replicas) and partition.leader == partition.replicas[0]
    return partition.leader != NO_LEADER


def _unavailable(kind: ElectionType) -> ApiError:
    if kind is ElectionType.PREFERRED:
        return ApiError(Error.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
    return ApiError(Error.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available.")
