"""ConsumerGroupDescribe (key 69): returns consumer groups of KIP-848 with their members, what each
has, and what it should have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import TYPE_CHECKING, Any, Final

from gateway.base.error_text import error_text
from gateway.groups.consumer.events import (
    DescribeConsumerGroups,
    DescribeConsumerGroupsResult,
    DescribedConsumerGroup,
)
from gateway.groups.consumer.member import Member
from gateway.handlers.access import NOT_ASKED, Operation, may
from gateway.handlers.catalog import topic_with_id
from gateway.handlers.consumer_groups import has_consumer_groups
from gateway.handlers.group_requests import ask, group_operations, may_on_group
from gateway.ports.pending_response import Work
from gateway.ports.streamed import Streamed, filled, respond, stream_long
from gateway.ports.work import in_slices
from kwire.messages import consumer_group_describe_response as response
from kwire.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kwire.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse
from kwire.protocol import ApiKey, ErrorCode
from kwire.uuid import Uuid

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from kwire.message import Message

API_KEY: Final = ApiKey.CONSUMER_GROUP_DESCRIBE
VERSIONS: Final = range(2)

#: ``MemberType``
_CLASSIC, _CONSUMER = 0, 1


def handle(request: ConsumerGroupDescribeRequest, context: Context) -> Any:
    """Ask the coordinator for the groups that the client may describe, each once."""
    wanted = tuple(dict.fromkeys(request.group_ids))
    work = _ask(wanted, request.include_authorized_operations, context)
    return in_slices(work, len(wanted))


def _ask(wanted: tuple[str, ...], with_operations: bool, context: Context) -> Work:
    refused, allowed = [], []
    for group_id in wanted:
        error = _fault(group_id, context)
        if error is ErrorCode.NONE:
            allowed.append(group_id)
        else:
            refused.append(response.DescribedGroup(group_id=group_id, error_code=error))
        yield None
    if not allowed:
        return stream_long(ConsumerGroupDescribeResponse(groups=refused))
    return ask(
        context,
        DescribeConsumerGroups(tuple(allowed)),
        lambda result: _respond(refused, result, with_operations, context),
    )


def _fault(group_id: str, context: Context) -> ErrorCode:
    if not has_consumer_groups(context):
        return ErrorCode.UNSUPPORTED_VERSION
    if not may_on_group(context, Operation.DESCRIBE, group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return ErrorCode.NONE if group_id else ErrorCode.INVALID_GROUP_ID


def _respond(
    refused: list[response.DescribedGroup],
    result: DescribeConsumerGroupsResult,
    with_operations: bool,
    context: Context,
) -> Message | Streamed:
    def elements() -> Iterator[Any]:
        yield from refused
        for group in result.groups:
            yield _group(group, with_operations, context)

    size = len(refused) + sum(1 + len(group.members) for group in result.groups)
    return respond(ConsumerGroupDescribeResponse(), "groups", elements(), size)


def _group(
    group: DescribedConsumerGroup, with_operations: bool, context: Context
) -> response.DescribedGroup | Streamed:
    names = _Names(context)
    if group.error is ErrorCode.NONE and not _may_describe_topics(group, names, context):
        return response.DescribedGroup(
            group_id=group.group_id,
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            error_message="The group has described topic(s) that the client is not authorized to "
            "describe.",
        )
    asked = with_operations and group.error is ErrorCode.NONE
    described = response.DescribedGroup(
        error_code=group.error,
        error_message=None if group.message is None else error_text(group.message),
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        authorized_operations=group_operations(context, group.group_id) if asked else NOT_ASKED,
    )
    targets = group.targets or {}
    members = (_member(one, targets.get(one.member_id, {}), names) for one in group.members)
    return filled(described, "members", members)


def _may_describe_topics(group: DescribedConsumerGroup, names: _Names, context: Context) -> bool:
    """Whether the client may describe every topic that a member subscribes to, has or should
    have.
    """
    topics = {name for member in group.members for name in member.topic_names}
    for member in group.members:
        for owned in (
            member.assigned, member.pending_revocation, (group.targets or {}).get(member.member_id),
        ):  # fmt: skip
            topics |= {name for name in map(names.of, owned or ()) if name is not None}
    return all(may(context, Operation.DESCRIBE, name) for name in topics)


class _Names:
    """Names of topics by their ids, each looked up once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._known: dict[Uuid, str | None] = {}

    def of(self, topic_id: Uuid) -> str | None:
        """The name; None if there is no such topic any more."""
        if topic_id not in self._known:
            topic = topic_with_id(topic_id, self._context)
            self._known[topic_id] = None if topic is None else topic.name
        return self._known[topic_id]


def _member(member: Member, target: Mapping[Uuid, Set[int]], names: _Names) -> response.Member:
    has: dict[Uuid, set[int]] = {}
    for owned in (member.assigned, member.pending_revocation):
        for topic_id, partitions in owned.items():
            has.setdefault(topic_id, set()).update(partitions)
    return response.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=response.Assignment(topic_partitions=_topics(has, names)),
        target_assignment=response.Assignment(topic_partitions=_topics(target, names)),
        member_type=_CONSUMER if member.classic is None else _CLASSIC,
    )


def _topics(assignment: Mapping[Uuid, Set[int]], names: _Names) -> list[response.TopicPartitions]:
    return [
        response.TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(partitions))
        for topic_id, partitions in assignment.items()
        if (name := names.of(topic_id)) is not None
    ]
