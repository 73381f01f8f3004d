"""Spreads partitions over members that subscribe to different topics
(``UniformHeterogeneousAssignmentBuilder``).

Free partitions go to the subscribers with the fewest. Then partitions move from the most to the
least loaded subscribers of each topic, topic by topic, until nothing moves or 16 rounds are over.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence, Set
from typing import Final

from gateway.base.java.hash_order import members_in_order
from gateway.base.slices import Slices
from gateway.groups.consumer.assignors.group_spec import GroupAssignment, GroupSpec
from kwire.uuid import Uuid

_ROUNDS_MAX: Final = 16
#: Partitions and members that are looked at between two slices.
_STEPS_PER_SLICE: Final = 1000
_NOBODY: Final = -1
_SIGN: Final = 1 << 63


class UnevenSubscriptions:
    """One computation of a target assignment. Members are numbers, in the order of their ids."""

    def __init__(self, spec: GroupSpec) -> None:
        self._spec = spec
        self._member_ids = members_in_order(spec.members)
        self._sizes = [0] * len(self._member_ids)
        self._subscribers: dict[Uuid, list[int]] = {}
        #: Topic id -> the member of each partition.
        self._owners: dict[Uuid, list[int]] = {}
        self._balancer = _Balancer(self._sizes)
        self._work = 0

    def assign(self) -> Slices[GroupAssignment]:
        """Keep what members still subscribe to, assign what is free, and balance."""
        for number, member_id in enumerate(self._member_ids):
            topic_ids = self._spec.members[member_id].topic_ids
            for topic_id in topic_ids:
                self._subscribers.setdefault(topic_id, []).append(number)
            yield from self._pause(1 + len(topic_ids))
        if not self._subscribers:
            return {}
        for topic_id in self._subscribers:
            count = self._spec.partition_counts[topic_id]
            self._owners[topic_id] = [_NOBODY] * count
            yield from self._pause(count)
        yield from self._keep()
        yield from self._assign_free()
        yield from self._balance()
        return (yield from self._result())

    def _pause(self, steps: int) -> Slices[None]:
        self._work += steps
        if self._work >= _STEPS_PER_SLICE:
            self._work = 0
            yield

    def _keep(self) -> Slices[None]:
        for number, member_id in enumerate(self._member_ids):
            member = self._spec.members[member_id]
            subscribed = set(member.topic_ids)
            for topic_id, partitions in member.assignment.items():
                if topic_id in subscribed:
                    self._sizes[number] += len(partitions)
                    owners = self._owners[topic_id]
                    for partition in partitions:
                        owners[partition] = number
                yield from self._pause(1 + len(partitions))

    def _assign_free(self) -> Slices[None]:
        free: dict[Uuid, list[int]] = {}
        for topic_id, owners in self._owners.items():
            found = [partition for partition, owner in enumerate(owners) if owner == _NOBODY]
            if found:
                free[topic_id] = found
            yield from self._pause(len(owners))
        for topic_id in self._in_order(free):
            self._balancer.begin(self._subscribers[topic_id])
            yield from self._pause(len(self._subscribers[topic_id]))
            for partition in free[topic_id]:
                self._give(topic_id, partition, self._balancer.next_least_loaded())
                yield from self._pause(1)

    def _balance(self) -> Slices[None]:
        shared = [one for one, members in self._subscribers.items() if len(members) > 1]
        in_order = self._in_order(shared)
        last_moved = -1
        for _ in range(_ROUNDS_MAX):
            for index, topic_id in enumerate(in_order):
                if index == last_moved:
                    return  # all others were looked at since, and nothing moved
                moved = yield from self._balance_topic(topic_id)
                if moved or last_moved == -1:
                    last_moved = index

    def _balance_topic(self, topic_id: Uuid) -> Slices[bool]:
        balancer = self._balancer
        imbalance = balancer.begin(self._subscribers[topic_id])
        yield from self._pause(len(self._subscribers[topic_id]))
        if imbalance <= 1:
            return False
        #: Member -> its partitions; the last one moves first.
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(self._owners[topic_id]):
            owned.setdefault(owner, []).append(partition)
        yield from self._pause(len(self._owners[topic_id]))
        moved = False
        while not balancer.is_balanced:
            giver = balancer.next_most_loaded()
            while giver != _NOBODY and not owned.get(giver):
                balancer.exclude_most_loaded()
                giver = balancer.next_most_loaded()
            if giver == _NOBODY:
                break
            partition = owned[giver].pop()
            taker = balancer.next_least_loaded()
            if balancer.is_balanced:
                break
            self._give(topic_id, partition, taker)
            moved = True
            yield from self._pause(1)
        return moved

    def _give(self, topic_id: Uuid, partition: int, member: int) -> None:
        owners = self._owners[topic_id]
        if owners[partition] != _NOBODY:
            self._sizes[owners[partition]] -= 1
        owners[partition] = member
        self._sizes[member] += 1

    def _result(self) -> Slices[GroupAssignment]:
        target: dict[str, dict[Uuid, set[int]]] = {one: {} for one in self._member_ids}
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                if owner != _NOBODY:
                    mine = target[self._member_ids[owner]]
                    mine.setdefault(topic_id, set()).add(partition)
            yield from self._pause(len(owners))
        result: dict[str, dict[Uuid, Set[int]]] = {}
        for member_id, assignment in target.items():
            result[member_id] = {one: frozenset(them) for one, them in assignment.items()}
            yield from self._pause(1 + len(assignment))
        return result

    def _in_order(self, topic_ids: Iterable[Uuid]) -> list[Uuid]:
        """Topics with the most partitions for each subscriber first."""
        return sorted(topic_ids, key=functools.cache(self._rank))

    def _rank(self, topic_id: Uuid) -> tuple[float, int, int, int]:
        subscribers = len(self._subscribers[topic_id])
        high, low = (int.from_bytes(part) for part in (topic_id[:8], topic_id[8:]))
        share = self._spec.partition_counts[topic_id] / subscribers
        return -share, subscribers, high ^ _SIGN, low ^ _SIGN  # Java compares with a sign


class _Balancer:
    """Tells, of the subscribers of a topic, which has the fewest and which the most partitions
    (``MemberAssignmentBalancer``).

    Two ranges of the members, sorted by their sizes, grow towards each other. All members of a
    range have the same number of partitions when it is full.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = sizes
        self._members: list[int] = []
        self._least_end = self._least_count = self._least_next = 0
        self._most_start = self._most_end = self._most_count = self._most_next = 0

    def begin(self, members: Sequence[int]) -> int:
        """Start with these members. Returns the difference of the largest and smallest size."""
        self._members = sorted(members, key=lambda member: (self._sizes[member], member))
        smallest, largest = (self._sizes[self._members[end]] for end in (0, -1))
        self._least_end, self._least_count, self._least_next = 0, smallest - 1, 0
        self._most_start = self._most_end = len(self._members)
        self._most_count, self._most_next = largest + 1, len(self._members) - 1
        return largest - smallest

    @property
    def is_balanced(self) -> bool:
        return self._most_count - self._least_count <= 1

    def next_least_loaded(self) -> int:
        """The member that gets the next partition."""
        if self._least_next >= self._least_end:
            self._least_count += 1
            while (
                self._least_end < len(self._members)
                and self._sizes[self._members[self._least_end]] == self._least_count
            ):
                self._least_end += 1
            self._least_next = 0
        self._least_next += 1
        return self._members[self._least_next - 1]

    def next_most_loaded(self) -> int:
        """The member that gives the next partition away; -1 if none has one to give."""
        if self._most_next < self._most_start:
            if self._most_end <= self._most_start and self._most_start > 0:
                self._most_count = self._sizes[self._members[self._most_start - 1]]
            else:
                self._most_count -= 1
            while (
                self._most_start > 0
                and self._sizes[self._members[self._most_start - 1]] == self._most_count
            ):
                self._most_start -= 1
            self._most_next = self._most_end - 1
        if self._most_next < 0:
            return _NOBODY
        self._most_next -= 1
        return self._members[self._most_next + 1]

    def exclude_most_loaded(self) -> None:
        """Take the member that ``next_most_loaded`` returned last out of the range: it has no
        partition of the topic.
        """
        at, last = self._most_next + 1, self._most_end - 1
        self._members[at], self._members[last] = self._members[last], self._members[at]
        self._most_end -= 1
