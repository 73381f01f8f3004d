"""Holds one member of a consumer group (``ConsumerGroupMember``). It is replaced, never changed."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from kwire.messages.consumer_group_member_metadata_value import ClassicMemberMetadata
from kwire.protocol import ErrorCode
from kwire.uuid import Uuid

#: Topic id -> partition -> the epoch at which the member got it.
OwnedPartitions = Mapping[Uuid, Mapping[int, int]]
NOTHING: Final[OwnedPartitions] = MappingProxyType({})

#: The epoch of a member that joins, and of members that leave: for good, and for a while (a static
#: member that keeps its place).
JOINING: Final = 0
LEAVING: Final = -1
LEAVING_FOR_A_WHILE: Final = -2


class MemberState(enum.IntEnum):
    """Where a member is on its way to its target assignment."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def of(cls, number: int) -> MemberState:
        return cls(number) if number in cls._value2member_map_ else cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class Member:
    """``classic``: the session timeout and the protocols of a member that uses the classic protocol
    (``ClassicMemberMetadata``); None of one that uses that of KIP-848.
    """

    member_id: str
    epoch: int = JOINING
    previous_epoch: int = -1
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str | None = ""
    assignor: str | None = None
    state: MemberState = MemberState.STABLE
    assigned: OwnedPartitions = field(default_factory=lambda: NOTHING)
    pending_revocation: OwnedPartitions = field(default_factory=lambda: NOTHING)
    classic: ClassicMemberMetadata | None = None

    @property
    def protocol_name(self) -> str:
        """The name of the protocol that answers to a classic member name: the first of its own."""
        assert self.classic is not None
        name: str = self.classic.supported_protocols[0].name
        return name

    @property
    def stale_error(self) -> ErrorCode:
        """The error of an epoch, or a generation, in which the member is not."""
        if self.classic is None:
            return ErrorCode.STALE_MEMBER_EPOCH
        return ErrorCode.ILLEGAL_GENERATION

    @property
    def assignment(self) -> dict[Uuid, frozenset[int]]:
        """The partitions that it has, or may take."""
        return {topic_id: frozenset(epochs) for topic_id, epochs in self.assigned.items()}

    def with_epoch(self, epoch: int, **changes: Any) -> Member:
        """The member in that epoch, with its present one as the previous one."""
        return replace(self, epoch=epoch, previous_epoch=self.epoch, **changes)

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def epoch_of(self, topic_id: Uuid, partition: int) -> int | None:
        """The epoch at which the member got the partition; None if it does not have it."""
        for owned in (self.assigned, self.pending_revocation):
            epoch = owned.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None
