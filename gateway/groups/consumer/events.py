"""Defines the events of consumer groups of KIP-848 and their results, independent of API
versions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gateway.groups.consumer.assignors.group_spec import Assignment
from gateway.groups.consumer.group import ResolvedRegex
from gateway.groups.consumer.member import Member
from gateway.groups.consumer.reconciliation import Reported
from kwire.protocol import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeatResult:
    """``assignment`` is None if the member knows it."""

    error: ErrorCode
    message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeat:
    """A ConsumerGroupHeartbeat request: a member joins, stays or leaves. None: as before.

    ``member_id_required``: the client makes its member id (version 1). ``may_describe`` tells
    whether the client may see a topic, for its regular expression. ``owner`` is charged for the
    member's memory (``gateway.groups.usage``); "" is unknown.
    """

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topic_names: tuple[str, ...] | None = None
    topic_regex: str | None = None
    assignor: str | None = None
    owned: Reported = None
    client_id: str = ""
    client_host: str = ""
    member_id_required: bool = True
    may_describe: Callable[[str], bool] = lambda name: True
    owner: str = ""

    def failed(self, error: ErrorCode) -> ConsumerHeartbeatResult:
        return ConsumerHeartbeatResult(error=error)


@dataclass(frozen=True, slots=True)
class RegexesTaken:
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class RegexesResolved:
    """The topics that expressions of a group matched (``ResolveRegexes``); None: they could not be
    found out. The driver sends it.
    """

    group_id: str
    found: Mapping[str, ResolvedRegex] | None

    def failed(self, error: ErrorCode) -> RegexesTaken:
        return RegexesTaken(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumerGroup:
    """``targets``: member id -> target assignment."""

    group_id: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    state: str = ""
    epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: Sequence[Member] = ()
    targets: Mapping[str, Assignment] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConsumerGroupsResult:
    groups: Sequence[DescribedConsumerGroup]


@dataclass(frozen=True, slots=True)
class DescribeConsumerGroups:
    """A ConsumerGroupDescribe request."""

    group_ids: tuple[str, ...]

    def failed(self, error: ErrorCode) -> DescribeConsumerGroupsResult:
        return DescribeConsumerGroupsResult(
            groups=[DescribedConsumerGroup(group_id=name, error=error) for name in self.group_ids]
        )
