"""ConsumerGroupHeartbeat (key 68): the one request of members of consumer groups (KIP-848), with
which they join, learn their partitions, and leave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.base.error_text import error_text
from gateway.groups.consumer.events import ConsumerHeartbeat, ConsumerHeartbeatResult
from gateway.handlers.access import Operation, may
from gateway.handlers.consumer_groups import has_consumer_groups
from gateway.handlers.group_requests import ask, may_on_group, owner_of
from kwire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kwire.messages.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from gateway.ports.pending_response import PendingResponse

API_KEY: Final = ApiKey.CONSUMER_GROUP_HEARTBEAT
VERSIONS: Final = range(2)

#: The first version whose clients make their member ids (KIP-1082).
_FIRST_WITH_OWN_MEMBER_ID: Final = 1


def handle(
    request: ConsumerGroupHeartbeatRequest, context: Context
) -> ConsumerGroupHeartbeatResponse | PendingResponse:
    """Send the heartbeat to the coordinator."""
    error = _fault(request, context)
    if error is not ErrorCode.NONE:
        return ConsumerGroupHeartbeatResponse(error_code=error)
    return ask(context, _event(request, context), _respond)


def _fault(request: ConsumerGroupHeartbeatRequest, context: Context) -> ErrorCode:
    if not has_consumer_groups(context):
        return ErrorCode.UNSUPPORTED_VERSION
    if not may_on_group(context, Operation.READ, request.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    names = dict.fromkeys(request.subscribed_topic_names or ())
    if not all(may(context, Operation.DESCRIBE, name) for name in names):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.NONE


def _event(request: ConsumerGroupHeartbeatRequest, context: Context) -> ConsumerHeartbeat:
    names, owned = request.subscribed_topic_names, request.topic_partitions
    return ConsumerHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topic_names=None if names is None else tuple(names),
        topic_regex=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=None
        if owned is None
        else tuple((topic.topic_id, tuple(topic.partitions)) for topic in owned),
        client_id=context.client_id or "",
        client_host=f"/{context.peer.host}",  # as Java prints an address without a name
        member_id_required=context.version >= _FIRST_WITH_OWN_MEMBER_ID,
        may_describe=lambda name: may(context, Operation.DESCRIBE, name),
        owner=owner_of(context),
    )


def _respond(result: ConsumerHeartbeatResult) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if result.assignment is not None:
        topics = [
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in result.assignment.items()
        ]
        assignment = Assignment(topic_partitions=topics)
    return ConsumerGroupHeartbeatResponse(
        error_code=result.error,
        error_message=None if result.message is None else error_text(result.message),
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        assignment=assignment,
    )
