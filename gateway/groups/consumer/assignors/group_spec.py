"""Declares what an assignor is given, and what it makes (``GroupSpec``, ``GroupAssignment``)."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from kwire.uuid import Uuid

#: Topic id -> partitions, of one member.
Assignment = Mapping[Uuid, Set[int]]
#: Member id -> assignment. A member without one has none.
GroupAssignment = Mapping[str, Assignment]


class SubscriptionType(enum.Enum):
    """Whether all members subscribe to the same topics."""

    HOMOGENEOUS = "homogeneous"
    HETEROGENEOUS = "heterogeneous"


class AssignorError(Exception):
    """The group has no assignment (``PartitionAssignorException``): a bug."""


class MemberSpec(NamedTuple):
    """``topic_ids``: those of its topics that exist, each once. ``names``: how many topics it
    subscribes to, those too that do not exist.
    """

    instance_id: str | None
    topic_ids: Sequence[Uuid]
    names: int
    assignment: Assignment


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """``members`` in the order in which they joined. ``assigned``: topic id -> partition -> its
    member in the present target. ``partition_counts``: of each topic of ``members``.
    """

    members: Mapping[str, MemberSpec]
    subscription_type: SubscriptionType
    assigned: Mapping[Uuid, Mapping[int, str]]
    partition_counts: Mapping[Uuid, int]
