"""Which partitions a node is in the ISR of, or eligible to lead, and which have no leader
(``BrokersToIsrs``).

What is asked whenever a broker comes or goes, and would take too long to look for among all
partitions. Knows no request.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from gateway.controller.partition_change import NO_LEADER, RECOVERING, is_reassigning
from gateway.slices import Slices, pieces
from kwire.cluster import Image, apply
from kwire.cluster.fold import merge
from kwire.message import Message
from kwire.messages.clear_elr_record import ClearElrRecord
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.remove_topic_record import RemoveTopicRecord
from kwire.uuid import Uuid

#: How many partitions are taken in between two slices: less than 1 ms.
_PARTITIONS_PER_SLICE: Final = 200
#: A partition: the id of its topic, and its number.
PartitionKey = tuple[Uuid, int]


class Elections(NamedTuple):
    """Leaders that were not in sync when they were elected: anybody rather than nobody, and
    eligible replicas (KIP-966).
    """

    unclean: int = 0
    eligible: int = 0


class PartitionIndex:
    """Of the partitions of ``image``, once they are in it (:meth:`fill`), as long as the image is
    changed by :meth:`apply` alone.

    Everything that it gives is in the order in which it came to be so.
    """

    def __init__(self, image: Image) -> None:
        #: Partitions that nobody leads; whose leader is not the first replica; that are being
        #: reassigned.
        self.leaderless: Final[dict[PartitionKey, None]] = {}
        self.imbalanced: Final[dict[PartitionKey, None]] = {}
        self.reassigning: Final[dict[PartitionKey, None]] = {}
        #: By changes since this was made (``TopicDelta``).
        self.elections = Elections()
        self._led_by: dict[int, dict[PartitionKey, None]] = {}
        self._in_isr: dict[int, dict[PartitionKey, None]] = {}
        self._eligible: dict[int, dict[PartitionKey, None]] = {}
        self._image = image

    def fill(self) -> Slices[None]:
        """Take in the partitions of the image; once, before anything else."""
        for partitions in self._image.partitions.values():
            for some in pieces(partitions.values(), _PARTITIONS_PER_SLICE):
                for partition in some:
                    self._put(None, partition)
                yield

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
        """Make the change that a record makes in the image, and follow it. Raises FoldError;
        nothing is changed then.
        """
        image = self._image
        if isinstance(message, PartitionChangeRecord):
            self._change(message)
            return
        maybe_changed = self._touched(message)
        before = {key: image.partitions.get(key[0], {}).get(key[1]) for key in maybe_changed}
        apply(image, message)
        for key, old in before.items():
            new = image.partitions.get(key[0], {}).get(key[1])
            if new is not None:
                self._put(old, new)
            elif old is not None:
                self._remove(old)

    def _change(self, change: PartitionChangeRecord) -> None:
        """The same for the record that there may be thousands of at once."""
        partitions = self._image.partitions.get(change.topic_id, {})
        before = partitions.get(change.partition_id)
        if before is None:
            apply(self._image, change)
            raise AssertionError("what is not there cannot be changed")
        after = partitions[change.partition_id] = merge(before, change)
        if change.leader >= 0:
            self._count(before, change)
        self._put(before, after)

    def _touched(self, message: Message) -> Iterable[PartitionKey]:
        """The partitions that a record may change."""
        if isinstance(message, PartitionRecord):
            return [(message.topic_id, message.partition_id)]
        if isinstance(message, RemoveTopicRecord):
            return self._of_topic(message.topic_id)
        if isinstance(message, ClearElrRecord):
            if message.topic_name:
                return self._of_topic(self._image.topic_ids.get(message.topic_name))
            return {key: None for keys in self._eligible.values() for key in keys}
        return ()

    def _of_topic(self, topic_id: Uuid | None) -> list[PartitionKey]:
        return (
            []
            if topic_id is None
            else [(topic_id, index) for index in self._image.partitions.get(topic_id, ())]
        )

    def _put(self, before: PartitionRecord | None, after: PartitionRecord) -> None:
        """Only what is different is touched: when a broker goes there may be thousands of these."""
        key = after.topic_id, after.partition_id
        _move(self._in_isr, key, before.isr if before else (), after.isr)
        _move(
            self._eligible,
            key,
            (before and before.eligible_leader_replicas) or (),
            after.eligible_leader_replicas or (),
        )
        if before is None or before.leader != after.leader or before.replicas is not after.replicas:
            _move(self._led_by, key, _leader(before), _leader(after))
            _mark(self.leaderless, key, after.leader == NO_LEADER)
            _mark(self.imbalanced, key, bool(after.replicas) and after.leader != after.replicas[0])
        if before is None or is_reassigning(before) or is_reassigning(after):
            _mark(self.reassigning, key, is_reassigning(after))

    def _count(self, before: PartitionRecord, change: PartitionChangeRecord) -> None:
        """As ``TopicDelta.updateElectionStats``."""
        unclean, eligible = self.elections
        unclean += change.leader_recovery_state == RECOVERING
        eligible += change.leader in (before.eligible_leader_replicas or ())
        self.elections = Elections(unclean, eligible)

    def _remove(self, partition: PartitionRecord) -> None:
        key = partition.topic_id, partition.partition_id
        _move(self._led_by, key, _leader(partition), ())
        _move(self._in_isr, key, partition.isr, ())
        _move(self._eligible, key, partition.eligible_leader_replicas or (), ())
        for chosen in (self.leaderless, self.imbalanced, self.reassigning):
            chosen.pop(key, None)


def _leader(partition: PartitionRecord | None) -> tuple[int, ...]:
    return () if partition is None or partition.leader == NO_LEADER else (partition.leader,)


def _mark(chosen: dict[PartitionKey, None], key: PartitionKey, is_so: bool) -> None:
    if is_so:
        chosen[key] = None
    else:
        chosen.pop(key, None)


def _move(
    by_node: dict[int, dict[PartitionKey, None]],
    key: PartitionKey,
    old: Collection[int],
    new: Collection[int],
) -> None:
    if old == new:
        return
    for node_id in old:
        if node_id not in new:
            keys = by_node[node_id]
            del keys[key]
            if not keys:
                del by_node[node_id]
    for node_id in new:
        if node_id not in old:
            by_node.setdefault(node_id, {})[key] = None
