"""Spreads the partitions of all topics evenly over the members, and moves as few as it can
(``UniformAssignor``).

Here are groups whose members subscribe to the same topics
(``UniformHomogeneousAssignmentBuilder``); ``uneven_subscriptions`` has the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from itertools import islice
from typing import Final

from gateway.base.java.hash_order import (
    capacity_for,
    members_in_order,
    partitions_in_order,
    topics_in_order,
)
from gateway.base.slices import Slices, pieces
from gateway.groups.consumer.assignors.group_spec import (
    Assignment,
    AssignorError,
    GroupAssignment,
    GroupSpec,
    SubscriptionType,
)
from gateway.groups.consumer.assignors.uneven_subscriptions import UnevenSubscriptions
from kwire.uuid import Uuid

NAME: Final = "uniform"
#: Partitions, and members, between two slices.
_PARTITIONS_PER_SLICE: Final = 2000
_MEMBERS_PER_SLICE: Final = 20


def assign(spec: GroupSpec) -> Slices[GroupAssignment]:
    """Return the target assignment of the group. Raises AssignorError."""
    if not spec.members:
        return {}
    if spec.subscription_type is SubscriptionType.HETEROGENEOUS:
        return (yield from UnevenSubscriptions(spec).assign())
    return (yield from _EvenSubscriptions(spec).assign())


class _EvenSubscriptions:
    """One computation of a target assignment."""

    def __init__(self, spec: GroupSpec) -> None:
        self._spec = spec
        self._member_ids = members_in_order(spec.members)
        first = spec.members[self._member_ids[0]]
        self._topics = topics_in_order(first.topic_ids, capacity_for(first.names))
        self._subscribed = frozenset(self._topics)
        self._unassigned: list[tuple[Uuid, int]] = []
        self._target: dict[str, dict[Uuid, Set[int]]] = {}
        #: Member id -> partitions that it can take.
        self._space: list[tuple[str, int]] = []

    def assign(self) -> Slices[GroupAssignment]:
        """Revoke what is too much, and give what is free to those with too little."""
        if not self._topics:
            return {}
        yield from self._find_unassigned()
        yield from self._revoke()
        yield from self._fill()
        return self._target

    def _find_unassigned(self) -> Slices[None]:
        for topic_id in self._topics:
            owned = self._spec.assigned.get(topic_id, {})
            for some in pieces(range(self._spec.partition_counts[topic_id]), _PARTITIONS_PER_SLICE):
                self._unassigned += [(topic_id, one) for one in some if one not in owned]
                yield

    def _revoke(self) -> Slices[None]:
        total = sum(self._spec.partition_counts[topic_id] for topic_id in self._topics)
        members = len(self._member_ids)
        quota, extra = divmod(total, members)
        for index, member_id in enumerate(self._member_ids):
            with_extra = extra > 0
            space = self._keep(member_id, quota + with_extra)
            if space > 0 and with_extra and members - index > extra:
                # Others may have the partition already with which they exceed the quota.
                space -= 1
                with_extra = False
            if space > 0:
                self._space.append((member_id, space))
            extra -= with_extra
            if index % _MEMBERS_PER_SLICE == 0:
                yield

    def _keep(self, member_id: str, quota: int) -> int:
        """Keep of the member's assignment what its quota allows. Returns what is left of it."""
        kept: dict[Uuid, Set[int]] = {}
        assignment = self._spec.members[member_id].assignment
        for topic_id in topics_in_order(assignment):
            partitions = assignment[topic_id]
            if topic_id not in self._subscribed:
                continue
            if len(partitions) > quota:
                in_order = partitions_in_order(partitions)
                self._unassigned += [(topic_id, one) for one in in_order[quota:]]
                partitions = frozenset(in_order[:quota])
            quota -= len(partitions)
            if partitions:
                kept[topic_id] = partitions
        self._target[member_id] = kept
        return quota

    def _fill(self) -> Slices[None]:
        free = iter(self._unassigned)
        for number, (member_id, space) in enumerate(self._space):
            taken = _grouped(islice(free, space))
            self._target[member_id] = _union(self._target[member_id], taken)
            if number % _MEMBERS_PER_SLICE == 0:
                yield
        if next(free, None) is not None:
            raise AssignorError("partitions were left unassigned")


def _grouped(partitions: Iterable[tuple[Uuid, int]]) -> dict[Uuid, set[int]]:
    found: dict[Uuid, set[int]] = {}
    for topic_id, partition in partitions:
        found.setdefault(topic_id, set()).add(partition)
    return found


def _union(one: Assignment, other: Assignment) -> dict[Uuid, Set[int]]:
    both = dict(one)
    for topic_id, partitions in other.items():
        both[topic_id] = frozenset(both.get(topic_id, ())) | partitions
    return both
