"""Keeps the offsets that transactions have committed and that do not count yet, because the marker
of the transaction is not in the log (``OffsetMetadataManager.pendingTransactionalOffsets``).

It answers no request: ``transactional_offsets`` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gateway.groups.events import Committed, TopicPartition
from gateway.groups.group import Group


class PendingRecord(NamedTuple):
    """A record of a transaction without a marker, as a log has it. ``is_superseded``: a newer
    record of its key counts already.
    """

    producer_id: int
    key: bytes
    value: bytes
    owner: str = ""
    is_superseded: bool = False


class PendingOffset(NamedTuple):
    """``order`` is that of the records in the log."""

    committed: Committed
    order: int
    is_superseded: bool


_Place = tuple[str, TopicPartition]


class PendingOffsets:
    """The pending offsets of all groups. The memory is charged to the groups."""

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[_Place, PendingOffset]] = {}
        self._producers: dict[_Place, set[int]] = {}
        self._places: dict[str, dict[TopicPartition, None]] = {}  # of each group
        self._order = 0

    def add(
        self,
        group: Group,
        where: TopicPartition,
        producer_id: int,
        committed: Committed,
        *,
        is_superseded: bool = False,
    ) -> None:
        """Add the offset that a producer commits, behind all others; it replaces the producer's
        own.
        """
        place = group.group_id, where
        offsets = self._by_producer.setdefault(producer_id, {})
        before = offsets.pop(place, None)
        if before is not None:
            group.count_pending(where, before.committed, -1)
        self._order += 1
        offsets[place] = PendingOffset(committed, self._order, is_superseded)
        group.count_pending(where, committed, 1)
        self._producers.setdefault(place, set()).add(producer_id)
        self._places.setdefault(group.group_id, {})[where] = None

    def get(self, group_id: str, where: TopicPartition, producer_id: int) -> Committed | None:
        """Return the pending offset of a producer."""
        found = self._by_producer.get(producer_id, {}).get((group_id, where))
        return None if found is None else found.committed

    def has(self, group_id: str, where: TopicPartition) -> bool:
        """True if an offset of that partition is pending."""
        return (group_id, where) in self._producers

    def places(self, group_id: str) -> Iterable[TopicPartition]:
        """Return the partitions of a group that have pending offsets."""
        return list(self._places.get(group_id, ()))

    def committed_since(self, group_id: str, where: TopicPartition, order: int = -1) -> None:
        """An offset of ``order`` counts from now on, or one that is newer than all: what is older
        will not, also when its transaction commits.
        """
        place = group_id, where
        for producer_id in self._producers.get(place, ()):
            offsets = self._by_producer[producer_id]
            if order < 0 or offsets[place].order < order:
                offsets[place] = offsets[place]._replace(is_superseded=True)

    def remove(self, group: Group, where: TopicPartition) -> None:
        """The offset is deleted: also what is pending."""
        place = group.group_id, where
        for producer_id in list(self._producers.get(place, ())):
            found = self._by_producer[producer_id].pop(place)
            self._forget(group, where, producer_id, found)
            if not self._by_producer[producer_id]:
                del self._by_producer[producer_id]

    def take(
        self, producer_id: int, groups: dict[str, Group]
    ) -> Iterator[tuple[Group, TopicPartition, PendingOffset]]:
        """Yield the pending offsets of a producer, each removed before, the oldest first."""
        offsets = self._by_producer.pop(producer_id, {})
        for (group_id, where), found in offsets.items():
            group = groups[group_id]
            self._forget(group, where, producer_id, found)
            yield group, where, found

    def _forget(
        self, group: Group, where: TopicPartition, producer_id: int, found: PendingOffset
    ) -> None:
        place = group.group_id, where
        group.count_pending(where, found.committed, -1)
        self._producers[place].remove(producer_id)
        if not self._producers[place]:
            del self._producers[place]
            places = self._places[group.group_id]
            del places[where]
            if not places:
                del self._places[group.group_id]
