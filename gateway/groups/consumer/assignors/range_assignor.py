"""Assigns to each member a range of the partitions of each topic (``RangeAssignor``).

Topics with as many partitions are assigned alike, so that a member gets the same partitions of
each. Static members come first.
"""

from __future__ import annotations

from typing import Final

from gateway.base.slices import Slices
from gateway.groups.consumer.assignors.group_spec import GroupAssignment, GroupSpec
from kwire.uuid import Uuid

NAME: Final = "range"
#: Members between two slices.
_MEMBERS_PER_SLICE: Final = 20


def assign(spec: GroupSpec) -> Slices[GroupAssignment]:
    """Return the target assignment of the group."""
    in_order = sorted(spec.members, key=lambda member_id: _rank(spec, member_id))
    subscribers: dict[Uuid, int] = {}
    for number, member_id in enumerate(in_order):
        for topic_id in spec.members[member_id].topic_ids:
            subscribers[topic_id] = subscribers.get(topic_id, 0) + 1
        if number % _MEMBERS_PER_SLICE == 0:
            yield
    #: Topic id -> [its next partition, members that still get one more than the others].
    left = {
        topic_id: [0, spec.partition_counts[topic_id] % count]
        for topic_id, count in subscribers.items()
    }
    assignments: dict[str, dict[Uuid, frozenset[int]]] = {}
    for number, member_id in enumerate(in_order):
        assignment: dict[Uuid, frozenset[int]] = {}
        for topic_id in spec.members[member_id].topic_ids:
            partitions = spec.partition_counts[topic_id]
            start, extra = left[topic_id]
            end = start + partitions // subscribers[topic_id] + (1 if extra else 0)
            left[topic_id] = [end, max(extra - 1, 0)]
            if start < end:
                assignment[topic_id] = frozenset(range(start, end))
        assignments[member_id] = assignment
        if number % _MEMBERS_PER_SLICE == 0:
            yield
    return assignments


def _rank(spec: GroupSpec, member_id: str) -> tuple[bool, bytes]:
    instance_id = spec.members[member_id].instance_id
    text = member_id if instance_id is None else instance_id
    return instance_id is None, text.encode("utf-16-be", "surrogatepass")  # String.compareTo
