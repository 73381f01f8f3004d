"""Deletes the records of a partition that clients ask to delete, and answers when no replica has
them.

The time of a request is not its matter: who gives up has an answer of its own, and the records are
gone. Source: ``Partition.deleteRecordsOnLeader``, ``DelayedDeleteRecords``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from gateway.log.files.errors import LogError
from gateway.sources.partition_retention import start_at
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from gateway.sources.partition_jobs import PartitionJobs
    from gateway.sources.stored_log import StoredLog

_NOT_LEADER: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER
#: Hears the low watermark, or why the records are not deleted everywhere.
_OnDone = Callable[["int | ErrorCode"], None]


class PartitionDeletions:
    """The deletions in ``stored``, which are jobs of the partition."""

    def __init__(
        self,
        stored: StoredLog,
        jobs: PartitionJobs,
        leads: Callable[[], bool],
        low_watermark: Callable[[], int],
    ) -> None:
        """``leads`` returns whether this node leads the partition, in any thread; ``low_watermark``
        where the logs of all replicas begin, on the event loop while this node leads.
        """
        self._stored, self._jobs = stored, jobs
        self._leads, self._low_watermark = leads, low_watermark
        # By the first offset that is to be left. There are few.
        self._waiting: list[tuple[int, _OnDone]] = []

    def delete(self, before: int, on_done: _OnDone) -> None:
        """Delete the records below ``before``, and call ``on_done`` once on the event loop."""
        self._jobs.submit(partial(self._delete, before, on_done))

    def _delete(self, before: int, on_done: _OnDone) -> Callable[[], None]:
        log = self._stored.log
        if log is None or not self._leads():
            return partial(on_done, _NOT_LEADER)
        try:
            start_at(self._stored, log, before)
        except LogError as error:
            return partial(on_done, self._stored.failed(error).error)
        return partial(self._deleted, before, on_done)

    def _deleted(self, before: int, on_done: _OnDone) -> None:
        self._waiting.append((before, on_done))
        self.advance()

    def advance(self) -> None:
        """Answer the deletions that all replicas have made."""
        if not self._waiting or not self._leads():
            return
        low_watermark = self._low_watermark()
        waiting, self._waiting = self._waiting, []
        for start, on_done in waiting:
            if low_watermark >= start:
                on_done(low_watermark)
            else:
                self._waiting.append((start, on_done))

    def give_up(self) -> None:
        """Answer all: this node leads the partition no more."""
        waiting, self._waiting = self._waiting, []
        for _, on_done in waiting:
            on_done(_NOT_LEADER)
