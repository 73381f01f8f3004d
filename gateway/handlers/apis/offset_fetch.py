"""OffsetFetch (key 9): returns the committed offsets of groups.

Versions up to 7 have one group, later ones many (KIP-709), and from 10 on topic ids (KIP-848).
``RequireStable`` has no effect: there are no transactions, and every response waits for the commits
before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from gateway.base.slices import Slices
from gateway.groups.events import (
    NO_MEMBER,
    Committed,
    FetchedGroup,
    OffsetFetch,
    OffsetFetchResult,
    TopicPartition,
)
from gateway.handlers.access import Operation, may
from gateway.handlers.catalog import topic_named, topic_with_id
from gateway.handlers.group_requests import ask, may_on_group
from gateway.ports.pending_response import Work
from gateway.ports.streamed import WHOLE_MAX, Streamed, filled, respond
from gateway.ports.work import in_slices
from kwire.messages.offset_fetch_request import OffsetFetchRequest
from kwire.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kwire.protocol import ApiKey, ErrorCode
from kwire.uuid import ZERO_UUID, Uuid

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from kwire.message import Message

API_KEY: Final = ApiKey.OFFSET_FETCH
VERSIONS: Final = range(1, 11)

#: Below this version an error of the whole request is repeated for every partition.
_FIRST_WITH_TOP_LEVEL_ERROR: Final = 2
_FIRST_WITH_GROUPS: Final = 8
#: The first version with the member that asks (KIP-848).
_FIRST_WITH_MEMBERS: Final = 9
_FIRST_WITH_TOPIC_IDS: Final = 10
#: The value for a partition without a committed offset.
_NOTHING: Final = Committed(offset=-1, leader_epoch=-1, metadata="", commit_timestamp=-1)


@dataclass(slots=True)
class _Wanted:
    """One requested partition, and the error against it."""

    name: str
    topic_id: Uuid
    partition: int
    fault: ErrorCode


@dataclass(slots=True)
class _Question:
    """One requested group; ``wanted`` is None for everything it has committed."""

    group_id: str
    wanted: list[_Wanted] | None
    fault: ErrorCode
    member: tuple[str | None, int] = NO_MEMBER


#: A partition, its committed offset, and an error code.
_Line = tuple[_Wanted, Committed, int]


def handle(request: OffsetFetchRequest, context: Context) -> Any:
    """Ask the coordinator for the offsets that the client may read."""
    groups: list[tuple[str, Any]]
    members: list[tuple[str | None, int]] = []
    if context.version < _FIRST_WITH_GROUPS:
        groups = [(request.group_id, request.topics)]
    else:
        groups = [(group.group_id, group.topics) for group in request.groups]
        if context.version >= _FIRST_WITH_MEMBERS:
            members = [(group.member_id, group.member_epoch) for group in request.groups]
    return in_slices(_ask(groups, members, request.require_stable, context), _size(groups))


def _size(groups: list[tuple[str, Any]]) -> int:
    size = len(groups)
    if size > WHOLE_MAX:
        return size  # it is enough to know that they are many
    return size + sum(
        1 + len(topic.partition_indexes) for _, some in groups for topic in some or ()
    )


def _ask(
    groups: list[tuple[str, Any]],
    members: list[tuple[str | None, int]],
    stable: bool,
    context: Context,
) -> Work:
    questions = yield from _questions(groups, context)
    for question, member in zip(questions, members, strict=False):
        question.member = member
    asked = [question for question in questions if question.fault is ErrorCode.NONE]
    if not asked:
        return _respond(questions, OffsetFetchResult(groups=()), context)
    event = OffsetFetch(
        tuple((question.group_id, _partitions(question.wanted)) for question in asked),
        require_stable=stable,
        members=tuple(question.member for question in asked) if members else (),
    )
    return ask(context, event, lambda result: _respond(questions, result, context))


def _questions(groups: list[tuple[str, Any]], context: Context) -> Slices[list[_Question]]:
    questions = []
    names: set[str] = set()
    for group_id, topics in groups:
        question = yield from _question(group_id, topics, context)
        # A small request that repeats a group must not cause a large response.
        if group_id in names:
            question.fault = ErrorCode.INVALID_REQUEST
        names.add(group_id)
        questions.append(question)
    return questions


def _question(group_id: str, topics: Sequence[Any] | None, context: Context) -> Slices[_Question]:
    allowed = may_on_group(context, Operation.DESCRIBE, group_id)
    wanted: list[_Wanted] = []
    for topic in topics or ():
        wanted += _wanted(topic, context)
        yield
    yield
    return _Question(
        group_id,
        None if topics is None else _once(wanted),
        ErrorCode.NONE if allowed else ErrorCode.GROUP_AUTHORIZATION_FAILED,
    )


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
    """Yield each partition at its first occurrence."""
    return list(
        {(one.name, one.topic_id, one.partition): one for one in reversed(wanted)}.values()
    )[::-1]


def _partitions(wanted: list[_Wanted] | None) -> tuple[TopicPartition, ...] | None:
    if wanted is None:
        return None
    return tuple((one.name, one.partition) for one in wanted if one.fault is ErrorCode.NONE)


def _respond(
    questions: list[_Question], result: OffsetFetchResult, context: Context
) -> Message | Streamed:
    fetched = iter(result.groups)
    answers = [(one, next(fetched) if one.fault is ErrorCode.NONE else None) for one in questions]
    size = sum(
        1 + len(one.wanted or ()) + (0 if found is None else len(found.offsets))
        for one, found in answers
    )
    if context.version >= _FIRST_WITH_GROUPS:
        groups = (_group(question, found, context) for question, found in answers)
        return respond(OffsetFetchResponse(), "groups", groups, size)
    ((question, found),) = answers
    response = OffsetFetchResponse(error_code=_error_of(question, found))
    topics = _topics(
        question, found, context, OffsetFetchResponseTopic, OffsetFetchResponsePartition
    )
    return respond(response, "topics", topics, size)


def _error_of(question: _Question, found: FetchedGroup | None) -> int:
    return int(question.fault if found is None else found.error)


def _group(question: _Question, found: FetchedGroup | None, context: Context) -> Streamed:
    group = OffsetFetchResponseGroup(
        group_id=question.group_id, error_code=_error_of(question, found)
    )
    topics = _topics(
        question, found, context, OffsetFetchResponseTopics, OffsetFetchResponsePartitions
    )
    return Streamed(group, "topics", topics)


def _lines(
    question: _Question, found: FetchedGroup | None, context: Context
) -> Iterator[_Line | None]:
    """Yield each partition of the response with its offset and error; None for one that the client
    may not describe.
    """
    error = _error_of(question, found)
    if error:
        everywhere = context.version < _FIRST_WITH_TOP_LEVEL_ERROR
        yield from ((one, _NOTHING, error) for one in question.wanted or () if everywhere)
        return
    assert found is not None
    if question.wanted is None:
        yield from _everything(found, context)
        return
    committed = iter(found.offsets)
    for one in question.wanted:
        offset = next(committed)[1] if one.fault is ErrorCode.NONE else None
        if (one.name, one.partition) in found.unstable and one.fault is ErrorCode.NONE:
            yield one, _NOTHING, int(ErrorCode.UNSTABLE_OFFSET_COMMIT)
        else:
            yield one, offset or _NOTHING, int(one.fault)


def _everything(found: FetchedGroup, context: Context) -> Iterator[_Line | None]:
    """Yield all committed offsets of topics that the client may describe."""
    for (topic, partition), committed in found.offsets:
        if (topic, partition) in found.unstable and may(context, Operation.DESCRIBE, topic):
            where = _Wanted(topic, _id_of(topic, context), partition, ErrorCode.NONE)
            yield where, _NOTHING, int(ErrorCode.UNSTABLE_OFFSET_COMMIT)
        elif committed is not None and may(context, Operation.DESCRIBE, topic):
            yield _Wanted(topic, _id_of(topic, context), partition, ErrorCode.NONE), committed, 0
        else:
            yield None


def _id_of(name: str, context: Context) -> Uuid:
    found = topic_named(name, context)
    return ZERO_UUID if found is None else found.topic_id


def _topics(
    question: _Question,
    found: FetchedGroup | None,
    context: Context,
    of_topic: Any,
    of_partition: Any,
) -> Iterator[Any]:
    """Return the topics of a group in the structs of the version: ``of_topic`` and
    ``of_partition``.
    """
    lines: list[_Line] = []
    for line in _lines(question, found, context):
        if line is not None:
            lines.append(line)
        yield None
    for (name, topic_id), run in groupby(lines, lambda line: (line[0].name, line[0].topic_id)):
        topic = (
            of_topic(name=name, topic_id=topic_id)
            if of_topic is OffsetFetchResponseTopics
            else of_topic(name=name)
        )
        yield filled(topic, "partitions", (_partition(line, of_partition) for line in run))


def _partition(line: _Line, of_partition: Any) -> Any:
    one, committed, error = line
    return of_partition(
        partition_index=one.partition,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=error,
    )
