"""Refuses the requests of share groups (KIP-932) and streams groups (KIP-1071) as a broker of
Kafka 4.4 does while share.version and streams.version are 0.

Clients get UNSUPPORTED_VERSION and report that the cluster has no such groups. Brokers that ask for
the state of a share group get NOT_COORDINATOR: this broker keeps that of no group. Source:
``KafkaApis``, ``ShareCoordinatorService``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gateway.handlers.access import Operation, may_on_cluster
from gateway.handlers.context import Handler
from gateway.ports.streamed import Streamed, respond
from gateway.ports.work import in_slices
from kwire.messages import delete_share_group_state_response as delete_state
from kwire.messages import describe_share_group_offsets_response as offsets
from kwire.messages import initialize_share_group_state_response as initialize_state
from kwire.messages import read_share_group_state_response as read_state
from kwire.messages import read_share_group_state_summary_response as read_summary
from kwire.messages import share_group_describe_response as share
from kwire.messages import streams_group_describe_response as streams
from kwire.messages import write_share_group_state_response as write_state
from kwire.messages.alter_share_group_offsets_response import AlterShareGroupOffsetsResponse
from kwire.messages.delete_share_group_offsets_response import DeleteShareGroupOffsetsResponse
from kwire.messages.share_acknowledge_response import ShareAcknowledgeResponse
from kwire.messages.share_fetch_response import ShareFetchResponse
from kwire.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse
from kwire.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from kwire.messages.streams_group_topology_description_update_response import (
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from gateway.ports.pending_response import Answer, Work
    from kwire.message import Message
    from kwire.uuid import Uuid

_OFF: Final = ErrorCode.UNSUPPORTED_VERSION
#: ``Errors.UNSUPPORTED_VERSION``; Kafka sends it to administrators only.
_MESSAGE: Final = "The version of API is not supported."

#: The APIs whose response has one error, with the versions of Kafka 4.4 and the refusal.
_WITH_ONE_ERROR: Final[dict[ApiKey, tuple[range, Any, dict[str, Any]]]] = {
    ApiKey.SHARE_GROUP_HEARTBEAT: (range(1, 2), ShareGroupHeartbeatResponse, {}),
    ApiKey.SHARE_FETCH: (range(1, 3), ShareFetchResponse, {}),
    ApiKey.SHARE_ACKNOWLEDGE: (range(1, 3), ShareAcknowledgeResponse, {}),
    ApiKey.STREAMS_GROUP_HEARTBEAT: (range(2), StreamsGroupHeartbeatResponse, {}),
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: (
        range(1), StreamsGroupTopologyDescriptionUpdateResponse, {},
    ),
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
        range(2), streams.StreamsGroupDescribeResponse, streams.DescribedGroup, "group_ids", str
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


class _State(NamedTuple):
    """An API of brokers for the state of the partitions that a share group reads."""

    versions: range
    response: Any
    topic: Any
    partition: Any
    #: The act that Kafka says it is unable to do, in the message of each partition.
    cannot: str


_OF_STATE: Final = {
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: _State(
        range(1),
        initialize_state.InitializeShareGroupStateResponse,
        initialize_state.InitializeStateResult,
        initialize_state.PartitionResult,
        "initialize share group state",
    ),
    ApiKey.READ_SHARE_GROUP_STATE: _State(
        range(1),
        read_state.ReadShareGroupStateResponse,
        read_state.ReadStateResult,
        read_state.PartitionResult,
        "read share group state",
    ),
    ApiKey.WRITE_SHARE_GROUP_STATE: _State(
        range(2),
        write_state.WriteShareGroupStateResponse,
        write_state.WriteStateResult,
        write_state.PartitionResult,
        "write share group state",
    ),
    ApiKey.DELETE_SHARE_GROUP_STATE: _State(
        range(1),
        delete_state.DeleteShareGroupStateResponse,
        delete_state.DeleteStateResult,
        delete_state.PartitionResult,
        "delete share group state",
    ),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: _State(
        range(2),
        read_summary.ReadShareGroupStateSummaryResponse,
        read_summary.ReadStateSummaryResult,
        read_summary.PartitionResult,
        "read share group state summary",
    ),
}


def refuse_state(request: Any, context: Context) -> Answer:
    """Return the error for each partition: NOT_COORDINATOR to nodes of the cluster."""
    size = len(request.topics) + sum(len(topic.partitions) for topic in request.topics)
    return in_slices(_refuse_state(request, context, size), size)


def _refuse_state(request: Any, context: Context, size: int) -> Work:
    api = _OF_STATE[ApiKey(request.API_KEY)]
    wanted: Iterable[tuple[Uuid, Iterable[int]]]
    if may_on_cluster(context, Operation.CLUSTER_ACTION):
        error = ErrorCode.NOT_COORDINATOR
        message = f"Unable to {api.cannot}: This is not the correct coordinator."
        found = yield from _each_once(request)
        wanted = found.items()
    else:
        error, message = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."
        wanted = ((one.topic_id, _indexes(one)) for one in request.topics)

    def results() -> Iterator[Streamed]:
        for topic_id, indexes in wanted:
            refused = (
                api.partition(partition=index, error_code=error, error_message=message)
                for index in indexes
            )
            yield Streamed(api.topic(topic_id=topic_id), "partitions", refused)

    return respond(api.response(), "results", results(), size)


def _each_once(request: Any) -> Generator[None, None, dict[Uuid, dict[int, None]]]:
    """Return the partitions that Kafka answers, by the id of their topic: each once; none for a
    group without a name, nor, but to Initialize, if one of the topics names no partition.
    """
    found: dict[Uuid, dict[int, None]] = {}
    takes_empty = request.API_KEY == ApiKey.INITIALIZE_SHARE_GROUP_STATE
    if request.group_id and (takes_empty or all(topic.partitions for topic in request.topics)):
        for topic in request.topics:
            if topic.partitions:
                found.setdefault(topic.topic_id, {}).update(dict.fromkeys(_indexes(topic)))
            yield None
    return found


def _indexes(topic: Any) -> Iterator[int]:
    return (one.partition for one in topic.partitions)


HANDLERS: Final = (
    *(Handler(key, key.name.lower(), api.versions, refuse_state) for key, api in _OF_STATE.items()),
    *(Handler(key, key.name.lower(), api.versions, refuse_each) for key, api in _OF_GROUPS.items()),
    *(
        Handler(key, key.name.lower(), versions, refuse)
        for key, (versions, _, _) in _WITH_ONE_ERROR.items()
    ),
)
