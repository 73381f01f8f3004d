"""Tells the metrics of the committed cluster, which any server that reads the log has.

``gateway.sources.cluster_counts`` counts partitions; brokers are few and counted here, when metrics
are read. Follows Kafka's ``ControllerMetadataMetrics``. Does not import Prometheus.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.sources.cluster_counts import BrokerCounts, ClusterCounter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway.sources.cluster_counts import ClusterCounts
    from gateway.sources.metadata_loader import MetadataLoader

#: ``BrokerRegistrationState``.
FENCED, LEAVING, ACTIVE = 10, 20, 30
_NOTHING: Final = BrokerCounts()


class ClusterFacts:
    """Metrics of the image of ``loader``; none without a loader."""

    def __init__(self, loader: MetadataLoader | None) -> None:
        self.counter = ClusterCounter()
        self._loader = loader
        if loader is not None:
            loader.subscribe(self.counter.on_update, self.counter.prepare)

    @property
    def loader(self) -> MetadataLoader | None:
        """The loader, once its image is loaded and counted."""
        return None if self.counts is None else self._loader

    @property
    def counts(self) -> ClusterCounts | None:
        """Counts of partitions and elections."""
        return self.counter.published

    @property
    def errors(self) -> int | None:
        """Records that could not be applied since the start (``MetadataErrorCount``)."""
        loader = self.loader
        return None if loader is None else sum(loader.skipped.values())

    @property
    def image_lacks(self) -> str | None:
        """A clause about the part of the log that the image lacks; None: there is none."""
        return None if self._loader is None else self._loader.lacks

    @property
    def applied_offset(self) -> int | None:
        """Offset of the last record that is applied to the image; -1: none."""
        loader = self.loader
        return None if loader is None else loader.next_offset - 1

    @property
    def committed_offset(self) -> int | None:
        """Offset of the last record that this node knows to be committed; -1: none."""
        loader = self.loader
        return None if loader is None else loader.high_watermark - 1

    def by_broker(self) -> Iterator[tuple[int, BrokerCounts]]:
        """Counts of every broker that is registered or has replicas."""
        loader, counted = self.loader, self.counts
        if loader is not None and counted is not None:
            counts = counted.brokers
            for broker_id in sorted(counts.keys() | loader.image.brokers.keys()):
                yield broker_id, counts.get(broker_id, _NOTHING)

    def registrations(self) -> Iterator[tuple[int, int]]:
        """(broker id, value of ``BrokerRegistrationState``) of every registered broker."""
        loader = self.loader
        for broker_id, broker in sorted(loader.image.brokers.items()) if loader else ():
            state = LEAVING if broker.in_controlled_shutdown else ACTIVE
            yield broker_id, FENCED if broker.fenced else state

    def brokers(self, fenced: bool | None = None) -> int | None:
        """The number of brokers that are fenced or not; of those in controlled shutdown for
        None, which are also one of the others.
        """
        loader = self.loader
        if loader is None:
            return None
        return sum(
            broker.in_controlled_shutdown if fenced is None else broker.fenced is fenced
            for broker in loader.image.brokers.values()
        )
