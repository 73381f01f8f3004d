"""Collects the metrics of the controller: counts of the committed cluster, which every node has,
and figures of the decisions that this node made while it led.

Follows Kafka's ``ControllerMetadataMetrics`` and ``QuorumControllerMetrics``. Does not import
Prometheus. The cluster is counted only when the metrics are read.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.controller.partition_index import Elections
from gateway.server.duration_stats import DurationStats
from gateway.slices import run
from kwire.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kwire.messages.partition_record import PartitionRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from gateway.controller.controller import Controller
    from gateway.slices import Slices
    from gateway.sources.metadata_loader import MetadataLoader
    from kwire.cluster import Image
    from kwire.message import Message
    from kwire.uuid import Uuid

_NO_LEADER: Final = -1
#: A record with its number and the header of the garbage collector.
_RECORD_BYTES: Final = sys.getsizeof(PartitionRecord()) + sys.getsizeof(1 << 20)
#: Topics and partitions that are counted in one step.
_COUNTED_STEP: Final = 2000
#: ``BrokerRegistrationState``.
_FENCED, _LEAVING, _ACTIVE = 10, 20, 30


class ControllerMeasures:
    """Figures of this node's controllers since the start of the process."""

    def __init__(self) -> None:
        self.started = 0  #: decisions on requests, and periodic tasks
        self.timed_out = 0  #: requests whose records were committed after their client gave up
        self.heartbeats_timed_out = 0  #: those of brokers among them
        self.processing = DurationStats()  #: of decisions, s
        self.new_controllers = 0  #: changes of the leader that this node has seen
        self._elections = Elections()  # by earlier controllers of this node
        self._seen = (-1, -1)

    def decided(self, seconds: float) -> None:
        """A decision, or the periodic tasks that were due, took ``seconds`` of processing, slices
        together.
        """
        self.started += 1
        self.processing.add(seconds)

    def too_late(self, requests: Iterable[Message]) -> None:
        """Count requests whose records were committed after they were answered with
        REQUEST_TIMED_OUT.
        """
        for request in requests:
            self.timed_out += 1
            self.heartbeats_timed_out += isinstance(request, BrokerHeartbeatRequest)

    def leader_is(self, epoch: int, leader_id: int) -> None:
        """Note the current leader; -1: none is known."""
        if leader_id >= 0 and (epoch, leader_id) != self._seen:
            self._seen = epoch, leader_id
            self.new_controllers += 1

    def elections(self, current: Elections) -> Elections:
        """Elections since the start; ``current`` are those of the active controller."""
        return Elections(
            self._elections.unclean + current.unclean, self._elections.eligible + current.eligible
        )

    def leads_no_more(self, current: Elections) -> None:
        """Keep the elections of a controller that is dropped."""
        self._elections = self.elections(current)


class ClusterCounts(NamedTuple):
    """Counts of one image. ``leaving_brokers``, those in controlled shutdown, are also counted as
    active or fenced.
    """

    active_brokers: int
    fenced_brokers: int
    leaving_brokers: int
    topics: int
    partitions: int
    offline_partitions: int
    imbalanced_partitions: int


class _TopicCounts(NamedTuple):
    partitions: int
    offline: int
    imbalanced: int
    size: int  #: bytes of the records and of the dictionary that has them


