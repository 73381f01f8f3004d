"""OffsetDelete (key 47): deletes committed offsets of topics that a group does not subscribe to
(KIP-496).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from gateway.groups.events import OffsetDelete, OffsetDeleteResult
from gateway.handlers.access import Operation, may
from gateway.handlers.catalog import has_partition, topic_named
from gateway.handlers.group_requests import ask, may_on_group
from gateway.ports.pending_response import Work
from gateway.ports.streamed import Streamed, filled, respond
from gateway.ports.work import in_slices
from kwire.messages.offset_delete_request import OffsetDeleteRequest
from kwire.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from kwire.message import Message

API_KEY: Final = ApiKey.OFFSET_DELETE
VERSIONS: Final = range(1)


def handle(request: OffsetDeleteRequest, context: Context) -> Any:
    """Send the offsets that the client may delete to the coordinator; others get their error."""
    if not may_on_group(context, Operation.DELETE, request.group_id):
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    size = sum(1 + len(topic.partitions) for topic in request.topics)
    return in_slices(_ask(request, context), size)


def _ask(request: OffsetDeleteRequest, context: Context) -> Work:
    faults = {}
    for topic in request.topics:
        for said in topic.partitions:
            where = topic.name, said.partition_index
            faults[where] = _fault(*where, context)
            yield None
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
) -> Message | Streamed:
    if result.error:
        return OffsetDeleteResponse(error_code=result.error)
    errors.update(zip(asked, result.errors, strict=True))
    topics: dict[str, list[tuple[int, int]]] = {}
    for (name, partition), error in errors.items():
        topics.setdefault(name, []).append((partition, error))
    elements = (
        filled(OffsetDeleteResponseTopic(name=name), "partitions", _partitions(found))
        for name, found in topics.items()
    )
    return respond(OffsetDeleteResponse(), "topics", elements, len(topics) + len(errors))


def _partitions(found: Iterable[tuple[int, int]]) -> Iterator[OffsetDeleteResponsePartition]:
    for partition, error in found:
        yield OffsetDeleteResponsePartition(partition_index=partition, error_code=error)
