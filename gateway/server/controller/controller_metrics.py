"""What there is to see of the controller of one node of our own quorum, under Kafka's names
(``ControllerMetadataMetrics``, ``QuorumControllerMetrics``): figures of the committed cluster,
which every node has, and of what this node decided while it led.

Knows no Prometheus. Nothing is counted for the first kind until somebody looks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.controller.partition_index import Elections
from gateway.server.duration_stats import DurationStats
from kwire.messages.broker_heartbeat_request import BrokerHeartbeatRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from gateway.controller.controller import Controller
    from gateway.sources.metadata_loader import MetadataLoader
    from kwire.cluster import Image
    from kwire.message import Message
    from kwire.messages.partition_record import PartitionRecord
    from kwire.uuid import Uuid

_NO_LEADER: Final = -1
#: ``BrokerRegistrationState``.
_FENCED, _LEAVING, _ACTIVE = 10, 20, 30


class ControllerMeasures:
    """What a node's controller has done since the start of the process; another leader's decisions
    are not in here.
    """

    def __init__(self) -> None:
        self.started = 0  #: operations that were decided on, asked for or not
        self.timed_out = 0  #: requests whose answer came when nobody waited any more
        self.heartbeats_timed_out = 0  #: those of brokers among them
        self.processing = DurationStats()  #: deciding, s
        self.new_controllers = 0  #: leaders that this node has seen come, itself included
        self._elections = Elections()  # by controllers that lead no more
        self._seen = (-1, -1)

    def decided(self, seconds: float) -> None:
        """A decision, or the periodic tasks that were due, took ``seconds`` of processing, slices
        together.
        """
        self.started += 1
        self.processing.add(seconds)

    def too_late(self, requests: Iterable[Message]) -> None:
        """What these asked for is committed, and they have been answered with REQUEST_TIMED_OUT
        before.
        """
        for request in requests:
            self.timed_out += 1
            self.heartbeats_timed_out += isinstance(request, BrokerHeartbeatRequest)

    def leader_is(self, epoch: int, leader_id: int) -> None:
        """As this node sees it now; -1: nobody leads."""
        if leader_id >= 0 and (epoch, leader_id) != self._seen:
            self._seen = epoch, leader_id
            self.new_controllers += 1

    def elections(self, lately: Elections) -> Elections:
        """All of them; ``lately`` are those of the controller that leads now."""
        return Elections(
            self._elections.unclean + lately.unclean, self._elections.eligible + lately.eligible
        )

    def leads_no_more(self, lately: Elections) -> None:
        """The controller that made these is let go of."""
        self._elections = self.elections(lately)


class ClusterCounts(NamedTuple):
    """Of one image. Brokers in controlled shutdown are counted once more by what they are besides:
    active, or fenced by now.
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


class Counting:
    """Counts one image again and again. A topic whose partitions are the same object as before has
    not changed (``Delta``), so that a look at a large cluster does not hold up the loop for all of
    it.
    """

    def __init__(self) -> None:
        self._topics: dict[Uuid, tuple[Mapping[int, PartitionRecord], _TopicCounts]] = {}

    def count(self, image: Image) -> ClusterCounts:
        """Of every broker and partition."""
        known = self._topics
        self._topics = {
            topic_id: found
            if (found := known.get(topic_id)) is not None and found[0] is partitions
            else (partitions, _of(partitions))
            for topic_id, partitions in image.partitions.items()
        }
        brokers = image.brokers.values()
        fenced = sum(broker.fenced for broker in brokers)
        leaving = sum(broker.in_controlled_shutdown for broker in brokers)
        counts = [one for _, one in self._topics.values()]
        return ClusterCounts(
            len(brokers) - fenced,
            fenced,
            leaving,
            len(image.topics),
            sum(one.partitions for one in counts),
            sum(one.offline for one in counts),
            sum(one.imbalanced for one in counts),
        )


def _of(partitions: Mapping[int, PartitionRecord]) -> _TopicCounts:
    offline = imbalanced = 0
    for partition in partitions.values():
        leader, replicas = partition.leader, partition.replicas
        offline += leader == _NO_LEADER
        imbalanced += bool(replicas) and leader != replicas[0]
    return _TopicCounts(len(partitions), offline, imbalanced)


class ControllerFacts:
    """Of one node. ``controller`` gives the active one, where that is this node's."""

    def __init__(self, keeper: MetadataLoader, controller: Callable[[], Controller | None]) -> None:
        self.measures: Final = ControllerMeasures()
        self._keeper = keeper
        self._controller = controller
        self._counting = Counting()
        self._counted: tuple[tuple[int, ...], ClusterCounts] | None = None

    @property
    def is_active(self) -> bool:
        """Does this node decide?"""
        return self._controller() is not None

    @property
    def elections(self) -> Elections:
        """Decided by this node since its start."""
        controller = self._controller()
        return self.measures.elections(Elections() if controller is None else controller.elections)

    @property
    def errors(self) -> int:
        """Records of the log that could not be folded since the start (``MetadataErrorCount``)."""
        return sum(self._keeper.skipped.values())

    @property
    def applied_offset(self) -> int:
        """Of the last record that the image has; -1: none."""
        return self._keeper.next_offset - 1

    @property
    def committed_offset(self) -> int:
        """Of the last record that is committed, as far as this node knows; -1: none."""
        return self._keeper.high_watermark - 1

    @property
    def registrations(self) -> Iterator[tuple[int, int]]:
        """(broker, what it is as ``BrokerRegistrationState`` has it) of every broker that is
        registered.
        """
        for broker_id, broker in sorted(self._keeper.image.brokers.items()):
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
        """Of what is committed. Counted again only when a record has come that may change it."""
        keeper = self._keeper
        state = _changes(keeper.records, keeper.snapshot_loads)
        if self._counted is None or self._counted[0] != state:
            self._counted = state, self._counting.count(keeper.image)
        return self._counted[1]


#: Records of the log that change none of the counts, but may be many: as the keeper names them.
_IDLE: Final = frozenset(("NO_OP_RECORD", "PRODUCER_IDS_RECORD", "CONFIG_RECORD"))


def _changes(records: Mapping[str, int], loads: int) -> tuple[int, ...]:
    """Another one whenever the counts may be others."""
    return loads, sum(records.values()) - sum(records.get(name, 0) for name in _IDLE)
