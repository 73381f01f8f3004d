"""Defines the events of the group coordinator and their results, independent of API versions.

Handlers make an event from a request and a response from the result. ``failed`` of an event is its
result when the coordinator could not handle it at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from gateway.groups.consumer.events import (
    ConsumerHeartbeat,
    ConsumerHeartbeatResult,
    DescribeConsumerGroups,
    DescribeConsumerGroupsResult,
    RegexesResolved,
    RegexesTaken,
)
from kwire.protocol import ErrorCode
from kwire.uuid import ZERO_UUID, Uuid

#: (topic, partition)
TopicPartition = tuple[str, int]
NO_GENERATION = -1
#: Member id and epoch of an OffsetFetch of no member.
NO_MEMBER: Final[tuple[str | None, int]] = (None, -1)


class Protocol(NamedTuple):
    """An assignment protocol that a member supports, with its subscription for that protocol."""

    name: str
    metadata: bytes


class JoinedMember(NamedTuple):
    """A member in the list that the group's leader receives."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinResult:
    error: ErrorCode
    member_id: str
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: Sequence[JoinedMember] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroup:
    """A JoinGroup request.

    ``member_id_required``: the client understands MEMBER_ID_REQUIRED (KIP-394).
    ``can_skip_assignment``: KIP-814. ``owner`` is charged for the member's memory
    (``gateway.groups.usage``); "" is unknown.
    """

    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    member_id_required: bool
    can_skip_assignment: bool
    owner: str = ""

    def failed(self, error: ErrorCode) -> JoinResult:
        return JoinResult(error=error, member_id=self.member_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResult:
    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroup:
    """A SyncGroup request. ``assignments``: member id -> assignment; the coordinator uses only the
    leader's.
    """

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: tuple[tuple[str, bytes], ...]

    def failed(self, error: ErrorCode) -> SyncResult:
        return SyncResult(error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatResult:
    error: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    group_id: str
    member_id: str
    instance_id: str | None
    generation: int

    def failed(self, error: ErrorCode) -> HeartbeatResult:
        # While the coordinator loads, it does not know the members. As Kafka, it lets the member go
        # on.
        return HeartbeatResult(
            error=ErrorCode.NONE if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else error
        )


class Leaver(NamedTuple):
    """A member to be removed: by id, or by instance id with an empty member id (an operator's
    removal, KIP-345).
    """

    member_id: str
    instance_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveResult:
    """``error`` is that of the whole request; ``errors`` one for each leaver, in order."""

    error: ErrorCode
    errors: Sequence[ErrorCode] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroup:
    group_id: str
    leavers: tuple[Leaver, ...]

    def failed(self, error: ErrorCode) -> LeaveResult:
        return LeaveResult(error=error)


class OffsetToCommit(NamedTuple):
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    topic_id: Uuid = ZERO_UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """One error for each offset, in order."""

    errors: Sequence[ErrorCode]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommit:
    """An OffsetCommit request.

    ``retention_ms``: -1 for the server's retention (versions 2 to 4 can set another).
    ``knows_group_id_not_found``: version 9 and up. ``owner`` is charged for the offsets
    (``gateway.groups.usage``); "" is unknown.
    """

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    retention_ms: int
    offsets: tuple[OffsetToCommit, ...]
    knows_group_id_not_found: bool
    owner: str = ""

    def failed(self, error: ErrorCode) -> CommitResult:
        return CommitResult(errors=(error,) * len(self.offsets))


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommit:
    """A TxnOffsetCommit request of a producer whose transaction has the group's partition.

    ``owner`` is charged for the offsets (``gateway.groups.usage``); "" is unknown.
    """

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    offsets: tuple[OffsetToCommit, ...]
    producer_id: int
    producer_epoch: int
    owner: str = ""

    def failed(self, error: ErrorCode) -> CommitResult:
        return CommitResult(errors=(error,) * len(self.offsets))


@dataclass(frozen=True, slots=True)
class TransactionCompleted:
    """The pending offsets of the transaction count, or are dropped."""


@dataclass(frozen=True, slots=True)
class CompleteTransaction:
    """The marker of a producer's transaction is in the coordinator's log."""

    producer_id: int
    committed: bool

    def failed(self, error: ErrorCode) -> TransactionCompleted:
        """The coordinator finds the marker when it loads the log."""
        return TransactionCompleted()


class Committed(NamedTuple):
    """A committed offset. Times are ms since the epoch; ``expire_timestamp`` -1: by the server's
    retention.

    ``owner`` is charged for it; "" is unknown.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int = -1
    owner: str = ""


@dataclass(frozen=True, slots=True)
class FetchedGroup:
    """``offsets``: each requested partition with its committed offset, or None. ``unstable``: those
    of which a transaction has committed an offset that does not count yet (KIP-447).
    """

    group_id: str
    error: ErrorCode
    offsets: Sequence[tuple[TopicPartition, Committed | None]] = ()
    unstable: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResult:
    groups: Sequence[FetchedGroup]


@dataclass(frozen=True, slots=True)
class OffsetFetch:
    """An OffsetFetch request: for each group the partitions, or None for all with a committed
    offset. ``members``: for each group the id and the epoch of the member that asks, None and -1
    for no member; it is empty if none asks.

    ``require_stable``: the client does not want an offset that a transaction is about to replace.
    """

    groups: tuple[tuple[str, tuple[TopicPartition, ...] | None], ...]
    require_stable: bool = False
    members: tuple[tuple[str | None, int], ...] = ()

    def failed(self, error: ErrorCode) -> OffsetFetchResult:
        return OffsetFetchResult(
            groups=[FetchedGroup(group_id, error) for group_id, _ in self.groups]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteResult:
    """``error`` is that of the whole request; ``errors`` one for each partition, in order."""

    error: ErrorCode
    errors: Sequence[ErrorCode] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDelete:
    group_id: str
    partitions: tuple[TopicPartition, ...]

    def failed(self, error: ErrorCode) -> OffsetDeleteResult:
        return OffsetDeleteResult(error=error)


class ListedGroup(NamedTuple):
    """``type``: ``classic`` or ``consumer``."""

    group_id: str
    protocol_type: str
    state: str
    type: str = "classic"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsResult:
    error: ErrorCode
    groups: Sequence[ListedGroup] = ()


@dataclass(frozen=True, slots=True)
class ListGroups:
    """``states`` and ``types``: lower-case names of the requested ones; empty for all (KIP-518,
    KIP-848).
    """

    states: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()

    def failed(self, error: ErrorCode) -> ListGroupsResult:
        return ListGroupsResult(error=error)


class DescribedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    group_id: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    state: str = ""
    protocol_type: str = ""
    protocol_name: str = ""
    members: Sequence[DescribedMember] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroupsResult:
    groups: Sequence[DescribedGroup]


@dataclass(frozen=True, slots=True)
class DescribeGroups:
    group_ids: tuple[str, ...]

    def failed(self, error: ErrorCode) -> DescribeGroupsResult:
        return DescribeGroupsResult(
            groups=[DescribedGroup(group_id=name, error=error) for name in self.group_ids]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsResult:
    """One error for each group, in order."""

    errors: Sequence[ErrorCode]


@dataclass(frozen=True, slots=True)
class DeleteGroups:
    group_ids: tuple[str, ...]

    def failed(self, error: ErrorCode) -> DeleteGroupsResult:
        return DeleteGroupsResult(errors=(error,) * len(self.group_ids))


Event = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | OffsetCommit
    | TxnOffsetCommit
    | CompleteTransaction
    | OffsetFetch
    | OffsetDelete
    | ListGroups
    | DescribeGroups
    | DeleteGroups
    | ConsumerHeartbeat
    | DescribeConsumerGroups
    | RegexesResolved
)
Result = (
    JoinResult
    | SyncResult
    | HeartbeatResult
    | LeaveResult
    | CommitResult
    | TransactionCompleted
    | OffsetFetchResult
    | OffsetDeleteResult
    | ListGroupsResult
    | DescribeGroupsResult
    | DeleteGroupsResult
    | ConsumerHeartbeatResult
    | DescribeConsumerGroupsResult
    | RegexesTaken
)
