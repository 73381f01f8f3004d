"""Writes an audit entry for each change before the change is answered, and shows it to consumers
once it is on disk.

The event loop writes an entry to the page cache: for a few hundred bytes, handing it to a thread
would cost more than the write. A thread syncs, rolls and deletes segments. A sync is delayed so
that many changes share it, and runs beside the writes; changes wait while a segment is rolled or
deleted. A failed write loses the entry of a change, but does not fail the change.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import trio

from gateway.base.wall_clock import wall_ms
from gateway.controller.apis import named_resources
from gateway.log.audit.audit_log import AuditRecord
from gateway.log.files.errors import LogError, LogFailed, SyncFailed
from gateway.server.logging.logs import escape
from gateway.views.audit import audit_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gateway.server.logging.logs import Reports
    from gateway.sources.audit_partition import AuditPartition
    from gateway.views.audit import Change

#: Delay between a change and the sync of all entries so far, s. In a row of hundreds of changes,
#: only one in a while then shares the disk with a sync.
_SYNC_DELAY_S: Final = 0.25
#: Interval of the check for expired segments, s (Kafka's ``log.retention.check.interval.ms`` is 300
#: s).
_CLEAN_S: Final = 60.0
#: Delay before files whose state is not known are opened again, s.
_REOPEN_S: Final = 1.0


class AuditLogWriter:
    """``gateway.ports.services.Audit``; :meth:`run` is the task. Everything else is called on the
    loop.
    """

    def __init__(
        self, partition: AuditPartition, nodes: Callable[[], Iterable[int]], reports: Reports
    ) -> None:
        """``nodes``: ids of the quorum's nodes, as far as they are known."""
        self.partition = partition
        self._nodes = nodes
        self._reports = reports
        self._waiting: list[tuple[list[Change], Callable[[], None]]] = []
        self._threads = 0  # threads that change files; changes wait meanwhile
        self._files = trio.Lock()  # held while a thread changes files
        self._written = trio.Event()
        self._failed = trio.Event()
        self._lost = 0  # changes without an entry since the last entry

    @property
    def nodes(self) -> Sequence[int]:
        """As in ``gateway.ports.services.Audit``."""
        return sorted(self._nodes())

    def record(self, changes: list[Change], on_written: Callable[[], None]) -> None:
        """Write entries for ``changes``, which were committed together. ``on_written`` is called
        when they are written or cannot be written: before this returns, unless a thread changes the
        files.
        """
        if self._threads:
            self._waiting.append((changes, on_written))
        else:
            self._write(changes)
            on_written()

    async def run(self) -> None:
        """Sync, clean and reopen files, for ever."""
        self._report_repairs()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._sync)
            nursery.start_soon(self._clean)
            nursery.start_soon(self._reopen)

    # --- on the event loop

    def _write(self, changes: Sequence[Change]) -> None:
        """Write entries for all ``changes`` with one write."""
        lost = self._lost
        try:
            made = []
            for change in changes:
                made.append(
                    AuditRecord(
                        change.time_ms,
                        audit_value(
                            change,
                            _utc(change.time_ms),
                            named_resources(change.request),
                            not_recorded=lost,
                        ),
                    )
                )
                lost = 0
            self.partition.append(made)
        except LogError as error:
            self._not_written(changes, error)
        except Exception as error:  # a bug; the committed changes are answered nevertheless
            self._reports.bug("audit log failed", error)
            self._not_written(changes, error)
        else:
            self._lost = 0
            self._written.set()

    def _not_written(self, changes: Sequence[Change], error: Exception) -> None:
        self._lost += len(changes)
        if not self.partition.is_writable:
            self._failed.set()
        for change in changes:
            self._reports.report(
                "change not recorded",
                api=change.api,
                principal=escape(change.requester.principal),
                offset=change.offset,
                last_offset=change.last_offset,
                error=str(error),
            )

    async def _change_files(self, operation: Callable[[], list[str]]) -> list[str]:
        """Run ``operation`` in a thread. Changes that come meanwhile are written together when it
        is done. Raises LogError.
        """
        async with self._files:
            self._threads += 1
            try:
                return await trio.to_thread.run_sync(operation)
            finally:
                self._threads -= 1
                waiting, self._waiting = self._waiting, []
                if waiting:
                    self._write([change for some, _ in waiting for change in some])
                for _, on_written in waiting:
                    on_written()

    # --- in threads

    async def _sync(self) -> None:
        while True:
            await self._written.wait()
            self._written = trio.Event()
            if self.partition.flushes:
                await trio.sleep(_SYNC_DELAY_S)
            try:
                await self._sync_once()
                if self.partition.is_full(wall_ms()):
                    await self._change_files(self.partition.roll)
            except LogFailed:
                pass  # _reopen opens the files again
            except LogError as error:
                self._reports.report("audit log not synced", error=str(error))
            except Exception as error:  # a bug
                self._reports.bug("audit log failed", error)

    async def _sync_once(self) -> None:
        async with self._files:
            end_offset = self.partition.end_offset
            pending_flush = self.partition.pending_flush()
        try:
            if pending_flush is not None:
                await trio.to_thread.run_sync(pending_flush.flush)
        except SyncFailed as error:
            # Shown to consumers nevertheless: the entries are lost only if the machine fails.
            self._reports.report("audit log not synced", error=str(error))
        await trio.to_thread.run_sync(self.partition.check_files)
        self.partition.publish(end_offset)

    async def _clean(self) -> None:
        while True:
            try:
                deleted = await self._change_files(lambda: self.partition.clean(wall_ms()))
                if deleted:
                    self._reports.report("audit log cleaned", deleted=deleted)
                    self._written.set()  # _sync publishes the new log start offset
            except LogFailed:
                pass  # _reopen opens the files again
            except LogError as error:
                self._reports.report("audit log not cleaned", error=str(error))
            except Exception as error:  # a bug
                self._reports.bug("audit log failed", error)
            if not self.partition.is_writable:
                self._failed.set()
            await trio.sleep(_CLEAN_S)

    async def _reopen(self) -> None:
        """Open files again after a failure that left their state unknown, until that succeeds."""
        while True:
            await self._failed.wait()
            self._failed = trio.Event()
            while not self.partition.is_writable:
                await trio.sleep(_REOPEN_S)
                try:
                    await self._change_files(self.partition.reopen)
                except LogError as error:
                    self._reports.report("audit log not opened", error=str(error))
                except Exception as error:  # a bug
                    self._reports.bug("audit log failed", error)
            self._report_repairs()
            self._written.set()  # _sync publishes the entries that were written before

    def _report_repairs(self) -> None:
        for problem in self.partition.repairs:
            self._reports.report("audit log repaired", error=problem)
        self.partition.repairs.clear()


def _utc(ms: int) -> str:
    """The time in ISO 8601, with milliseconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms // 1000)) + f".{ms % 1000:03d}Z"
