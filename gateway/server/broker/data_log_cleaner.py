"""Compacts the logs of topics with ``cleanup.policy=compact``, in a task: the one with the largest
part to clean first (``LogCleaner``).

There is one thread, whatever ``log.cleaner.threads`` says, and it works half of the time: it shares
the interpreter with the event loop.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import trio

from gateway.base.wall_clock import wall_ms
from gateway.log.cleaner.cleaner import Cleaner
from gateway.log.files.disk import doing
from gateway.log.files.errors import LogError
from gateway.server.broker.answers import answer

if TYPE_CHECKING:
    from gateway.log.files.disk import Disk
    from gateway.server.broker.cleaner_settings import CleanerSettings
    from gateway.server.logging.logs import Reports
    from gateway.sources.data_partition import DataPartition
    from gateway.sources.partition_compaction import Plan

#: The thread works for so long before it pauses for as long, s.
_TURN_S: Final = 0.02
#: How often the cleaner looks for work before there is an image, s.
_START_S: Final = 1.0


class CompactedReplicas(Protocol):
    """The partitions on this node (``ReplicaManager``)."""

    @property
    def partitions(self) -> list[DataPartition]: ...
    @property
    def cleaner_settings(self) -> CleanerSettings | None: ...


class DataLogCleaner:
    """:meth:`run` is the task."""

    def __init__(self, replicas: CompactedReplicas, disk: Disk, reports: Reports) -> None:
        self._replicas = replicas
        self._disk = disk
        self._reports = reports
        # As in Kafka, until the next start: the same fault would be met again.
        self._uncleanable: set[DataPartition] = set()
        #: When the cleaner last looked for work, on the clock of the event loop (s).
        self.looked_at: float | None = None
        #: The largest ratio of what was not clean in a log then (``max-dirty-percent``).
        self.max_dirty_ratio = 0.0

    @property
    def uncleanable_count(self) -> int:
        """Partitions that are compacted no more before the next start."""
        return len(self._uncleanable)

    async def run(self) -> None:
        """Look for work at each interval (``log.cleaner.backoff.ms``), for ever."""
        while True:
            settings = self._replicas.cleaner_settings
            await trio.sleep(_START_S if settings is None else settings.backoff_ms / 1000)
            while await self.clean_once(wall_ms()):
                pass

    async def clean_once(self, now_ms: int) -> bool:
        """Compact the logs for which it is time; whether there were any."""
        plans: list[tuple[DataPartition, Plan]] = []
        max_dirty_ratio = 0.0
        partitions = self._replicas.partitions
        self._uncleanable &= set(partitions)
        for partition in partitions:
            if partition.compaction.is_wanted and partition not in self._uncleanable:
                made = await answer(partial(partition.compaction.plan, now_ms))
                max_dirty_ratio = max(max_dirty_ratio, partition.compaction.dirty_ratio)
                if made is not None:
                    plans.append((partition, made))
        self.looked_at, self.max_dirty_ratio = trio.current_time(), max_dirty_ratio
        plans.sort(key=lambda one: one[1].cleanable.ratio, reverse=True)
        for partition, made in plans:
            try:
                await self._clean(partition, made)
            except LogError as error:
                if not partition.compaction.is_wanted or partition.stored.log is not made.log:
                    continue  # it was deleted or moved meanwhile
                self._uncleanable.add(partition)
                self._reports.report("partition not compacted", error=str(error))
        return any(partition not in self._uncleanable for partition, _ in plans)

    async def _clean(self, partition: DataPartition, made: Plan) -> None:
        """Carry out a plan. Raises LogError."""
        settings = self._replicas.cleaner_settings
        assert settings is not None, "partitions come from an image"
        cleaner = Cleaner(made.compaction, self._disk, settings.dedupe_buffer_bytes)
        await _work(cleaner.map_keys(), made)
        for group in cleaner.groups:
            await _work(cleaner.clean(group), made)
            bases = [one.base_offset for one in group]
            if not await answer(partial(partition.compaction.take, made, bases)):
                return  # the log has changed: the next round begins with what it is now
        await answer(partial(partition.compaction.note, cleaner.end))
        self._reports.report(
            "partition compacted",
            partition=partition.directory.name,
            up_to=cleaner.end,
            bytes=made.cleanable.clean_bytes + made.cleanable.dirty_bytes,
        )


async def _work(steps: Iterator[None], made: Plan) -> None:
    """Do all steps in a thread, with pauses."""
    while await trio.to_thread.run_sync(_turn, steps, made):  # noqa: ASYNC110 (a pause)
        await trio.sleep(_TURN_S)


def _turn(steps: Iterable[None], made: Plan) -> bool:
    """Do some steps; whether there are more."""
    until = time.monotonic() + _TURN_S
    with doing("compact", made.log.directory):
        for _ in steps:
            if time.monotonic() >= until:
                return True
    return False
