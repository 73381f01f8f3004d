"""CreatePartitions: more partitions for topics that exist (``ReplicationControlManager.createPartitions``)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from gateway.controller.assignments import by_hand_partition, check_by_hand, placed_partitions
from gateway.controller.case import Case, Verdict
from gateway.controller.errors import ApiError, Error
from gateway.controller.records import OPERATION_RECORDS_MAX
from gateway.controller.topic_names import METADATA_TOPIC
from gateway.ports import AUDIT_TOPIC
from kwire.message import Message
from kwire.messages.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult
from kwire.messages.partition_record import PartitionRecord

if TYPE_CHECKING:
    from kwire.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic


def create_partitions(request: CreatePartitionsRequest, case: Case) -> Verdict:
    """The records, and a result for each topic named. Raises ApiError where the request as a whole is too large."""
    count = Counter(topic.name for topic in request.topics)
    records: list[Message] = []
    results = []
    for topic in {topic.name: topic for topic in request.topics}.values():
        result = CreatePartitionsTopicResult(name=topic.name, error_message=None)
        try:
            _check_request(topic, count[topic.name], case)
            records += _add(topic, OPERATION_RECORDS_MAX - len(records), case)
        except _TooMany as refusal:
            raise ApiError(refusal.error, refusal.message) from None
        except ApiError as refusal:
            result.error_code, result.error_message = refusal.error, refusal.message
        results.append(result)
    return Verdict(records, CreatePartitionsResponse(results=results))


class _TooMany(ApiError):
    """The request as a whole makes more records than one operation may have."""


def _check_request(topic: CreatePartitionsTopic, times: int, case: Case) -> None:
    if times > 1:
        raise ApiError(Error.INVALID_REQUEST, "Duplicate topic name.")
    if not case.may_on_topic("ALTER", topic.name):
        raise ApiError(Error.TOPIC_AUTHORIZATION_FAILED)
    if topic.name == METADATA_TOPIC:
        raise ApiError(Error.INVALID_REQUEST, f"{METADATA_TOPIC} has one partition and cannot have more.")
    if topic.name == AUDIT_TOPIC:
        raise ApiError(Error.INVALID_REQUEST, f"{AUDIT_TOPIC} has one partition for each node of the quorum.")


def _add(topic: CreatePartitionsTopic, records_max: int, case: Case) -> list[PartitionRecord]:
    topic_id = case.image.topic_ids.get(topic.name)
    if topic_id is None:
        raise ApiError(Error.UNKNOWN_TOPIC_OR_PARTITION)
    partitions = case.image.partitions[topic_id]
    additional = _additional(topic, len(partitions))
    if additional > records_max:
        raise _TooMany(
            Error.POLICY_VIOLATION,
            f"Excessively large number of partitions per request: {OPERATION_RECORDS_MAX} are the most.",
        )
    factor = len(partitions[min(partitions)].replicas)
    if topic.assignments is None:
        return placed_partitions(topic_id, len(partitions), additional, factor, case)
    made = []
    for index, assignment in enumerate(topic.assignments, len(partitions)):
        check_by_hand(assignment.broker_ids, factor, case.nodes)
        made.append(by_hand_partition(topic_id, index, assignment.broker_ids, case))
    return made


def _additional(topic: CreatePartitionsTopic, existing: int) -> int:
    if topic.count == existing:
        raise ApiError(Error.INVALID_PARTITIONS, f"Topic already has {existing} partition(s).")
    if topic.count < existing:
        raise ApiError(
            Error.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {existing} partition(s); {topic.count} would not be an increase.",
        )
    additional = topic.count - existing
    if topic.assignments is not None and len(topic.assignments) != additional:
        raise ApiError(
            Error.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only {len(topic.assignments)} assignment(s)"
            " were specified.",
        )
    return additional
