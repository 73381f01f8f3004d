"""Indexes the partitions by the nodes in their ISR and ELR, and those without a leader
(``BrokersToIsrs``, ``BrokersToElrs``).

The controller needs them whenever a broker is fenced or returns; a search of all partitions would
take too long. It knows no request.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Final

from gateway.base.slices import Slices
from gateway.controller.partition_change import NO_LEADER, is_reassigning
from gateway.controller.partition_set import PartitionKey, PartitionSet
from kwire.cluster import Image, apply
from kwire.cluster.entities.partitions import merge
from kwire.message import Message
from kwire.messages.clear_elr_record import ClearElrRecord
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.remove_topic_record import RemoveTopicRecord
from kwire.uuid import Uuid

#: How many partitions are taken in between two slices: less than 1 ms.
_PARTITIONS_PER_SLICE: Final = 200
_NO_PARTITIONS: Final = PartitionSet()
#: Partitions by the nodes that they have to do with. A node without partitions has no entry, so
#: that nodes of the past take no memory.
_ByNode = dict[int, PartitionSet]


class PartitionIndex:
    """The index of ``image``, complete when :meth:`fill` has ended. Only :meth:`apply` may change
    the image from then on, and while the index is being filled.
    """

    def __init__(self, image: Image) -> None:
        #: Partitions without a leader.
        self.leaderless: Final = PartitionSet()
        #: Partitions whose leader is not the first replica.
        self.imbalanced: Final = PartitionSet()
        #: Partitions with a reassignment in progress.
        self.reassigning: Final = PartitionSet()
        self._led_by: _ByNode = {}
        self._in_isr: _ByNode = {}
        self._eligible: _ByNode = {}
        self._image = image
        # The partitions that the index does not have yet: by topic, and by number in a topic of
        # which it has others.
        self._topics_left = dict.fromkeys(image.partitions)
        self._left: tuple[Uuid | None, dict[int, None]] = None, {}

    @property
    def is_filled(self) -> bool:
        """Whether the index has all partitions of the image."""
        return not self._topics_left

    def fill(self) -> Slices[None]:
        """Read the partitions of the image, in slices, between which :meth:`apply` may change it. A
        second call continues where the first one stopped.
        """
        while self._topics_left:
            topic_id = next(iter(self._topics_left))
            yield from self._fill_topic(topic_id)
            self._topics_left.pop(topic_id, None)  # the topic may have been removed meanwhile

    def _fill_topic(self, topic_id: Uuid) -> Slices[None]:
        partitions = self._image.partitions[topic_id]
        if len(partitions) <= _PARTITIONS_PER_SLICE:
            self._put_new(topic_id, partitions.values())
            del self._topics_left[topic_id]
            yield
            return
        if self._left[0] != topic_id:
            self._left = topic_id, dict.fromkeys(partitions)
        left = self._left[1]
        while left and topic_id in self._topics_left:
            some = list(itertools.islice(left, _PARTITIONS_PER_SLICE))
            self._put_new(topic_id, [partitions[number] for number in some])
            for number in some:
                del left[number]
            yield

    def leads_any(self, node_id: int) -> bool:
        """Whether the node leads a partition (``BrokersToIsrs.hasLeaderships``)."""
        return node_id in self._led_by

    def in_isr(self, node_id: int) -> Iterable[PartitionKey]:
        """Return the partitions that have the node in their ISR, to be read before the next
        :meth:`apply`.
        """
        return self._in_isr.get(node_id, _NO_PARTITIONS)

    def eligible(self, node_id: int) -> Iterable[PartitionKey]:
        """Return the partitions that have the node among their eligible leader replicas, as
        :meth:`in_isr`.
        """
        return self._eligible.get(node_id, _NO_PARTITIONS)

    def apply(self, message: Message) -> None:
        """Apply a record to the image, and update the index. Raises FoldError, and changes nothing
        then.
        """
        image = self._image
        if isinstance(message, PartitionChangeRecord):
            self._change(message)
            return
        if isinstance(message, RemoveTopicRecord):
            self._remove_topic(message)
            return
        maybe_changed = self._touched(message)
        before = {key: image.partitions.get(key[0], {}).get(key[1]) for key in maybe_changed}
        apply(image, message)
        for key, old in before.items():
            if not self._is_left(*key):
                self._put(old, image.partitions[key[0]][key[1]])

    def _change(self, change: PartitionChangeRecord) -> None:
        """Apply a PartitionChangeRecord: the short way for the one record that comes in thousands,
        when a broker is fenced.
        """
        partitions = self._image.partitions.get(change.topic_id, {})
        before = partitions.get(change.partition_id)
        # ``apply`` raises for it, with the text for all records that name what does not exist.
        if before is None:
            apply(self._image, change)  # raises FoldError
            raise AssertionError("a change of a partition that does not exist was applied")
        after = partitions[change.partition_id] = merge(before, change)
        if not self._is_left(change.topic_id, change.partition_id):
            self._put(before, after)

    def _is_left(self, topic_id: Uuid, number: int) -> bool:
        """Whether :meth:`fill` will read the partition."""
        if topic_id not in self._topics_left:
            return False
        begun, numbers = self._left
        return begun != topic_id or number in numbers

    def _touched(self, message: Message) -> Iterable[PartitionKey]:
        """Return the partitions that a record may change."""
        if isinstance(message, PartitionRecord):
            return [(message.topic_id, message.partition_id)]
        if isinstance(message, ClearElrRecord):
            # By name and not by id, as in the record.
            if message.topic_name:
                return self._of_topic(self._image.topic_ids.get(message.topic_name))
            # Without a name the record is for all topics, and changes those with an ELR.
            return {key: None for keys in self._eligible.values() for key in keys}
        return ()

    def _of_topic(self, topic_id: Uuid | None) -> list[PartitionKey]:
        return (
            []
            if topic_id is None
            else [(topic_id, index) for index in self._image.partitions.get(topic_id, ())]
        )

    def _put_new(self, topic_id: Uuid, partitions: Iterable[PartitionRecord]) -> None:
        """Index partitions of a topic that are not in the index."""
        in_isr: dict[int, list[int]] = defaultdict(list)
        led_by: dict[int, list[int]] = defaultdict(list)
        for partition in partitions:
            number, leader = partition.partition_id, partition.leader
            for node_id in partition.isr:
                in_isr[node_id].append(number)
            if leader != NO_LEADER:
                led_by[leader].append(number)
            # Few partitions are any of these.
            if partition.eligible_leader_replicas or [leader] != partition.replicas[:1]:
                _move(self._eligible, partition, (), partition.eligible_leader_replicas or ())
                self._mark(partition)
            if is_reassigning(partition):
                self.reassigning.add(topic_id, number)
        for chosen, found in ((self._in_isr, in_isr), (self._led_by, led_by)):
            for node_id, numbers in found.items():
                chosen.setdefault(node_id, PartitionSet()).add_all(topic_id, numbers)

    def _put(self, before: PartitionRecord | None, after: PartitionRecord) -> None:
        """Index ``after`` in place of ``before``.

        Only differences are touched: thousands of partitions change when a broker is fenced.
        """
        _move(self._in_isr, after, before.isr if before else (), after.isr)
        _move(
            self._eligible,
            after,
            (before and before.eligible_leader_replicas) or (),
            after.eligible_leader_replicas or (),
        )
        # ``is not``: ``merge`` keeps the list of replicas that a change does not name, and a
        # comparison of all lists would cost as much as the rest.
        if before is None or before.leader != after.leader or before.replicas is not after.replicas:
            _move(self._led_by, after, _leader(before), _leader(after))
            self._mark(after)
        if before is None or is_reassigning(before) or is_reassigning(after):
            _mark(self.reassigning, after, is_reassigning(after))

    def _mark(self, partition: PartitionRecord) -> None:
        """Note whether the partition has a leader, and whether that is the preferred one."""
        leader, replicas = partition.leader, partition.replicas
        _mark(self.leaderless, partition, leader == NO_LEADER)
        _mark(self.imbalanced, partition, bool(replicas) and leader != replicas[0])

    def _remove_topic(self, removed: RemoveTopicRecord) -> None:
        """Apply a RemoveTopicRecord: all partitions of the topic leave the index together, as there
        may be a hundred thousand.
        """
        topic_id = removed.topic_id
        # Read before ``apply``, which removes the partitions.
        nodes = {
            node_id
            for one in self._image.partitions.get(topic_id, {}).values()
            for node_id in (one.leader, *one.isr, *(one.eligible_leader_replicas or ()))
        }
        apply(self._image, removed)
        for by_node in (self._led_by, self._in_isr, self._eligible):
            for node_id in nodes & by_node.keys():
                by_node[node_id].discard_topic(topic_id)
                if not by_node[node_id]:
                    del by_node[node_id]
        for chosen in (self.leaderless, self.imbalanced, self.reassigning):
            chosen.discard_topic(topic_id)
        self._topics_left.pop(topic_id, None)


def _leader(partition: PartitionRecord | None) -> tuple[int, ...]:
    return () if partition is None or partition.leader == NO_LEADER else (partition.leader,)


def _mark(chosen: PartitionSet, partition: PartitionRecord, is_so: bool) -> None:
    change = chosen.add if is_so else chosen.discard
    change(partition.topic_id, partition.partition_id)


def _move(
    by_node: _ByNode, partition: PartitionRecord, old: Collection[int], new: Collection[int]
) -> None:
    if old == new:
        return
    topic_id, number = partition.topic_id, partition.partition_id
    for node_id in old:
        if node_id not in new:
            left = by_node[node_id]
            left.discard(topic_id, number)
            if not left:
                del by_node[node_id]
    for node_id in new:
        if node_id not in old:
            if node_id not in by_node:
                by_node[node_id] = PartitionSet()
            by_node[node_id].add(topic_id, number)
