"""Which partitions a node is in the ISR of, or eligible to lead, and which have no leader (``BrokersToIsrs``).

What is asked whenever a broker comes or goes, and would take too long to look for among all partitions. Knows no request.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from gateway.controller.partition_change import NO_LEADER, RECOVERING, is_reassigning
from kwire.cluster import Image, apply
from kwire.message import Message
from kwire.messages.clear_elr_record import ClearElrRecord
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.remove_topic_record import RemoveTopicRecord
from kwire.uuid import Uuid

#: A partition: the id of its topic, and its number.
PartitionKey = tuple[Uuid, int]


class Elections(NamedTuple):
    """Leaders that were not in sync when they were elected: anybody rather than nobody, and eligible replicas (KIP-966)."""

    unclean: int = 0
    eligible: int = 0


class PartitionIndex:
    """Of the partitions of ``image``, as long as it is changed by :meth:`apply` alone.

    Everything that it gives is in the order in which it came to be so.
    """

    def __init__(self, image: Image) -> None:
        #: Partitions that nobody leads; whose leader is not the first replica; that are being reassigned.
        self.leaderless: Final[dict[PartitionKey, None]] = {}
        self.imbalanced: Final[dict[PartitionKey, None]] = {}
        self.reassigning: Final[dict[PartitionKey, None]] = {}
        #: By changes since this was made (``TopicDelta``).
        self.elections = Elections()
        self._led_by: dict[int, dict[PartitionKey, None]] = {}
        self._in_isr: dict[int, dict[PartitionKey, None]] = {}
        self._eligible: dict[int, dict[PartitionKey, None]] = {}
        self._image = image
        for partitions in image.partitions.values():
            for partition in partitions.values():
                self._put(None, partition)

    def leads_any(self, node_id: int) -> bool:
        """Does the node lead a partition (``hasLeaderships``)?"""
        return bool(self._led_by.get(node_id))

    def in_isr(self, node_id: int) -> list[PartitionKey]:
        """The partitions that have the node in their ISR."""
        return list(self._in_isr.get(node_id, ()))

    def eligible(self, node_id: int) -> list[PartitionKey]:
        """The partitions that have the node among their eligible leader replicas."""
        return list(self._eligible.get(node_id, ()))

    def apply(self, message: Message) -> None:
        """Make the change that a record makes in the image, and follow it. Raises FoldError; nothing is changed then."""
        image = self._image
        touched = self._touched(message)
        before = {key: image.partitions.get(key[0], {}).get(key[1]) for key in touched}
        apply(image, message)
        for key, old in before.items():
            new = image.partitions.get(key[0], {}).get(key[1])
            if old is not None and isinstance(message, PartitionChangeRecord) and message.leader >= 0:
                self._count(old, message)
            if new is not None:
                self._put(old, new)
            elif old is not None:
                self._remove(old)

    def _touched(self, message: Message) -> Iterable[PartitionKey]:
        """The partitions that a record may change."""
        if isinstance(message, PartitionRecord | PartitionChangeRecord):
            return [(message.topic_id, message.partition_id)]
        if isinstance(message, RemoveTopicRecord):
            return self._of_topic(message.topic_id)
        if isinstance(message, ClearElrRecord):
            if message.topic_name:
                return self._of_topic(self._image.topic_ids.get(message.topic_name))
            return {key: None for keys in self._eligible.values() for key in keys}
        return ()

    def _of_topic(self, topic_id: Uuid | None) -> list[PartitionKey]:
        return [] if topic_id is None else [(topic_id, index) for index in self._image.partitions.get(topic_id, ())]

    def _put(self, before: PartitionRecord | None, after: PartitionRecord) -> None:
        key = after.topic_id, after.partition_id
        for by_node, old, new in (
            (self._led_by, _leader(before), _leader(after)),
            (self._in_isr, before.isr if before else (), after.isr),
            (self._eligible, (before and before.eligible_leader_replicas) or (), after.eligible_leader_replicas or ()),
        ):
            if old != new:
                _move(by_node, key, set(old), set(new))
        for chosen, is_so in (
            (self.leaderless, after.leader == NO_LEADER),
            (self.imbalanced, after.leader != after.replicas[0] if after.replicas else False),
            (self.reassigning, is_reassigning(after)),
        ):
            if is_so:
                chosen[key] = None
            else:
                chosen.pop(key, None)

    def _count(self, before: PartitionRecord, change: PartitionChangeRecord) -> None:
        """As ``TopicDelta.updateElectionStats``."""
        unclean, eligible = self.elections
        unclean += change.leader_recovery_state == RECOVERING
        eligible += change.leader in (before.eligible_leader_replicas or ())
        self.elections = Elections(unclean, eligible)

    def _remove(self, partition: PartitionRecord) -> None:
        key = partition.topic_id, partition.partition_id
        _move(self._led_by, key, set(_leader(partition)), set())
        _move(self._in_isr, key, set(partition.isr), set())
        _move(self._eligible, key, set(partition.eligible_leader_replicas or ()), set())
        for chosen in (self.leaderless, self.imbalanced, self.reassigning):
            chosen.pop(key, None)


def _leader(partition: PartitionRecord | None) -> tuple[int, ...]:
    return () if partition is None or partition.leader == NO_LEADER else (partition.leader,)


def _move(by_node: dict[int, dict[PartitionKey, None]], key: PartitionKey, old: set[int], new: set[int]) -> None:
    for node_id in sorted(old - new):
        keys = by_node[node_id]
        del keys[key]
        if not keys:
            del by_node[node_id]
    for node_id in sorted(new - old):
        by_node.setdefault(node_id, {})[key] = None
