"""OffsetCommit (key 8): stores the offsets that a group has read up to.

They are on disk before the response. Requests name topics up to version 9, and give their ids from
version 10 on. Offsets of partitions that do not exist are refused, which bounds the memory that one
group can occupy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from gateway.groups.events import CommitResult, OffsetCommit, OffsetToCommit
from gateway.handlers.access import Operation, may
from gateway.handlers.catalog import Topic, has_partition, topic_named, topic_with_id
from gateway.handlers.group_requests import ask, may_on_group, owner_of
from gateway.ports.pending_response import Work
from gateway.ports.streamed import Streamed, filled, respond
from gateway.ports.work import in_slices
from kwire.messages.offset_commit_request import OffsetCommitRequest
from kwire.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from kwire.message import Message

API_KEY: Final = ApiKey.OFFSET_COMMIT
VERSIONS: Final = range(2, 11)

_FIRST_WITH_TOPIC_IDS: Final = 10
#: The first version whose clients know GROUP_ID_NOT_FOUND (KIP-848).
_FIRST_WITH_GROUP_ID_NOT_FOUND: Final = 9


def handle(request: OffsetCommitRequest, context: Context) -> Any:
    """Send the offsets that the client may commit to the coordinator; others get their error."""
    if not may_on_group(context, Operation.READ, request.group_id):
        faults = [
            [ErrorCode.GROUP_AUTHORIZATION_FAILED] * len(topic.partitions)
            for topic in request.topics
        ]
        return _respond(request, faults)
    return in_slices(_ask(request, context), _size(request))


def _ask(request: OffsetCommitRequest, context: Context) -> Work:
    faults = []
    offsets = []
    for topic in request.topics:
        found = _topic(topic, context)
        errors = []
        for said in topic.partitions:
            error = _fault(topic, found, said, context)
            errors.append(error)
            if found is not None and error is ErrorCode.NONE:
                offsets.append(_to_commit(found, said))
            yield None
        faults.append(errors)
        yield None
    if not offsets:
        return _respond(request, faults)
    event = OffsetCommit(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id_or_member_epoch,
        retention_ms=request.retention_time_ms,
        offsets=tuple(offsets),
        knows_group_id_not_found=context.version >= _FIRST_WITH_GROUP_ID_NOT_FOUND,
        owner=owner_of(context),
    )
    return ask(context, event, lambda result: _merge(request, faults, result))


def _size(request: OffsetCommitRequest) -> int:
    return sum(1 + len(topic.partitions) for topic in request.topics)


def _to_commit(topic: Topic, said: Any) -> OffsetToCommit:
    return OffsetToCommit(
        topic=topic.name,
        partition=said.partition_index,
        offset=said.committed_offset,
        leader_epoch=said.committed_leader_epoch,
        metadata=said.committed_metadata or "",
        topic_id=topic.topic_id,
    )


def _fault(topic: Any, found: Topic | None, said: Any, context: Context) -> ErrorCode:
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
) -> Message | Streamed:
    """Return the response with the coordinator's errors in the places of the offsets it got."""
    left = iter(result.errors)
    merged = [
        [next(left) if error is ErrorCode.NONE else error for error in errors] for errors in faults
    ]
    return _respond(request, merged)


def _respond(request: OffsetCommitRequest, faults: list[Any]) -> Message | Streamed:
    topics = (
        filled(
            OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id),
            "partitions",
            _partitions(topic.partitions, errors),
        )
        for topic, errors in zip(request.topics, faults, strict=True)
    )
    return respond(OffsetCommitResponse(), "topics", topics, _size(request))


def _partitions(
    partitions: Iterable[Any], errors: Iterable[int]
) -> Iterator[OffsetCommitResponsePartition]:
    for said, error in zip(partitions, errors, strict=True):
        yield OffsetCommitResponsePartition(partition_index=said.partition_index, error_code=error)
