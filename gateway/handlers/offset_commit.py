"""OffsetCommit (key 8): stores the offsets that a group has read up to.

They are on disk before the response. Requests name topics up to version 9, and give their ids from
version 10 on. Offsets of partitions that do not exist are refused, which bounds the memory that one
group can occupy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.groups.events import CommitResult, OffsetCommit, OffsetToCommit
from gateway.handlers.access import Operation, may
from gateway.handlers.catalog import Topic, has_partition, topic_named, topic_with_id
from gateway.handlers.group_requests import ask, may_on_group, owner_of
from kwire.messages.offset_commit_request import OffsetCommitRequest
from kwire.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context, PendingResponse

API_KEY: Final = ApiKey.OFFSET_COMMIT
VERSIONS: Final = range(2, 11)

_FIRST_WITH_TOPIC_IDS: Final = 10
#: The first version whose clients know GROUP_ID_NOT_FOUND (KIP-848).
_FIRST_WITH_GROUP_ID_NOT_FOUND: Final = 9


def handle(
    request: OffsetCommitRequest, context: Context
) -> OffsetCommitResponse | PendingResponse:
    """Send the offsets that the client may commit to the coordinator; others get their error."""
    if not may_on_group(context, Operation.READ, request.group_id):
        faults = [
            [ErrorCode.GROUP_AUTHORIZATION_FAILED] * len(topic.partitions)
            for topic in request.topics
        ]
        return _respond(request, faults)
    faults = [
        [_fault(topic, said, context) for said in topic.partitions] for topic in request.topics
    ]
    offsets = tuple(
        OffsetToCommit(
            topic=found.name,
            partition=said.partition_index,
            offset=said.committed_offset,
            leader_epoch=said.committed_leader_epoch,
            metadata=said.committed_metadata or "",
        )
        for topic, errors in zip(request.topics, faults, strict=True)
        if (found := _topic(topic, context)) is not None
        for said, error in zip(topic.partitions, errors, strict=True)
        if error is ErrorCode.NONE
    )
    if not offsets:
        return _respond(request, faults)
    event = OffsetCommit(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id_or_member_epoch,
        retention_ms=request.retention_time_ms,
        offsets=offsets,
        knows_group_id_not_found=context.version >= _FIRST_WITH_GROUP_ID_NOT_FOUND,
        owner=owner_of(context),
    )
    return ask(context, event, lambda result: _merge(request, faults, result))


def _fault(topic: Any, said: Any, context: Context) -> ErrorCode:
    found = _topic(topic, context)
    if found is None and context.version >= _FIRST_WITH_TOPIC_IDS:
        return ErrorCode.UNKNOWN_TOPIC_ID
    # Authorization comes before existence: a client without READ must not learn from the error
    # whether the topic exists.
    if not may(context, Operation.READ, topic.name if found is None else found.name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if found is None or not has_partition(found, said.partition_index):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _topic(topic: Any, context: Context) -> Topic | None:
    by_id = context.version >= _FIRST_WITH_TOPIC_IDS
    return topic_with_id(topic.topic_id, context) if by_id else topic_named(topic.name, context)


def _merge(
    request: OffsetCommitRequest, faults: list[list[ErrorCode]], result: CommitResult
) -> OffsetCommitResponse:
    """Return the response with the coordinator's errors in the places of the offsets it got."""
    left = iter(result.errors)
    merged = [
        [next(left) if error is ErrorCode.NONE else error for error in errors] for errors in faults
    ]
    return _respond(request, merged)


def _respond(request: OffsetCommitRequest, faults: list[Any]) -> OffsetCommitResponse:
    topics = [
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetCommitResponsePartition(
                    partition_index=said.partition_index, error_code=error
                )
                for said, error in zip(topic.partitions, errors, strict=True)
            ],
        )
        for topic, errors in zip(request.topics, faults, strict=True)
    ]
    return OffsetCommitResponse(topics=topics)
