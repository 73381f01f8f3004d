"""Moves the log of a partition to another log directory, as jobs of the partition."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from gateway.base.sizes import MIB
from gateway.log.files.errors import LogError

if TYPE_CHECKING:
    from gateway.log.files.offset_checkpoint import Checkpoints
    from gateway.log.partition.log_move import LogMove
    from gateway.sources.leader_appends import LeaderAppends
    from gateway.sources.partition_jobs import PartitionJobs
    from gateway.sources.stored_log import StoredLog

#: A longer active segment is closed before the last part is copied, for which appends wait.
_ACTIVE_MAX: Final = MIB


class PartitionMove:
    """The turns of a move at ``stored``; ``appends`` are those of the leader. All methods run on
    the event loop.
    """

    def __init__(self, stored: StoredLog, jobs: PartitionJobs, appends: LeaderAppends) -> None:
        self._stored = stored
        self._jobs = jobs
        self._appends = appends

    def begin(self, on_done: Callable[[int | None], None], *, roll: bool = False) -> None:
        """Call ``on_done`` with the base offset of the active segment, a new one with ``roll`` if
        it is long; None if the log is not open.
        """
        self._jobs.submit(partial(self._begin, roll, on_done))

    def _begin(self, roll: bool, on_done: Callable[[int | None], None]) -> Callable[[], None]:
        log = self._stored.writable
        if log is None:
            return partial(on_done, None)
        try:
            if roll and log.active_size > _ACTIVE_MAX:
                self._stored.roll()
        except LogError as error:
            self._stored.failed(error)
            return partial(on_done, None)
        return partial(on_done, log.bases[-1])

    def finish(
        self, made: LogMove, checkpoints: Checkpoints, on_done: Callable[[bool], None]
    ) -> None:
        """Put the copy in the place of the log; call ``on_done`` with whether it is there."""
        self._jobs.submit(partial(self._finish, made, checkpoints, on_done))

    def _finish(
        self, made: LogMove, checkpoints: Checkpoints, on_done: Callable[[bool], None]
    ) -> Callable[[], None]:
        is_moved = self._stored.move(made, checkpoints)
        log, epoch = self._stored.log, self._appends.epoch
        if log is not None and epoch is not None:
            with contextlib.suppress(LogError):  # the append notes the epoch, or says why not
                log.begin_epoch(epoch)
        return partial(on_done, is_moved)
