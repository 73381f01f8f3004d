"""A small consumer in a group, its only member and thus its leader."""

from __future__ import annotations

import struct
import time
from typing import Any, Final

from kwire.conformance.client.answers import made
from kwire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from kwire.messages.consumer_protocol_assignment import TopicPartition as Assigned
from kwire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kwire.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.messages.heartbeat_request import HeartbeatRequest
from kwire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.messages.leave_group_request import LeaveGroupRequest
from kwire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from kwire.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kwire.protocol import ApiKey, ErrorCode
from tests.kwire.conformance.client.small.consumer import Consumer
from tests.kwire.conformance.client.small.life import Life, Stopped
from tests.kwire.conformance.client.small.node import Node

_GROUP: Final = "small"
_SESSION_MS: Final = 9000
_HEARTBEAT_S: Final = 0.1
#: Errors with which a coordinator sends a client elsewhere.
_MOVED: Final = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
_PASSING: Final = (*_MOVED, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


class Member(Consumer):
    """Reads partition 0 of a topic from the committed offset of its group on."""

    def __init__(self, life: Life, bootstrap: str, topic: str, *, has_sasl: bool = False) -> None:
        super().__init__(life, bootstrap, topic, has_sasl=has_sasl)
        self.coordinator: tuple[str, int] | None = None
        self.member, self.generation, self.committed = "", -1, -1
        self.beat_at = 0.0

    def run(self) -> None:
        """Read until the client is asked to end, and leave the group then."""
        try:
            super().run()
        except Stopped:
            if self.coordinator in self.nodes and not self.life.has("stays-in-group"):
                assert self.coordinator is not None
                leave = LeaveGroupRequest(group_id=_GROUP, member_id=self.member)
                self.nodes[self.coordinator].call(ApiKey.LEAVE_GROUP, leave)
            raise

    def step(self) -> None:
        """One request of the group if one is due, else one Fetch."""
        if self.coordinator is None or self.coordinator not in self.nodes:
            self.find_coordinator()
        elif self.generation < 0:
            self.join(self.nodes[self.coordinator])
        elif self.position < 0:
            self.begin(self.nodes[self.coordinator])
        # tidy: clock: the program's own heartbeats
        elif time.monotonic() >= self.beat_at:
            self.beat(self.nodes[self.coordinator])
        elif self.committed != self.position:
            self.commit(self.nodes[self.coordinator])
        else:
            super().step()

    def find_coordinator(self) -> None:
        """Ask any node for the coordinator."""
        node = self.node(self.addresses.get(self.leader, self.bootstrap))
        answer = node.call(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest(key=_GROUP))
        if self.fails(answer.error_code):
            return
        self.coordinator = (answer.host, answer.port)
        self.node(self.coordinator)

    def fails(self, error: int) -> bool:
        """Whether a request of the group got an error, on which the client acts."""
        if error in _PASSING:
            self.life.dies_of("no-patience")
            self.life.wait(0.02)
        if error in _MOVED and not self.life.has("keeps-coordinator"):
            self.coordinator = None
        if error == ErrorCode.UNKNOWN_MEMBER_ID:
            self.generation = -1
            self.member = self.member if self.life.has("keeps-member-id") else ""
        if error == ErrorCode.REBALANCE_IN_PROGRESS:
            self.generation = -1
            self.member = "" if self.life.has("forgets-member-id") else self.member
        if error == ErrorCode.ILLEGAL_GENERATION and not self.life.has("ignores-generation"):
            self.generation = -1
        return bool(error)

    def join(self, node: Node) -> None:
        """Join the group, and assign the partition to the only member."""
        version = node.version(ApiKey.JOIN_GROUP)
        data = _versioned(ConsumerProtocolSubscription(topics=[self.topic]))
        answer = node.call(
            ApiKey.JOIN_GROUP,
            made(
                JoinGroupRequest, version, group_id=_GROUP, session_timeout_ms=_SESSION_MS,
                rebalance_timeout_ms=_SESSION_MS, member_id=self.member, protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=data)],
            ),
        )  # fmt: skip
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member = "" if self.life.has("drops-member-id") else answer.member_id
            return
        if self.fails(answer.error_code):
            return
        self.member, generation = answer.member_id, answer.generation_id
        assigned = _versioned(
            ConsumerProtocolAssignment(
                assigned_partitions=[Assigned(topic=self.topic, partitions=[0])]
            )
        )
        mine = SyncGroupRequestAssignment(member_id=self.member, assignment=assigned)
        answer = node.call(
            ApiKey.SYNC_GROUP,
            SyncGroupRequest(
                group_id=_GROUP, generation_id=generation, member_id=self.member,
                assignments=[] if self.life.has("assigns-nothing") else [mine],
            ),
        )  # fmt: skip
        if not self.fails(answer.error_code):
            self.generation, self.position, self.committed = generation, -1, -1

    def begin(self, node: Node) -> None:
        """Go to the committed offset, or to the first one."""
        topics = [OffsetFetchRequestTopic(name=self.topic, partition_indexes=[0])]
        asked = OffsetFetchRequest(group_id=_GROUP, topics=topics)
        answer = node.call(ApiKey.OFFSET_FETCH, asked)
        [partition] = answer.topics[0].partitions if answer.topics else [None]
        error = answer.error_code or (0 if partition is None else partition.error_code)
        if self.fails(error) or partition is None:
            return
        if partition.committed_offset >= 0 and not self.life.has("ignores-commits"):
            self.position = self.committed = partition.committed_offset
        else:
            super().step()

    def beat(self, node: Node) -> None:
        """Send a Heartbeat."""
        old = 1 if self.life.has("old-generation") else 0
        asked = HeartbeatRequest(
            group_id=_GROUP, generation_id=self.generation - old, member_id=self.member
        )
        self.fails(node.call(ApiKey.HEARTBEAT, asked).error_code)
        self.beat_at = time.monotonic() + _HEARTBEAT_S

    def commit(self, node: Node) -> None:
        """Commit the position."""
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=self.position)
        topics = [OffsetCommitRequestTopic(name=self.topic, partitions=[partition])]
        asked = OffsetCommitRequest(
            group_id=_GROUP, generation_id_or_member_epoch=self.generation, member_id=self.member,
            topics=topics,
        )  # fmt: skip
        answer = node.call(ApiKey.OFFSET_COMMIT, asked)
        if not self.fails(answer.topics[0].partitions[0].error_code):
            self.committed = self.position


def _versioned(message: Any) -> bytes:
    """The bytes of a message of the consumer protocol, version 0."""
    return struct.pack(">h", 0) + bytes(message.encode(0))
