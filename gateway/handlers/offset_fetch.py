"""OffsetFetch: how far groups have read. One group up to version 7, many from 8 on; topics by id from 10 on.

``RequireStable`` changes nothing: there are no transactions here, and every answer waits for the commits before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gateway.groups.events import Committed, FetchedGroup, OffsetFetch, OffsetFetchResult, TopicPartition
from gateway.handlers.access import Operation, may
from gateway.handlers.catalog import topic_named, topic_with_id
from gateway.handlers.errors import ErrorCode
from gateway.handlers.group_requests import ask, by_topic, may_on_group
from kwire.messages.offset_fetch_request import OffsetFetchRequest
from kwire.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kwire.uuid import ZERO_UUID, Uuid

if TYPE_CHECKING:
    from gateway.handlers.context import Context, Later

API_KEY: Final = 9
VERSIONS: Final = range(1, 11)

#: Before it an error of the whole request stands on every partition.
_FIRST_WITH_TOP_LEVEL_ERROR: Final = 2
_FIRST_WITH_GROUPS: Final = 8
_FIRST_WITH_TOPIC_IDS: Final = 10
#: What stands for an offset that is not there.
_NOTHING: Final = Committed(offset=-1, leader_epoch=-1, metadata="", commit_timestamp=-1)


@dataclass(slots=True)
class _Wanted:
    """One partition that is asked for, and what stands against it."""

    name: str
    topic_id: Uuid
    partition: int
    fault: ErrorCode


@dataclass(slots=True)
class _Question:
    """One group that is asked for; ``wanted`` is None for everything it has."""

    group_id: str
    wanted: list[_Wanted] | None
    fault: ErrorCode


def handle(request: OffsetFetchRequest, context: Context) -> OffsetFetchResponse | Later:
    """Put what may be asked to the coordinator."""
    questions = _questions(request, context)
    asked = [question for question in questions if question.fault is ErrorCode.NONE]
    if not asked:
        return _respond(questions, OffsetFetchResult(groups=()), context)
    event = OffsetFetch(tuple((question.group_id, _partitions(question.wanted)) for question in asked))
    return ask(context, event, lambda result: _respond(questions, result, context))


def _questions(request: OffsetFetchRequest, context: Context) -> list[_Question]:
    if context.version < _FIRST_WITH_GROUPS:
        return [_question(request.group_id, request.topics, context)]
    questions = [_question(group.group_id, group.topics, context) for group in request.groups]
    names: set[str] = set()
    for question in questions:
        # A short request must not become a long answer by naming the same again and again.
        if question.group_id in names:
            question.fault = ErrorCode.INVALID_REQUEST
        names.add(question.group_id)
    return questions


def _question(group_id: str, topics: Sequence[Any] | None, context: Context) -> _Question:
    allowed = may_on_group(context, Operation.DESCRIBE, group_id)
    wanted = None if topics is None else _once([one for topic in topics for one in _wanted(topic, context)])
    return _Question(group_id, wanted, ErrorCode.NONE if allowed else ErrorCode.GROUP_AUTHORIZATION_FAILED)


def _wanted(topic: Any, context: Context) -> list[_Wanted]:
    name, topic_id = topic.name, getattr(topic, "topic_id", ZERO_UUID)
    fault = ErrorCode.NONE
    if context.version >= _FIRST_WITH_TOPIC_IDS:
        found = topic_with_id(topic_id, context)
        fault = ErrorCode.UNKNOWN_TOPIC_ID if found is None else ErrorCode.NONE
        name = "" if found is None else found.name
    # A topic that does not exist has no offsets; by name that is no error (as in Kafka).
    if fault is ErrorCode.NONE and not may(context, Operation.DESCRIBE, name):
        fault = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return [_Wanted(name, topic_id, partition, fault) for partition in topic.partition_indexes]


def _once(wanted: list[_Wanted]) -> list[_Wanted]:
    """Every partition the first time that it is named."""
    return list({(one.name, one.topic_id, one.partition): one for one in reversed(wanted)}.values())[::-1]


def _partitions(wanted: list[_Wanted] | None) -> tuple[TopicPartition, ...] | None:
    if wanted is None:
        return None
    return tuple((one.name, one.partition) for one in wanted if one.fault is ErrorCode.NONE)


def _respond(questions: list[_Question], result: OffsetFetchResult, context: Context) -> OffsetFetchResponse:
    fetched = iter(result.groups)
    groups = []
    for question in questions:
        found = next(fetched) if question.fault is ErrorCode.NONE else None
        groups.append(_group(question, found, context))
    if context.version >= _FIRST_WITH_GROUPS:
        return OffsetFetchResponse(groups=groups)
    (group,) = groups
    topics = [
        OffsetFetchResponseTopic(name=topic.name, partitions=[_single(partition) for partition in topic.partitions])
        for topic in group.topics
    ]
    return OffsetFetchResponse(topics=topics, error_code=group.error_code)


def _group(question: _Question, found: FetchedGroup | None, context: Context) -> OffsetFetchResponseGroup:
    error = int(question.fault if found is None else found.error)
    if error:
        everywhere = context.version < _FIRST_WITH_TOP_LEVEL_ERROR
        lines = [(one, _NOTHING, error) for one in question.wanted or ()] if everywhere else []
        return OffsetFetchResponseGroup(group_id=question.group_id, topics=_topics(lines), error_code=error)
    assert found is not None
    if question.wanted is None:
        lines = _everything(found, context)
    else:
        committed = iter(found.offsets)
        lines = [
            (one, (next(committed)[1] if one.fault is ErrorCode.NONE else None) or _NOTHING, int(one.fault))
            for one in question.wanted
        ]
    return OffsetFetchResponseGroup(group_id=question.group_id, topics=_topics(lines))


def _everything(found: FetchedGroup, context: Context) -> list[tuple[_Wanted, Committed, int]]:
    """All that the group committed, of the topics that who asks may know of."""
    return [
        (_Wanted(topic, _id_of(topic, context), partition, ErrorCode.NONE), committed, 0)
        for (topic, partition), committed in found.offsets
        if committed is not None and may(context, Operation.DESCRIBE, topic)
    ]


def _id_of(name: str, context: Context) -> Uuid:
    found = topic_named(name, context)
    return ZERO_UUID if found is None else found.topic_id


def _topics(lines: list[tuple[_Wanted, Committed, int]]) -> list[OffsetFetchResponseTopics]:
    return [
        OffsetFetchResponseTopics(
            name=name,
            topic_id=topic_id,
            partitions=[
                OffsetFetchResponsePartitions(
                    partition_index=one.partition,
                    committed_offset=committed.offset,
                    committed_leader_epoch=committed.leader_epoch,
                    metadata=committed.metadata,
                    error_code=error,
                )
                for one, committed, error in run
            ],
        )
        for (name, topic_id), run in by_topic(lines, lambda line: (line[0].name, line[0].topic_id))
    ]


def _single(partition: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    """The same in the struct of versions 1 to 7."""
    return OffsetFetchResponsePartition(
        partition_index=partition.partition_index,
        committed_offset=partition.committed_offset,
        committed_leader_epoch=partition.committed_leader_epoch,
        metadata=partition.metadata,
        error_code=partition.error_code,
    )
