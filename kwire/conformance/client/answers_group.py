"""Answers requests of the classic group protocol, for a group of one member."""

from __future__ import annotations

import secrets
from typing import Any

from kwire.conformance.client.answers import made
from kwire.conformance.client.state import State
from kwire.conformance.client.traffic import Seen
from kwire.messages.heartbeat_response import HeartbeatResponse
from kwire.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from kwire.messages.leave_group_response import LeaveGroupResponse, MemberResponse
from kwire.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kwire.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kwire.messages.sync_group_response import SyncGroupResponse
from kwire.protocol import ErrorCode


def _not_coordinator(state: State, seen: Seen) -> int:
    return 0 if seen.broker == state.group.coordinator else int(ErrorCode.NOT_COORDINATOR)


def _member_error(state: State, seen: Seen, member: str, generation: int) -> int:
    if code := _not_coordinator(state, seen):
        return code
    if member != state.group.member:
        return int(ErrorCode.UNKNOWN_MEMBER_ID)
    wrong = generation != state.group.generation
    return int(ErrorCode.ILLEGAL_GENERATION) if wrong else 0


def join_group(state: State, seen: Seen, error: int) -> Any:
    """Take the member in, and make it the leader; without an id it first gets one (KIP-394)."""
    asked, group, version = seen.request, state.group, seen.version
    code = error or _not_coordinator(state, seen)
    member = asked.member_id
    if not code and not member:
        member = group.promised = f"member-{secrets.token_hex(4)}"
        code = ErrorCode.MEMBER_ID_REQUIRED if version >= 4 else 0
    elif not code and member not in (group.member, group.promised):
        code = ErrorCode.UNKNOWN_MEMBER_ID
    if code:
        name = None if version >= 7 else ""
        return made(
            JoinGroupResponse, version, error_code=code, generation_id=-1, protocol_name=name,
            member_id=member,
        )  # fmt: skip
    first = asked.protocols[0]
    group.member, group.metadata, group.protocol = member, first.metadata, first.name
    group.generation, group.assignment = group.generation + 1, b""
    return made(
        JoinGroupResponse, version, generation_id=group.generation, protocol_name=first.name,
        protocol_type=asked.protocol_type, leader=member, member_id=member,
        members=[JoinGroupResponseMember(member_id=member, metadata=first.metadata)],
    )  # fmt: skip


def sync_group(state: State, seen: Seen, error: int) -> Any:
    """Keep the assignment that the group's leader sent, and return it."""
    asked, group, version = seen.request, state.group, seen.version
    code = error or _member_error(state, seen, asked.member_id, asked.generation_id)
    if not code:
        for one in asked.assignments:
            if one.member_id == group.member:
                group.assignment = bytes(one.assignment)
    has_type = version >= 5 and not code
    return made(
        SyncGroupResponse, version, error_code=code,
        protocol_type=asked.protocol_type if has_type else None,
        protocol_name=group.protocol if has_type else None,
        assignment=b"" if code else group.assignment,
    )  # fmt: skip


def heartbeat(state: State, seen: Seen, error: int) -> Any:
    """Answer a heartbeat: an error unless the group has this member at this generation."""
    asked = seen.request
    return HeartbeatResponse(
        error_code=error or _member_error(state, seen, asked.member_id, asked.generation_id)
    )


def leave_group(state: State, seen: Seen, error: int) -> Any:
    """Let the member leave."""
    asked = seen.request
    if not error:
        state.group.member = ""
    members = []
    if seen.version >= 3:
        members = [MemberResponse(member_id=one.member_id) for one in asked.members]
    return LeaveGroupResponse(error_code=error, members=members)


def offset_commit(state: State, seen: Seen, error: int) -> Any:
    """Keep the offset."""
    asked, version = seen.request, seen.version
    generation = asked.generation_id_or_member_epoch
    code = error or _not_coordinator(state, seen)
    if not code and generation >= 0:
        code = _member_error(state, seen, asked.member_id, generation)
    topics = []
    for topic in asked.topics:
        for one in topic.partitions:
            if not code:
                state.group.committed = one.committed_offset
        partitions = [
            OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=code)
            for one in topic.partitions
        ]
        topics.append(
            made(
                OffsetCommitResponseTopic, version, name=topic.name,
                topic_id=topic.topic_id, partitions=partitions,
            )
        )  # fmt: skip
    return OffsetCommitResponse(topics=topics)


def offset_fetch(state: State, seen: Seen, error: int) -> Any:
    """Return the committed offset, -1 if there is none."""
    asked, version = seen.request, seen.version
    code = error or _not_coordinator(state, seen)
    if version < 8:
        listed = [(topic.name, topic.partition_indexes) for topic in asked.topics or []]
        topics = [
            OffsetFetchResponseTopic(
                name=name,
                partitions=[_committed(state, OffsetFetchResponsePartition, one) for one in found],
            )
            for name, found in (listed or [(state.topic, [0])] if not code else [])
        ]
        return made(OffsetFetchResponse, version, error_code=code, topics=topics)
    groups = []
    for group in asked.groups:
        found = [
            made(
                OffsetFetchResponseTopics, version, name=topic.name, topic_id=topic.topic_id,
                partitions=[
                    _committed(state, OffsetFetchResponsePartitions, one)
                    for one in topic.partition_indexes
                ],
            )
            for topic in (group.topics or [] if not code else [])
        ]  # fmt: skip
        groups.append(
            OffsetFetchResponseGroup(group_id=group.group_id, topics=found, error_code=code)
        )
    return OffsetFetchResponse(groups=groups)


def _committed(state: State, form: Any, partition: int) -> Any:
    return form(
        partition_index=partition,
        committed_offset=state.group.committed if partition == 0 else -1,
        metadata="",
    )
