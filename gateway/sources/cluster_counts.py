"""Counts the partitions of a cluster as Kafka's metrics do, and keeps the counts by image deltas.

The names and rules are those of ``ControllerMetadataMetrics`` for the whole cluster, and of the
brokers' ``ReplicaManager`` and ``Partition`` for each broker, which a server that follows the log
can tell as well as the brokers. It does not know brokers' own files: the default of
``min.insync.replicas`` is what the log has for all brokers, else 1.

A delta costs the partitions of the topics that it changes. The thread that folds the log counts.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.base.java.text import parse_integer, trim
from kwire.cluster.image import BROKER_RESOURCE, TOPIC_RESOURCE
from kwire.messages.partition_record import PartitionRecord
from kwire.protocol import LeaderRecoveryState

if TYPE_CHECKING:
    from kwire.cluster import Delta, Image
    from kwire.uuid import Uuid

_NO_LEADER: Final = -1
_RECOVERING: Final = LeaderRecoveryState.RECOVERING
_MIN_ISR: Final = "min.insync.replicas"
#: The configs of all brokers.
_ALL_BROKERS: Final = (BROKER_RESOURCE, "")
#: A record with its number and the header of the garbage collector.
_RECORD_BYTES: Final = sys.getsizeof(PartitionRecord()) + sys.getsizeof(1 << 20)
_Partitions = Mapping[int, PartitionRecord]
_NONE: Final[_Partitions] = {}


class BrokerCounts(NamedTuple):
    """Partitions of one broker: its replicas, those that it leads, and the troubles of these."""

    partitions: int = 0
    leaders: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    at_min_isr: int = 0
    reassigning: int = 0


class ClusterCounts(NamedTuple):
    """Counts of one image, and of the elections since the process began."""

    topics: int = 0
    partitions: int = 0
    offline: int = 0  #: without a leader
    imbalanced: int = 0  #: whose leader is not the first replica
    unclean_elections: int = 0  #: of a leader from outside the ISR
    eligible_elections: int = 0  #: of a leader from the eligible leader replicas (KIP-966)
    size: int = 0  #: bytes of the partitions (about), without the lists that they share
    brokers: Mapping[int, BrokerCounts] = {}


class ClusterCounter:
    """Keeps the counts of one image, which changes by deltas. It subscribes to them."""

    def __init__(self) -> None:
        #: The counts of the image that is published; None before there is one.
        self.published: ClusterCounts | None = None
        self._made: ClusterCounts | None = None
        self._unclean = self._eligible = 0
        self._reset()

    def _reset(self) -> None:
        self._topics = self._partitions = self._offline = self._imbalanced = self._size = 0
        #: By broker, in the order of the fields of ``BrokerCounts``.
        self._by_broker = [Counter[int]() for _ in BrokerCounts._fields]

    def prepare(self, delta: Delta | None, image: Image) -> None:
        """Count a step that is not applied yet, in the thread that folds the log."""
        if delta is None:
            self.load(image)
        else:
            self.update(image, delta)
        self._made = self.counts()

    def on_update(self, delta: Delta | None, image: Image) -> None:
        """Publish the counts of the step that was applied."""
        self.published = self._made

    def load(self, image: Image) -> None:
        """Count a whole image."""
        self._reset()
        self._topics = len(image.topics)
        for topic_id, partitions in image.partitions.items():
            self._size += _size(partitions)
            min_isr = _min_isr(image.configs, image.topics.get(topic_id))
            for partition, number in _alike(partitions):
                self._add(partition, number, min_isr)

    def update(self, base: Image, delta: Delta) -> None:
        """Count the changes of ``delta``, which is not committed to ``base`` yet."""
        self._topics = len(delta.image.topics)
        before, after = base.configs, delta.peeked("configs")
        if _min_isr(before, None) != _min_isr(after, None):
            changed: Iterable[Uuid] = {**base.partitions, **dict.fromkeys(delta.image.partitions)}
        else:
            changed = dict.fromkeys((*delta.changed_keys("partitions"), *_configured(base, delta)))
        partitions, names = delta.peeked("partitions"), delta.peeked("topics")
        for topic_id in changed:
            was = _min_isr(before, base.topics.get(topic_id))
            now = _min_isr(after, names.get(topic_id))
            old, new = base.partitions.get(topic_id, _NONE), partitions.get(topic_id, _NONE)
            self._replace(old, new, was, now)

    def counts(self) -> ClusterCounts:
        """Return the counts now."""
        brokers = sorted({broker_id for one in self._by_broker for broker_id in one})
        return ClusterCounts(
            self._topics,
            self._partitions,
            self._offline,
            self._imbalanced,
            self._unclean,
            self._eligible,
            self._size,
            {
                broker_id: BrokerCounts(*(one[broker_id] for one in self._by_broker))
                for broker_id in brokers
            },
        )

    def _replace(self, old: _Partitions, new: _Partitions, was: int, now: int) -> None:
        """Count the partitions ``new`` of a topic in place of ``old``; ``was`` and ``now`` are its
        ``min.insync.replicas``.
        """
        self._size += _size(new) - _size(old)
        # The pairs are those of one partition, unless a topic was made anew.
        for one, other in zip_longest(old.values(), new.values()):
            if one is other and was == now:
                continue
            if one is not None:
                self._add(one, -1, was)
            if other is not None:
                self._add(other, 1, now)
            if one is not None and other is not None and 0 <= other.leader != one.leader:
                self._unclean += other.leader_recovery_state == _RECOVERING
                self._eligible += other.leader in (one.eligible_leader_replicas or ())

    def _add(self, partition: PartitionRecord, number: int, min_isr: int) -> None:
        """Add ``number`` partitions like this one."""
        hosted, led, under_replicated, under, at, reassigning = self._by_broker
        leader, replicas = partition.leader, partition.replicas
        self._partitions += number
        for broker_id in replicas:
            _count(hosted, broker_id, number)
        if replicas and leader != replicas[0]:
            self._imbalanced += number
        if leader == _NO_LEADER:
            self._offline += number
            return
        _count(led, leader, number)
        in_sync, adding = len(partition.isr), partition.adding_replicas
        if in_sync < len(replicas) - len(adding):
            _count(under_replicated, leader, number)
        least = min(min_isr, len(replicas))
        if in_sync <= least:
            _count(under if in_sync < least else at, leader, number)
        if adding or partition.removing_replicas:
            _count(reassigning, leader, number)


def _alike(partitions: _Partitions) -> Iterable[tuple[PartitionRecord, int]]:
    """Return one of the partitions that are the same for the counts, and how many there are, for
    each such kind: records share their lists (``kwire.cluster.interned_lists``).
    """
    kinds: dict[tuple[int, ...], PartitionRecord] = {}
    numbers: dict[tuple[int, ...], int] = {}
    for one in partitions.values():
        lists = id(one.isr), id(one.adding_replicas), id(one.removing_replicas)
        kind = (one.leader, id(one.replicas), *lists)
        kinds[kind] = one
        numbers[kind] = numbers.get(kind, 0) + 1
    return zip(kinds.values(), numbers.values(), strict=True)


def _count(by_broker: Counter[int], broker_id: int, number: int) -> None:
    """Change a count. Brokers of the past have none, and take no memory."""
    by_broker[broker_id] += number
    if not by_broker[broker_id]:
        del by_broker[broker_id]


def _configured(base: Image, delta: Delta) -> Iterable[Uuid]:
    """Yield the topics whose configs change."""
    for kind, name in delta.changed_keys("configs"):
        topic_id = base.topic_ids.get(name) if kind == TOPIC_RESOURCE else None
        if topic_id is not None:
            yield topic_id


def _min_isr(configs: Mapping[tuple[int, str], Mapping[str, str]], topic: str | None) -> int:
    """Return ``min.insync.replicas`` of a topic, of all topics for None, as Java reads it; 1 if it
    is no number.
    """
    own = configs.get((TOPIC_RESOURCE, topic)) if topic is not None else None
    text = (own or {}).get(_MIN_ISR) or (configs.get(_ALL_BROKERS) or {}).get(_MIN_ISR, "1")
    try:
        return max(1, parse_integer(trim(text), 32))
    except ValueError:
        return 1


def _size(partitions: _Partitions) -> int:
    return sys.getsizeof(partitions) + len(partitions) * _RECORD_BYTES if partitions else 0
