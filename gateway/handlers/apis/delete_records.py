"""DeleteRecords (key 21): moves the log start of partitions that hold data here (KIP-107).

Clients cannot delete records of any other topic. The response classes are imported at the first
request: most servers never get one. Source: ``KafkaApis.handleDeleteRecordsRequest``,
``ReplicaManager.deleteRecordsOnLocalLog``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from gateway.handlers.access import Operation, may
from gateway.handlers.catalog import Topic, topic_named
from gateway.handlers.refusals import REFUSED
from gateway.handlers.topic import INTERNAL_TOPICS
from gateway.ports.pending_response import PendingResponse
from gateway.ports.services import AUDIT_TOPIC
from gateway.ports.streamed import filled, respond
from gateway.ports.work import begun
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from gateway.ports.pending_response import Answer, Work
    from gateway.ports.streamed import Streamed
    from kwire.message import Message, Struct
    from kwire.messages.delete_records_request import DeleteRecordsRequest

API_KEY: Final = ApiKey.DELETE_RECORDS
VERSIONS: Final = range(3)
#: ``DeleteRecordsResponse.INVALID_LOW_WATERMARK``.
_NONE: Final = -1
#: Partitions that are asked at once.
_STEPS_AT_ONCE: Final = 4


def handle(request: DeleteRecordsRequest, context: Context) -> Answer:
    """Delete the records of each partition below its offset. The response comes when all log starts
    are on disk.
    """
    if context.gateway.replicas is None:
        return _refuse_all(request, context)
    return begun(_Deletion(request, context).run(), _STEPS_AT_ONCE)


def _refuse_all(request: DeleteRecordsRequest, context: Context) -> Message | Streamed:
    from kwire.messages.delete_records_response import (
        DeleteRecordsPartitionResult,
        DeleteRecordsResponse,
        DeleteRecordsTopicResult,
    )

    def refused(topic: Any) -> Struct | Streamed:
        partitions = (
            DeleteRecordsPartitionResult(
                partition_index=partition.partition_index, low_watermark=_NONE, error_code=REFUSED
            )
            for partition in topic.partitions
        )
        return filled(DeleteRecordsTopicResult(name=topic.name), "partitions", partitions)

    size = len(request.topics) + sum(len(topic.partitions) for topic in request.topics)
    return respond(DeleteRecordsResponse(), "topics", map(refused, request.topics), size)


class _Deletion:
    """One request, until each of its partitions has an answer."""

    def __init__(self, request: DeleteRecordsRequest, context: Context) -> None:
        from kwire.messages.delete_records_response import DeleteRecordsResponse

        self._request = request
        self._context = context
        self._response = DeleteRecordsResponse()
        self._unanswered: dict[int, Any] = {}  # results of partitions, by identity
        self._pending: PendingResponse | None = None

    def run(self) -> Work:
        """Ask every partition, in the order of the request."""
        from kwire.messages.delete_records_response import (
            DeleteRecordsPartitionResult,
            DeleteRecordsTopicResult,
        )

        for topic in self._request.topics:
            answer = DeleteRecordsTopicResult(name=topic.name)
            self._response.topics.append(answer)
            found = self._topic(topic.name)
            for wanted in topic.partitions:
                one = DeleteRecordsPartitionResult(
                    partition_index=wanted.partition_index, low_watermark=_NONE
                )
                answer.partitions.append(one)
                self._unanswered[id(one)] = one
                self._delete(found, one, wanted.offset)
                yield None
        if not self._unanswered:
            return self._response
        self._pending = PendingResponse(
            deadline=self._context.now + max(0, self._request.timeout_ms) / 1000,
            expire=self._expired,
        )
        return self._pending

    def _topic(self, name: str) -> Topic | ErrorCode:
        if not may(self._context, Operation.DELETE, name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        found = topic_named(name, self._context)
        if found is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if found.partitions is None or name == AUDIT_TOPIC:
            return REFUSED
        return found

    def _delete(self, topic: Topic | ErrorCode, one: Any, before: int) -> None:
        if isinstance(topic, ErrorCode):
            self._done(one, topic)
            return
        assert topic.partitions is not None, "others are refused"
        if one.partition_index not in topic.partitions:
            self._done(one, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif topic.name in INTERNAL_TOPICS:
            self._done(one, ErrorCode.INVALID_TOPIC_EXCEPTION)
        else:
            assert self._context.gateway.replicas is not None, "a broker has replicas"
            found = self._context.gateway.replicas.find_writable(
                topic.topic_id, one.partition_index
            )
            if isinstance(found, ErrorCode):
                self._done(one, found)
            else:
                found.delete_records(before, partial(self._done, one))

    def _done(self, one: Any, outcome: int | ErrorCode) -> None:
        """A partition has answered: the first offset that it still has, or an error."""
        if isinstance(outcome, ErrorCode):
            one.error_code = outcome
        else:
            one.low_watermark, one.error_code = outcome, ErrorCode.NONE
        self._unanswered.pop(id(one), None)
        if self._pending is not None and not self._unanswered:
            self._pending.complete(self._response)

    def _expired(self) -> Message:
        """The time of the request is over: the other records may still be deleted."""
        for one in self._unanswered.values():
            one.error_code = ErrorCode.REQUEST_TIMED_OUT
        return self._response
