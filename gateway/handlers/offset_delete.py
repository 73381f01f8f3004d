"""OffsetDelete (key 47): deletes committed offsets of topics that a group does not subscribe to
(KIP-496).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.groups.events import OffsetDelete, OffsetDeleteResult
from gateway.handlers.access import Operation, may
from gateway.handlers.catalog import has_partition, topic_named
from gateway.handlers.group_requests import ask, may_on_group
from kwire.messages.offset_delete_request import OffsetDeleteRequest
from kwire.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context, PendingResponse

API_KEY: Final = ApiKey.OFFSET_DELETE
VERSIONS: Final = range(1)


def handle(
    request: OffsetDeleteRequest, context: Context
) -> OffsetDeleteResponse | PendingResponse:
    """Send the offsets that the client may delete to the coordinator; others get their error."""
    if not may_on_group(context, Operation.DELETE, request.group_id):
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    faults = {
        (topic.name, said.partition_index): _fault(topic.name, said.partition_index, context)
        for topic in request.topics
        for said in topic.partitions
    }
    partitions = tuple(where for where, fault in faults.items() if fault is ErrorCode.NONE)
    event = OffsetDelete(group_id=request.group_id, partitions=partitions)
    return ask(context, event, lambda result: _respond(result, dict(faults), partitions))


def _fault(topic: str, partition: int, context: Context) -> ErrorCode:
    if not may(context, Operation.READ, topic):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    found = topic_named(topic, context)
    known = found is not None and has_partition(found, partition)
    return ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _respond(
    result: OffsetDeleteResult,
    errors: dict[tuple[str, int], Any],
    asked: tuple[tuple[str, int], ...],
) -> OffsetDeleteResponse:
    if result.error:
        return OffsetDeleteResponse(error_code=result.error)
    errors.update(zip(asked, result.errors, strict=True))
    topics: dict[str, OffsetDeleteResponseTopic] = {}
    for (name, partition), error in errors.items():
        topic = topics.setdefault(name, OffsetDeleteResponseTopic(name=name, partitions=[]))
        topic.partitions.append(
            OffsetDeleteResponsePartition(partition_index=partition, error_code=error)
        )
    return OffsetDeleteResponse(topics=list(topics.values()))
