"""Moves logs to other log directories of this broker, one after another, while they are used
(``ReplicaAlterLogDirsManager``, KIP-113).
"""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING

import trio

from gateway.log.files.errors import LogError
from gateway.log.partition.log_move import LogMove
from gateway.server.broker.answers import answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.log.files.disk import Disk
    from gateway.log.partition.log_directories import LogDirectory
    from gateway.server.logging.logs import Reports
    from gateway.sources.data_partition import DataPartition


class LogMover:
    """:meth:`run` is the task. ``moved`` hears of a log that is in another directory; ``failed`` of
    an error of the disk of a directory.
    """

    def __init__(
        self,
        disk: Disk,
        reports: Reports,
        moved: Callable[[DataPartition, LogDirectory], None],
        failed: Callable[[LogDirectory, LogError], None],
    ) -> None:
        self._disk = disk
        self._reports = reports
        self._moved, self._failed = moved, failed
        #: Where each partition is to be.
        self.targets: dict[DataPartition, LogDirectory] = {}
        self._wake = trio.Event()

    def move(self, partition: DataPartition, directory: LogDirectory) -> None:
        """Have the log moved; one that is there already stays, and is moved nowhere else."""
        self.forget(partition)
        if partition.directory.parent != directory.path:
            self.targets[partition] = directory
            self._wake.set()

    def forget(self, partition: DataPartition) -> None:
        """The partition is deleted, or its log stays where it is."""
        self.targets.pop(partition, None)

    async def run(self) -> None:
        """Carry out the moves, for ever."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            while self.targets:
                partition, directory = next(iter(self.targets.items()))
                await self._move(partition, directory)
                if self.targets.get(partition) is directory:
                    del self.targets[partition]

    async def _move(self, partition: DataPartition, directory: LogDirectory) -> None:
        made = LogMove(partition.directory, directory.path, secrets.token_hex(16), self._disk)
        name, text = partition.directory.name, f"the log of {partition.directory.name} stays"
        try:
            is_moved = await self._carry_out(partition, directory, made)
            if not is_moved:
                await trio.to_thread.run_sync(made.drop)
        except LogError as error:
            is_moved, text = False, str(error)
            self._failed(directory, error)
        if is_moved:
            self._moved(partition, directory)
            self._reports.report("partition moved", partition=name, directory=str(directory.path))
        elif self.targets.get(partition) is directory:
            self._reports.report("partition not moved", error=text)

    async def _carry_out(
        self, partition: DataPartition, directory: LogDirectory, made: LogMove
    ) -> bool:
        """Copy the log, and use the copy; whether that is done. Raises LogError."""
        for roll in (False, True):
            active = await answer(partial(partition.moving.begin, roll=roll))
            if active is None:
                return False
            await trio.to_thread.run_sync(made.copy_closed, active)
            if self.targets.get(partition) is not directory or not directory.is_online:
                return False
        return await answer(partial(partition.moving.finish, made, directory.saved))
