"""Bounds the size of a quorum's local log: writes snapshots when they are due and deletes the
segments and snapshots that they replace.

When a snapshot is due is decided as by Kafka's ``SnapshotGenerator``, and cleaning runs as often as
its ``RaftMetadataLogCleanerManager``. ``gateway.sources`` and ``gateway.log`` read and write the
files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import trio

from gateway.base.wall_clock import wall_ms
from gateway.log.files.errors import LogError
from gateway.ports.services import SourceStopped
from gateway.server.quorum.log_failures import may_pass, stopped_by

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.server.logging.logs import Reports
    from gateway.sources.metadata_loader import MetadataLoader
    from gateway.sources.snapshot_generator import SnapshotGenerator
    from kwire.metadata_log.snapshot_id import SnapshotId

#: Interval at which the cleaner checks whether a snapshot is due, s.
_CHECK_S: Final = 1.0
#: Interval between two cleanings (that of ``RaftMetadataLogCleanerManager``), s.
_CLEAN_S: Final = 60.0
#: Delay after an unexpected exception, s: a snapshot may take minutes to fail.
_BUG_DELAY_S: Final = 60.0


class OwnSnapshot(NamedTuple):
    """The newest snapshot that this node wrote: bytes, and when, s on the event loop's clock."""

    size: int
    made_at: float


class CleanableLog(Protocol):
    """The local log of a quorum. ``clean`` runs in a thread and returns the names of deleted files;
    ``publish`` makes the result visible to readers, on the event loop.
    """

    @property
    def committed(self) -> int: ...
    def clean(self, now_ms: int) -> list[str]: ...
    def publish(self) -> object: ...


class LogCleaner:
    """Writes snapshots and cleans the log in one task, :meth:`run`. A task that changes the log
    holds ``disk``.
    """

    def __init__(
        self,
        snapshots: SnapshotGenerator,
        loader: MetadataLoader,
        source: CleanableLog,
        disk: trio.Lock,
        reports: Reports,
        *,
        written: Callable[[SnapshotId], None] = lambda snapshot_id: None,
        cleaned: Callable[[], None] = lambda: None,
    ) -> None:
        """``written`` is called on the event loop when a snapshot is complete, ``cleaned`` when
        files were deleted.
        """
        self.own_snapshot: OwnSnapshot | None = None  #: the newest one written since the start
        self._lacked: str | None = None  # what the image lacked when that was last reported
        self._snapshots = snapshots
        self._loader = loader
        self._source = source
        self._disk = disk
        self._reports = reports
        self._written = written
        self._cleaned = cleaned

    async def run(self) -> None:
        """Write snapshots and clean, for ever. Raises SourceStopped if the log cannot be used.

        When the task is cancelled, a snapshot that is being written is given up: it may take longer
        than a server may take to stop.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._cancel_at_end)
            await self._run()

    async def _cancel_at_end(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            self._snapshots.cancel()

    async def _run(self) -> None:
        clean_at = trio.current_time()
        while True:
            try:
                now = trio.current_time()
                if (
                    self._loader.loaded
                    and self._snapshots.due(self._loader.log_bytes, now)
                    and self._is_whole()
                    and await self._write(now)
                ):
                    clean_at = now
                if now >= clean_at:
                    clean_at = now + _CLEAN_S
                    await self._clean()
            except SourceStopped:
                raise
            except Exception as error:  # a bug; clients can still fetch the log, which grows
                self._reports.bug("log cleaning failed", error)
                await trio.sleep(_BUG_DELAY_S)
            await trio.sleep(_CHECK_S)

    def _is_whole(self) -> bool:
        """Whether the image may become a snapshot. Without what it lacks, a snapshot would lose
        that for every node that begins with it; what it lacks is reported once.
        """
        lacks = self._loader.lacks
        if lacks is not None and lacks != self._lacked:
            self._reports.report(
                "snapshot not written", error=f"a snapshot would not be the whole log: {lacks}"
            )
        self._lacked = lacks
        return lacks is None

    async def _write(self, now: float) -> bool:
        """Write a snapshot; False if it was not written."""
        snapshots = self._snapshots
        written = await trio.to_thread.run_sync(
            snapshots.write,
            self._source.committed,
            self._loader.log_bytes,
            now,
            self._loader.capture(),
        )
        if written is None:
            self._reports.report("snapshot not written", error=snapshots.problem)
            return False
        self.own_snapshot = OwnSnapshot(written.size, trio.current_time())
        self._written(written.snapshot_id)
        name = written.snapshot_id.file_name
        self._reports.report(
            "snapshot written", snapshot=name, bytes=written.size, records=written.records
        )
        return True

    async def _clean(self) -> None:
        try:
            async with self._disk:
                try:
                    deleted = await trio.to_thread.run_sync(self._source.clean, wall_ms())
                finally:
                    self._source.publish()
        except LogError as error:
            if not may_pass(error):
                raise stopped_by(error) from None
            self._reports.report("log not cleaned", error=str(error))
        else:
            if deleted:
                self._cleaned()
                self._reports.report("log cleaned", deleted=deleted)
