"""Refuses the requests of share groups (KIP-932) and streams groups (KIP-1071) as a broker of
Kafka 4.3 does while share.version and streams.version are 0: with UNSUPPORTED_VERSION.

Clients then report that the cluster has no such groups. It serves the requests of clients alone,
not those by which brokers of Kafka keep the state of share groups. Source: ``KafkaApis``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gateway.handlers.context import Handler
from gateway.ports.streamed import Streamed, respond
from kwire.messages import describe_share_group_offsets_response as offsets
from kwire.messages import share_group_describe_response as share
from kwire.messages import streams_group_describe_response as streams
from kwire.messages.alter_share_group_offsets_response import AlterShareGroupOffsetsResponse
from kwire.messages.delete_share_group_offsets_response import DeleteShareGroupOffsetsResponse
from kwire.messages.share_acknowledge_response import ShareAcknowledgeResponse
from kwire.messages.share_fetch_response import ShareFetchResponse
from kwire.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse
from kwire.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from kwire.message import Message

_OFF: Final = ErrorCode.UNSUPPORTED_VERSION
#: ``Errors.UNSUPPORTED_VERSION``; Kafka sends it to administrators only.
_MESSAGE: Final = "The version of API is not supported."

#: The APIs whose response has one error, with the versions of Kafka 4.3 and the refusal.
_WITH_ONE_ERROR: Final[dict[ApiKey, tuple[range, Any, dict[str, Any]]]] = {
    ApiKey.SHARE_GROUP_HEARTBEAT: (range(1, 2), ShareGroupHeartbeatResponse, {}),
    ApiKey.SHARE_FETCH: (range(1, 3), ShareFetchResponse, {}),
    ApiKey.SHARE_ACKNOWLEDGE: (range(1, 3), ShareAcknowledgeResponse, {}),
    ApiKey.STREAMS_GROUP_HEARTBEAT: (range(1), StreamsGroupHeartbeatResponse, {}),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: (
        range(1), AlterShareGroupOffsetsResponse, {"error_message": _MESSAGE},
    ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: (
        range(1), DeleteShareGroupOffsetsResponse, {"error_message": _MESSAGE},
    ),
}  # fmt: skip


def refuse(request: Message, _context: Context) -> Message:
    """Return the response whose one error says that the feature is off."""
    assert request.API_KEY is not None, "only requests are refused"
    _, response, fields = _WITH_ONE_ERROR[ApiKey(request.API_KEY)]
    refused: Message = response(error_code=_OFF, **fields)
    return refused


class _Described(NamedTuple):
    """An API whose response has each group that the request names in ``field``."""

    versions: range
    response: Any
    group: Any
    field: str
    id_of: Callable[[Any], str]


_OF_GROUPS: Final = {
    ApiKey.SHARE_GROUP_DESCRIBE: _Described(
        range(1, 2), share.ShareGroupDescribeResponse, share.DescribedGroup, "group_ids", str
    ),
    ApiKey.STREAMS_GROUP_DESCRIBE: _Described(
        range(1), streams.StreamsGroupDescribeResponse, streams.DescribedGroup, "group_ids", str
    ),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: _Described(
        range(2),
        offsets.DescribeShareGroupOffsetsResponse,
        offsets.DescribeShareGroupOffsetsResponseGroup,
        "groups",
        attrgetter("group_id"),
    ),
}


def refuse_each(request: Message, _context: Context) -> Message | Streamed:
    """Return each group, as often as it is named, with the error and nothing else."""
    assert request.API_KEY is not None, "only requests are refused"
    api = _OF_GROUPS[ApiKey(request.API_KEY)]
    wanted: Sequence[Any] = getattr(request, api.field)
    groups = (api.group(group_id=api.id_of(one), error_code=_OFF) for one in wanted)
    return respond(api.response(), "groups", groups, len(wanted))


HANDLERS: Final = (
    *(Handler(key, key.name.lower(), api.versions, refuse_each) for key, api in _OF_GROUPS.items()),
    *(
        Handler(key, key.name.lower(), versions, refuse)
        for key, (versions, _, _) in _WITH_ONE_ERROR.items()
    ),
)