class ImageCounter:
    """Counts an image repeatedly, and only the topics that have changed since the last time.

    A delta replaces the partitions of each topic that it changes (``kwire.cluster``), so the
    identity of that object tells. A large cluster is counted in slices.
    """

    def __init__(self) -> None:
        #: Bytes of the partitions in the image as of the last count (about), without the lists that
        #: they share.
        self.image_bytes = 0
        self._topics: dict[Uuid, tuple[Mapping[int, PartitionRecord], _TopicCounts]] = {}

    def count(self, image: Image) -> Slices[ClusterCounts]:
        """Count brokers and partitions of ``image``, as of one moment."""
        known = self._topics
        now: dict[Uuid, tuple[Mapping[int, PartitionRecord], _TopicCounts]] = {}
        topics, brokers = len(image.topics), list(image.brokers.values())
        partitions_then = image.partitions.copy()
        looked_at = 0
        for topic_id, partitions in partitions_then.items():
            found = known.get(topic_id)
            if found is None or found[0] is not partitions:
                found = partitions, _topic_counts(partitions)
                looked_at += len(partitions)
            now[topic_id] = found
            looked_at += 1
            if looked_at >= _COUNTED_STEP:
                looked_at = 0
                yield
        self._topics = now
        fenced = sum(broker.fenced for broker in brokers)
        leaving = sum(broker.in_controlled_shutdown for broker in brokers)
        counts = [one for _, one in self._topics.values()]
        self.image_bytes = sum(one.size for one in counts)
        return ClusterCounts(
            len(brokers) - fenced,
            fenced,
            leaving,
            topics,
            sum(one.partitions for one in counts),
            sum(one.offline for one in counts),
            sum(one.imbalanced for one in counts),
        )


def _topic_counts(partitions: Mapping[int, PartitionRecord]) -> _TopicCounts:
    offline = imbalanced = 0
    for partition in partitions.values():
        leader, replicas = partition.leader, partition.replicas
        offline += leader == _NO_LEADER
        imbalanced += bool(replicas) and leader != replicas[0]
    size = sys.getsizeof(partitions) + len(partitions) * _RECORD_BYTES
    return _TopicCounts(len(partitions), offline, imbalanced, size)


class ControllerFacts:
    """Metrics of one node. ``controller`` returns the active controller if it is this node's."""

    def __init__(self, loader: MetadataLoader, controller: Callable[[], Controller | None]) -> None:
        self.measures: Final = ControllerMeasures()
        self._loader = loader
        self._controller = controller
        self._counter = ImageCounter()
        self._counted: tuple[tuple[int, ...], ClusterCounts] | None = None

    @property
    def is_active(self) -> bool:
        """True if this node is the active controller."""
        return self._controller() is not None

    @property
    def image_bytes(self) -> int:
        """Bytes of the partitions in the image as of the last :meth:`count`, about."""
        return self._counter.image_bytes

    @property
    def elections(self) -> Elections:
        """Elections that this node has made since its start."""
        controller = self._controller()
        return self.measures.elections(Elections() if controller is None else controller.elections)

    @property
    def errors(self) -> int:
        """Records that could not be applied since the start (``MetadataErrorCount``)."""
        return sum(self._loader.skipped.values())

    @property
    def applied_offset(self) -> int:
        """Offset of the last record that is applied to the image; -1: none."""
        return self._loader.next_offset - 1

    @property
    def committed_offset(self) -> int:
        """Offset of the last record that this node knows to be committed; -1: none."""
        return self._loader.high_watermark - 1

    @property
    def registrations(self) -> Iterator[tuple[int, int]]:
        """(broker id, value of ``BrokerRegistrationState``) of every registered broker."""
        for broker_id, broker in sorted(self._loader.image.brokers.items()):
            yield (
                broker_id,
                _FENCED
                if broker.fenced
                else _LEAVING
                if broker.in_controlled_shutdown
                else _ACTIVE,
            )

    @property
    def cluster(self) -> ClusterCounts:
        """Counts of the committed cluster as of the last :meth:`count`."""
        if self._counted is None:
            run(self.count())
            assert self._counted is not None, "it is counted"
        return self._counted[1]

    def count(self) -> Slices[None]:
        """Count the committed cluster again, if a record may have changed the counts."""
        loader = self._loader
        version = _image_version(loader.records, loader.snapshot_loads)
        if self._counted is None or self._counted[0] != version:
            self._counted = version, (yield from self._counter.count(loader.image))


#: Types of records that change none of the counts and may be frequent.
_WITHOUT_EFFECT: Final = frozenset(("NO_OP_RECORD", "PRODUCER_IDS_RECORD", "CONFIG_RECORD"))


def _image_version(records: Mapping[str, int], loads: int) -> tuple[int, ...]:
    """A value that differs whenever the counts may differ."""
    return loads, sum(records.values()) - sum(records.get(name, 0) for name in _WITHOUT_EFFECT)
