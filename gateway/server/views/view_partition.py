"""Serves one view as ``gateway.ports.services.Partition``, with the offsets of
``kwire.cluster.view_offsets``.

The end of a view is that of the metadata log. A reader that has no record up to there gets a
control batch at the end, which clients skip, so that its position and its lag are those of the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.ports.services import (
    AbortedTransaction,
    Isolation,
    OffsetAt,
    OffsetOutOfRange,
    Read,
    State,
)
from gateway.ports.view_topics import VIEW_TOPICS, VIEWS, view_topic
from gateway.server.views.view_maker import ViewMaker
from gateway.sources.unreplicated import Unreplicated
from gateway.views.encode import end_marker_batch
from kwire.cluster import view_offsets as offsets

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gateway.config.config import Config
    from gateway.server.logging.logs import Reports
    from gateway.server.scheduling.counts import ViewCounts
    from gateway.sources.log_partition import LogPartition


class ViewPartition(Unreplicated):
    """The partition of a view topic. A read returns cached batches, and requests the ones that are
    missing.
    """

    size_bytes: Final = 0

    def __init__(self, view: str, maker: ViewMaker) -> None:
        self._view = view
        self._maker = maker
        self._log = maker.partition

    @property
    def state(self) -> State:
        """That of the metadata log; BROKEN where a record cannot be shown in a view."""
        return State.BROKEN if self._maker.failed else self._log.state

    @property
    def cluster_id(self) -> str:
        """The id of the cluster."""
        return self._log.cluster_id

    @property
    def log_dir(self) -> str:
        """The directory of the metadata log: a view has no files."""
        return self._log.log_dir

    @property
    def leader_epoch(self) -> int:
        """That of the metadata log."""
        return self._log.leader_epoch

    @property
    def log_start_offset(self) -> int:
        """Where the state of the snapshot begins that the log starts with; else 0."""
        return self._maker.start

    @property
    def high_watermark(self) -> int:
        """The end of the metadata log, as an offset of the view."""
        return offsets.at(self._log.high_watermark)

    def visible_end(self, isolation: Isolation) -> int:
        """As that of the metadata log."""
        return offsets.at(self._log.visible_end(isolation))

    def read(
        self, offset: int, max_bytes: int, isolation: Isolation = Isolation.HIGH_WATERMARK
    ) -> Read:
        """As in ``gateway.ports.services.Partition``; empty as long as the batches are not made."""
        self._check(offset)
        found = self._maker.read(self._view, offset, max_bytes)
        batches, size = found.batches, found.size
        if not batches and found.end > offset:
            batches = [end_marker_batch(found.end, self.epoch_at(found.end - 1))]
            size = len(batches[0])
        return Read(batches, size, _nothing)

    def read_committed(
        self, offset: int, max_bytes: int
    ) -> tuple[Read, Sequence[AbortedTransaction]]:
        """As ``read``: there are no transactions."""
        return self.read(offset, max_bytes), ()

    def bytes_available(
        self, offset: int, limit: int, isolation: Isolation = Isolation.HIGH_WATERMARK
    ) -> int:
        """As in ``gateway.ports.services.Partition``. A control batch without records does not
        count: a Fetch returns it when its time is over.
        """
        self._check(offset)
        return min(limit, self._maker.collect(self._view, offset, limit).size)

    def _check(self, offset: int) -> None:
        first, end = self.log_start_offset, self.high_watermark
        if not first <= offset <= end or self.state is State.LOADING:
            raise OffsetOutOfRange(f"{offset} is not within {first} to {end}")
        if offsets.is_inside_snapshot(offset, self._log.snapshot_end):
            raise OffsetOutOfRange(
                f"{offset} is within a snapshot that the log does not begin with"
            )

    def offset_for_timestamp(self, timestamp: int) -> OffsetAt | None:
        """The offset of the first record of the metadata log at ``timestamp`` or later: the next
        record of the view is at that offset or behind it.
        """
        return self._in_view(self._log.offset_for_timestamp(timestamp))

    def max_timestamp(self) -> OffsetAt | None:
        """The offset of the metadata log's record with the largest timestamp."""
        return self._in_view(self._log.max_timestamp())

    def _in_view(self, found: OffsetAt | None) -> OffsetAt | None:
        if found is None:
            return None
        offset = max(offsets.at(found.offset), self.log_start_offset)
        return OffsetAt(offset, found.timestamp, found.leader_epoch)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """As in ``gateway.ports.services.Partition``: epochs are those of the metadata log."""
        found, end = self._log.end_offset_for_epoch(epoch)
        return (found, end) if end < 0 else (found, max(offsets.at(end), self.log_start_offset))

    def epoch_at(self, offset: int) -> int:
        """The epoch of the metadata log's record behind ``offset``, -1 outside the view."""
        if not self.log_start_offset <= offset < self.high_watermark:
            return -1
        return self._log.epoch_at(offsets.log_offset(offset))

    def on_advance(self, callback: Callable[[], None]) -> Callable[[], None]:
        """As in ``Partition``; also when batches were made that a read missed."""
        unsubscribe = self._log.on_advance(callback), self._maker.on_made(callback)

        def unsubscribe_both() -> None:
            for one in unsubscribe:
                one()

        return unsubscribe_both


class ViewTopics:
    """``gateway.ports.services.Views``: the view topics of this server."""

    def __init__(self, maker: ViewMaker, *, listed: bool) -> None:
        self._maker = maker
        self.listed: Final = listed
        self._partitions = {view_topic(view): ViewPartition(view, maker) for view in VIEWS}
        assert self._partitions.keys() == VIEW_TOPICS.keys()

    @property
    def available(self) -> bool:
        """Whether the metadata log leads to a state that views can show."""
        return self._maker.available

    async def run(self, counts: ViewCounts) -> None:
        """Make the batches that readers ask for, for ever, and bring ``counts`` up to date."""
        self._maker.counts = counts
        await self._maker.run()

    def partition(self, topic: str) -> ViewPartition:
        """Return the partition of a view topic."""
        return self._partitions[topic]


def view_topics_of(config: Config, partition: LogPartition, reports: Reports) -> ViewTopics | None:
    """Return the view topics over ``partition``; None if ``config`` disables them."""
    if not config.metadata_views_enable:
        return None
    maker = ViewMaker(
        partition,
        reports,
        cache_bytes=config.metadata_views_cache_bytes,
        schemas=config.metadata_views_schemas_enable,
    )
    return ViewTopics(maker, listed=config.metadata_views_list)


def _nothing() -> None:
    """Release nothing: the batches are in memory."""
