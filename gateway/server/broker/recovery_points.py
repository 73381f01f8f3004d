"""Brings the logs of partitions to disk in intervals, beside appends, and saves their recovery
points with one write: the next start reads what came since (``LogManager``).

Kafka saves them as often (``log.flush.offset.checkpoint.interval.ms``), and syncs a segment when
the next one begins.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import trio

from gateway.log.files.errors import LogError, SyncFailed
from gateway.server.broker.answers import answer

if TYPE_CHECKING:
    from gateway.log.partition.log_directories import LogDirectory
    from gateway.server.broker.log_manager import LogManager
    from gateway.server.logging.logs import Reports
    from gateway.sources.data_partition import DataPartition
    from gateway.sources.partition_checkpoint import PlannedCheckpoint

#: Kafka's default of ``log.flush.offset.checkpoint.interval.ms``, s.
INTERVAL_S: Final = 60.0


class Partitions(Protocol):
    """The partitions on this node (``ReplicaManager``)."""

    logs: LogManager

    @property
    def partitions(self) -> list[DataPartition]: ...

    def disk_failed(self, directory: LogDirectory, failure: LogError) -> None: ...


class RecoveryPoints:
    """:meth:`run` is the task."""

    def __init__(self, replicas: Partitions, reports: Reports) -> None:
        self._replicas = replicas
        self._reports = reports

    async def run(self) -> None:
        """Move the recovery points at each interval, for ever."""
        while True:
            await trio.sleep(INTERVAL_S)
            await self.move()

    async def move(self) -> None:
        """Move the recovery point of each log that has grown to its end, one log after another."""
        for partition in self._replicas.partitions:
            made = await answer(partition.checkpoint.plan)
            if made is not None:
                failure = await trio.to_thread.run_sync(_write, made)
                if failure is not None:
                    self._reports.report("partition not synced", error=str(failure))
                await answer(partial(partition.checkpoint.note, made, failure))
        for directory in self._replicas.logs.online:
            try:
                await trio.to_thread.run_sync(directory.saved.recovery_points.save)
            except LogError as error:
                # The next start reads more.
                self._reports.report("partition not synced", error=str(error))
                self._replicas.disk_failed(directory, error)


def _write(made: PlannedCheckpoint) -> SyncFailed | None:
    try:
        made.write()
    except SyncFailed as error:
        return error
    return None
