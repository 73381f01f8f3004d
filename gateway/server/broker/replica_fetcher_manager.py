"""Gives each partition that another broker leads to the fetcher of that broker, as the image says
(``ReplicaFetcherManager``). It fetches nothing itself.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from gateway.base.slices import pieces
from gateway.server.broker.broker_connection import broker_address
from gateway.server.broker.replica_fetcher import FetcherContext, ReplicaFetcher, Source

if TYPE_CHECKING:
    from gateway.base.address import Address
    from gateway.sources.data_partition import DataPartition
    from kwire.cluster import Image
    from kwire.messages.partition_record import PartitionRecord

#: Partitions whose lag is looked at between other tasks.
_SLICE: Final = 1000


class _Assignment(NamedTuple):
    """The leader of a partition, and its epoch; ``fetcher`` once the log is open."""

    leader: int
    epoch: int
    fetcher: ReplicaFetcher | None = None


class ReplicaFetcherManager:
    """The fetchers, one for each broker that leads partitions of this one; :meth:`run` is the
    task.
    """

    def __init__(self, context: FetcherContext) -> None:
        self._context = context
        self._image: Image | None = None
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._assigned: dict[DataPartition, _Assignment] = {}
        self._new: list[ReplicaFetcher] = []
        self._wake = trio.Event()
        #: The largest lag of a partition that is fetched, records, at the last look; 0 without any
        #: (``MaxLag``).
        self.max_lag = 0

    async def look_at_lag(self) -> None:
        """Find out ``max_lag``."""
        lag = 0
        for fetcher in tuple(self._fetchers.values()):
            for some in pieces(fetcher.core.partitions, _SLICE):
                lag = max(lag, *(one.lag for one in some))
                await trio.lowlevel.checkpoint()
        self.max_lag = lag

    def on_image(self, image: Image) -> None:
        """Take the addresses of brokers from ``image`` from now on."""
        self._image = image

    def follow(self, partition: DataPartition, record: PartitionRecord) -> None:
        """Have a partition fetched from its leader, if it has one, as soon as its log is open. An
        unchanged leader epoch changes nothing.
        """
        known = self._assigned.get(partition)
        if known is not None and known[:2] == (record.leader, record.leader_epoch):
            return
        self.unfollow(partition)
        if record.leader >= 0:
            assigned = _Assignment(record.leader, record.leader_epoch)
            self._assigned[partition] = assigned
            partition.when_open(partial(self._begin, partition, assigned))

    def unfollow(self, partition: DataPartition) -> None:
        """Have a partition fetched no more."""
        known = self._assigned.pop(partition, None)
        if known is not None and known.fetcher is not None:
            known.fetcher.unfollow(partition)

    def retry(self, partition: DataPartition) -> None:
        """A log may be open that was not."""
        known = self._assigned.get(partition)
        if known is not None and known.fetcher is None:
            self._begin(partition, known)

    def _begin(self, partition: DataPartition, assigned: _Assignment) -> None:
        """The log of a partition has done what was to do before it is fetched."""
        if self._assigned.get(partition) is not assigned or partition.follower.position is None:
            return
        fetcher = self._fetcher_of(assigned.leader)
        self._assigned[partition] = assigned._replace(fetcher=fetcher)
        fetcher.follow(partition, assigned.epoch)

    def _fetcher_of(self, broker_id: int) -> ReplicaFetcher:
        found = self._fetchers.get(broker_id)
        if found is None:
            source = Source(broker_id, partial(self._address, broker_id))
            found = self._fetchers[broker_id] = ReplicaFetcher(source, self._context)
            self._new.append(found)
            self._wake.set()
        return found

    def _address(self, broker_id: int) -> Address | None:
        return broker_address(broker_id, self._context.settings.brokers.listener, self._image)

    async def run(self) -> None:
        """Run the fetchers, for ever."""
        async with trio.open_nursery() as nursery:
            while True:
                new, self._new = self._new, []
                for fetcher in new:
                    nursery.start_soon(fetcher.run)
                await self._wake.wait()
                self._wake = trio.Event()
