"""CreatePartitions: adds partitions to existing topics
(``ReplicationControlManager.createPartitions``).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from gateway.base.slices import Slices
from gateway.controller.admin_api import AdminApi, Refusal, SlicedDecision, named_topics
from gateway.controller.assignments import by_hand_partition, check_by_hand, placed_partitions
from gateway.controller.errors import ApiError
from gateway.controller.records import OPERATION_RECORDS_MAX
from gateway.controller.request_context import ControllerRequestContext, ControllerResult
from gateway.ports.services import AUDIT_TOPIC
from gateway.ports.streamed import Streamed, respond
from gateway.ports.view_topics import VIEW_TOPICS
from kwire.message import Message
from kwire.messages.create_partitions_response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from kwire.messages.partition_record import PartitionRecord
from kwire.protocol import CLUSTER_METADATA_TOPIC, ApiKey, ErrorCode

if TYPE_CHECKING:
    from kwire.messages.create_partitions_request import (
        CreatePartitionsRequest,
        CreatePartitionsTopic,
    )


def create_partitions(
    request: CreatePartitionsRequest, context: ControllerRequestContext
) -> SlicedDecision:
    """Return the records of the new partitions, and a result for each topic of the request.

    Raises ApiError if the request as a whole is too large.
    """
    # All names first, because the first of two equal ones is refused, too.
    count = Counter(topic.name for topic in request.topics)
    records: list[Message] = []
    results = []
    # One result for a name that is there twice.
    for topic in {topic.name: topic for topic in request.topics}.values():
        result = CreatePartitionsTopicResult(name=topic.name, error_message=None)
        try:
            _check_request(topic, count[topic.name], context)
            records += yield from _add(topic, OPERATION_RECORDS_MAX - len(records), context)
        # Before ApiError, of which it is a subclass.
        except _TooMany as refusal:
            raise ApiError(refusal.error, refusal.message) from None
        except ApiError as refusal:
            result.error_code, result.error_message = refusal.error, refusal.message
        results.append(result)
        yield
    return ControllerResult(records, CreatePartitionsResponse(results=results))


class _TooMany(ApiError):
    """The request as a whole makes more records than one operation may have.

    It ends the request, unlike other errors, which are those of one topic
    (``BoundedListTooLongException``).
    """


def _check_request(
    topic: CreatePartitionsTopic, times: int, context: ControllerRequestContext
) -> None:
    # None of them counts: which number of partitions is meant is not known.
    if times > 1:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    # Before the topic is looked up: the error must not tell whether it exists.
    if not context.may_on_topic("ALTER", topic.name):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if topic.name == CLUSTER_METADATA_TOPIC:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"{CLUSTER_METADATA_TOPIC} has one partition and cannot have more.",
        )
    if topic.name == AUDIT_TOPIC:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"{AUDIT_TOPIC} cannot have more partitions: the order of its entries is that of one.",
        )
    if topic.name in VIEW_TOPICS:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"{topic.name} has one partition and cannot have more."
        )


def _add(
    topic: CreatePartitionsTopic, records_max: int, context: ControllerRequestContext
) -> Slices[list[PartitionRecord]]:
    topic_id = context.image.topic_ids.get(topic.name)
    if topic_id is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    partitions = context.image.partitions[topic_id]
    additional = _additional(topic, len(partitions))
    # Before any partition is made: the count in a request is an int32.
    if additional > records_max:
        raise _TooMany(
            ErrorCode.POLICY_VIOLATION,
            f"Excessively large number of partitions per request: {OPERATION_RECORDS_MAX} are "
            "the most.",
        )
    context.apply_partition_change_quota(additional)
    # New partitions get as many replicas as the first one has, as in Kafka: a reassignment may have
    # given others a different number.
    factor = len(partitions[min(partitions)].replicas)
    if topic.assignments is None:
        placed = yield from placed_partitions(
            topic_id, len(partitions), additional, factor, context
        )
        return placed
    made = []
    for index, assignment in enumerate(topic.assignments, len(partitions)):
        # The topic's factor, so that the new partitions are like the others.
        check_by_hand(assignment.broker_ids, factor, context.nodes)
        made.append(by_hand_partition(topic_id, index, assignment.broker_ids, context))
        yield
    return made


def _additional(topic: CreatePartitionsTopic, existing: int) -> int:
    # INVALID_PARTITIONS and no success, as in ``ReplicationControlManager.createPartitions``.
    if topic.count == existing:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {existing} partition(s).")
    if topic.count < existing:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {existing} partition(s); {topic.count} would "
            "not be an increase.",
        )
    additional = topic.count - existing
    # Assignments are for the new partitions alone; those that exist are moved by a reassignment.
    if topic.assignments is not None and len(topic.assignments) != additional:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only "
            f"{len(topic.assignments)} assignment(s) were specified.",
        )
    return additional


def _refuse(request: CreatePartitionsRequest, refusal: Refusal) -> Message | Streamed:
    results = (
        CreatePartitionsTopicResult(
            name=topic.name, error_code=refusal.error, error_message=refusal.message
        )
        for topic in request.topics
    )
    return respond(CreatePartitionsResponse(), "results", results, len(request.topics))


API: Final = AdminApi(
    key=ApiKey.CREATE_PARTITIONS,
    operation="createPartitions",
    decide=create_partitions,
    refuse=_refuse,
    resources=named_topics,
)
