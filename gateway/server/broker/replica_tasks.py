"""Does what the partitions on this broker need regularly: retention, followers that lag, the high
watermarks on disk (``LogManager``, ``ReplicaManager``: the threads ``kafka-log-retention``,
``isr-expiration`` and ``highwatermark-checkpoint``), and the lag of this broker for its metrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from gateway.base.wall_clock import wall_ms
from gateway.log.files.errors import LogError

if TYPE_CHECKING:
    from gateway.log.partition.log_directories import LogDirectory
    from gateway.server.broker.replica_manager import ReplicaManager
    from gateway.server.logging.logs import Reports

#: ``replica.high.watermark.checkpoint.interval.ms``, in s.
_CHECKPOINT_S: Final = 5.0
#: Between looks at how far this broker lags behind leaders, s.
_LAG_S: Final = 5.0


class ReplicaTasks:
    """:meth:`run` runs all tasks."""

    def __init__(
        self,
        replicas: ReplicaManager,
        reports: Reports,
        retention_check_s: float,
        lag_s: float,
    ) -> None:
        """``lag_s``: ``replica.lag.time.max.ms``."""
        self._replicas = replicas
        self._reports = reports
        self._retention_check_s = retention_check_s
        self._lag_s = lag_s

    async def run(self) -> None:
        """Run all tasks until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._clean)
            nursery.start_soon(self._check_lag)
            nursery.start_soon(self._follow_brokers)
            nursery.start_soon(self._save_high_watermarks)
            nursery.start_soon(self._look_at_lag)

    async def _clean(self) -> None:
        """Have all partitions cleaned at each interval (``log.retention.check.interval.ms``)."""
        while True:
            await trio.sleep(self._retention_check_s)
            for partition in self._replicas.partitions:
                partition.clean(wall_ms())
                await trio.lowlevel.checkpoint()

    async def _check_lag(self) -> None:
        """Have followers leave the ISR that lag for too long."""
        while True:
            await trio.sleep(self._lag_s / 2)
            for partition in self._replicas.partitions:
                partition.check_replicas(trio.current_time())
                await trio.lowlevel.checkpoint()

    async def _follow_brokers(self) -> None:
        """Have followers join the ISR whose broker was not active when they had everything."""
        while True:
            await self._replicas.brokers_changed()
            for partition in self._replicas.partitions:
                partition.check_replicas()
                await trio.lowlevel.checkpoint()

    async def _look_at_lag(self) -> None:
        while True:
            await trio.sleep(_LAG_S)
            await self._replicas.fetchers.look_at_lag()

    async def _save_high_watermarks(self) -> None:
        while True:
            await trio.sleep(_CHECKPOINT_S)
            for partition in self._replicas.partitions:
                partition.note_high_watermark()
                await trio.lowlevel.checkpoint()
            for directory in self._replicas.logs.online:
                failure = await trio.to_thread.run_sync(self._save, directory)
                if failure is not None:
                    self._not_saved(directory, failure)

    def save_high_watermarks(self) -> None:
        """Write the high watermarks as they are now: the logs are about to be closed."""
        for partition in self._replicas.partitions:
            partition.note_high_watermark()
        for directory in self._replicas.logs.online:
            failure = self._save(directory)
            if failure is not None:
                self._not_saved(directory, failure)

    @staticmethod
    def _save(directory: LogDirectory) -> LogError | None:
        try:
            directory.saved.high_watermarks.save()
        except LogError as error:
            return error
        return None

    def _not_saved(self, directory: LogDirectory, failure: LogError) -> None:
        self._reports.report("high watermarks not saved", error=str(failure))
        self._replicas.disk_failed(directory, failure)
