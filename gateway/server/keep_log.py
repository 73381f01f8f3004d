"""Keeps the local copy of a quorum's log from growing for ever: snapshots when due, and what they
make obsolete goes.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Protocol

import trio

from gateway.log.errors import LogError
from gateway.ports import SourceStopped
from gateway.server.log_failures import may_pass, stopped_by
from gateway.server.management.facts import OwnSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.server.logs import Reports
    from gateway.snapshot_id import SnapshotId
    from gateway.sources.metadata_loader import MetadataLoader
    from gateway.sources.snapshot_generator import SnapshotGenerator

#: Between two looks at whether a snapshot is due, s.
_LOOK_S: Final = 1.0
#: Between two looks for what is too old or too much (``RaftMetadataLogCleanerManager`` looks as
#: often), s.
_CLEAN_S: Final = 60.0
#: After a failure that nobody foresaw, s: a snapshot may take minutes to fail.
_BUG_DELAY_S: Final = 60.0


class KeptLog(Protocol):
    """The local log of a quorum: ``clean`` runs in a thread, ``publish`` shows on the loop what it
    left.
    """

    @property
    def committed(self) -> int: ...
    def clean(self, now_ms: int) -> list[str]: ...
    def publish(self) -> object: ...


class LogCleaner:
    """One task, :meth:`run`. ``disk`` is held by who changes the log."""

    def __init__(
        self,
        snapshots: SnapshotGenerator,
        keeper: MetadataLoader,
        source: KeptLog,
        disk: trio.Lock,
        reports: Reports,
        *,
        written: Callable[[SnapshotId], None] = lambda snapshot_id: None,
        cleaned: Callable[[], None] = lambda: None,
    ) -> None:
        """``written`` and ``cleaned`` are called on the loop when a snapshot is complete, when
        something was deleted.
        """
        self.own_snapshot: OwnSnapshot | None = None  #: the newest one made here since the start
        self._snapshots = snapshots
        self._image = keeper
        self._source = source
        self._disk = disk
        self._reports = reports
        self._written = written
        self._cleaned = cleaned

    async def run(self) -> None:
        """Write and clean for ever. Raises SourceStopped when the log is beyond repair."""
        clean_at = trio.current_time()
        while True:
            try:
                now = trio.current_time()
                if (
                    self._image.loaded
                    and self._snapshots.due(self._image.log_bytes, now)
                    and await self._write(now)
                ):
                    clean_at = now
                if now >= clean_at:
                    clean_at = now + _CLEAN_S
                    await self._clean()
            except SourceStopped:
                raise
            except Exception as error:  # a bug of ours: the log is served all the same, and grows
                self._reports.bug("log cleaning failed", error)
                await trio.sleep(_BUG_DELAY_S)
            await trio.sleep(_LOOK_S)

    async def _write(self, now: float) -> bool:
        """A snapshot; false if there is none to be written now."""
        snapshots = self._snapshots
        written = await trio.to_thread.run_sync(
            snapshots.write, self._source.committed, self._image.log_bytes, now
        )
        if written is None:
            self._reports.report(
                "snapshot not written", error=snapshots.disabled or snapshots.problem
            )
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
                    deleted = await trio.to_thread.run_sync(
                        self._source.clean, time.time_ns() // 1_000_000
                    )
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
