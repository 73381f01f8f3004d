"""Messages between simulated nodes: their versions, the codec, and their text in a trace."""

from __future__ import annotations

from typing import Any, Final

from gateway.quorum.effects import Append, Send
from gateway.quorum.events import Answered, Failed, Requested
from kwire.message import Message
from kwire.messages.add_raft_voter_request import AddRaftVoterRequest
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.messages.api_versions_response import ApiVersionsResponse, SupportedFeatureKey
from kwire.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from kwire.messages.begin_quorum_epoch_response import BeginQuorumEpochResponse
from kwire.messages.describe_quorum_request import DescribeQuorumRequest
from kwire.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from kwire.messages.end_quorum_epoch_response import EndQuorumEpochResponse
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.fetch_response import FetchResponse
from kwire.messages.fetch_snapshot_request import FetchSnapshotRequest
from kwire.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from kwire.messages.update_raft_voter_request import UpdateRaftVoterRequest
from kwire.messages.vote_request import VoteRequest
from kwire.messages.vote_response import VoteResponse

VOTE, BEGIN, END, FETCH, FETCH_SNAPSHOT = (
    VoteRequest.API_KEY, BeginQuorumEpochRequest.API_KEY, EndQuorumEpochRequest.API_KEY,
    FetchRequest.API_KEY, FetchSnapshotRequest.API_KEY,
)  # fmt: skip
#: The versions of every node: all that a raft leader accepts.
NEWEST: Final = {
    VOTE: range(3),
    BEGIN: range(2),
    END: range(2),
    FETCH: range(13, 19),
    FETCH_SNAPSHOT: range(2),
    DescribeQuorumRequest.API_KEY: range(3),
    AddRaftVoterRequest.API_KEY: range(2),
    RemoveRaftVoterRequest.API_KEY: range(1),
    UpdateRaftVoterRequest.API_KEY: range(1),
    ApiVersionsRequest.API_KEY: range(5),
}
#: The oldest versions with directory ids (KIP-853), which a quorum at kraft.version 1 needs.
WITH_DIRECTORIES: Final = {VOTE: 1, BEGIN: 1, END: 1, FETCH: 17, FETCH_SNAPSHOT: 1}


def epoch_of_request(request: Any) -> int:
    """The sender's epoch in a request, 0 where it has none."""
    if isinstance(request, VoteRequest):
        return int(request.topics[0].partitions[0].replica_epoch)
    if isinstance(request, FetchRequest | FetchSnapshotRequest):
        return int(request.topics[0].partitions[0].current_leader_epoch)
    if isinstance(request, BeginQuorumEpochRequest | EndQuorumEpochRequest):
        return int(request.topics[0].partitions[0].leader_epoch)
    return 0


def epoch_of_answer(answer: Any) -> int:
    """The sender's epoch in a response, 0 where it has none."""
    if (
        isinstance(answer, VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse)
        and answer.topics
    ):
        return int(answer.topics[0].partitions[0].leader_epoch)
    if isinstance(answer, FetchResponse) and answer.responses:
        return int(answer.responses[0].partitions[0].current_leader.leader_epoch)
    return 0


def api_versions() -> ApiVersionsResponse:
    """The response that a node's server gives without its core."""
    feature = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
    return ApiVersionsResponse(supported_features=[feature])


def through_codec(message: Message, version: int) -> Message:
    """The message as it arrives: fields that ``version`` does not have are lost."""
    return type(message).decode(message.encode(version), version)


def request_text(request: Any) -> str:
    """A request in one line."""
    return f"{type(request).__name__.removesuffix('Request')} {_fields(request)}"


def event_text(event: Any) -> str:
    """An event in one line."""
    if isinstance(event, Requested):
        return f"Requested {event.number} v{event.version}: {request_text(event.message)}"
    if isinstance(event, Answered):
        fields = f"{type(event.message).__name__} {_fields(event.message)}"
        return f"Answered {event.number} v{event.version}: {fields}"
    if isinstance(event, Failed):
        return f"Failed {event.number}: {event.failure.kind.value}"
    return str(event)


def effect_text(effect: Any) -> str:
    """An effect in one line."""
    if isinstance(effect, Append):
        return f"Append token={effect.token} base={effect.base_offset} ({len(effect.data)} bytes)"
    if isinstance(effect, Send):
        to = f"{effect.node_id} at {effect.address}"
        return f"Send {effect.number} to {to}: api {effect.api_key}, after {effect.after}"
    if hasattr(effect, "message"):
        read = f", read {effect.read}" if effect.read else ""
        fields = f"{type(effect.message).__name__} {_fields(effect.message)}"
        return f"Reply {effect.number}: {fields}, after {effect.after}{read}"
    return str(effect)


def _fields(value: Any) -> str:
    """The fields that are set, inner structs flat."""
    found = []
    for name in value.__slots__:
        field = getattr(value, name)
        if name == "unknown_tags" or field in (None, "", b"", [], ()):
            continue
        if isinstance(field, list):
            found.append(
                " ".join(_fields(one) if hasattr(one, "__slots__") else str(one) for one in field)
            )
        elif hasattr(field, "FIELDS"):
            found.append(f"{name}({_fields(field)})")
        elif (isinstance(field, bytes) and len(field) > 16) or isinstance(field, memoryview):
            found.append(f"{name}={len(field)} bytes")
        else:
            found.append(f"{name}={field}")
    return " ".join(found)
