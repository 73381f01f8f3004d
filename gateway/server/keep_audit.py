"""Keeps the account of changes: each is written before who asked hears of it, and shown to consumers once it is on disk.

Whatever gathered while a thread was writing is the next write. A sync waits for a moment, so that many share one, and runs
beside the writes: no answer waits for it. A write that fails costs the account a change, and the cluster nothing.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import trio

from gateway.log.audit_log import Written
from gateway.log.errors import LogError, LogFailed, SyncFailed
from gateway.server.logs import escape
from gateway.views.audit import audit_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gateway.server.logs import Reports
    from gateway.sources.audit_partition import AuditPartition
    from gateway.views.audit import Change

#: How long after a change everything so far is synced, s: of two hundred changes in a row one shares the disk with a sync.
_SYNC_DELAY_S: Final = 0.25
#: Between two looks for what is too old or too much, s (``log.retention.check.interval.ms`` is 300 s).
_CLEAN_S: Final = 60.0
#: Before files that are in doubt are opened anew, s.
_REOPEN_S: Final = 1.0


class AuditKeeper:
    """``gateway.ports.Audit``; :meth:`run` is the task. Everything else is called on the loop."""

    def __init__(self, partition: AuditPartition, voters: Callable[[], Iterable[int]], reports: Reports) -> None:
        """``voters``: ids of the quorum's nodes, as far as they are known."""
        self.partition = partition
        self._voters = voters
        self._reports = reports
        self._waiting: list[tuple[list[Change], Callable[[], None]]] = []
        self._woken = trio.Event()
        self._written = trio.Event()
        self._files = trio.Lock()  # held by who changes them
        self._reopen_at: float | None = None
        self._lost = 0  # changes that are missing before the next one

    @property
    def nodes(self) -> Sequence[int]:
        """As in ``gateway.ports.Audit``."""
        return sorted(self._voters())

    def record(self, changes: list[Change], then: Callable[[], None]) -> None:
        """These were committed together; ``then`` is called when they are written, or cannot be."""
        self._waiting.append((changes, then))
        self._woken.set()

    async def run(self) -> None:
        """Write, sync and clean for ever. What waits when this ends is written yet."""
        for problem in self.partition.repairs:
            self._reports.report("audit log repaired", "warning", error=problem)
        self.partition.repairs.clear()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._sync)
                nursery.start_soon(self._clean)
                while True:
                    await self._woken.wait()
                    await self._write()
        finally:
            await self._write()

    # --- writing ------------------------------------------------------------------------------------------------------

    async def _write(self) -> None:
        """All that waits, in one write; then those who wait for it are told."""
        waiting, self._waiting, self._woken = self._waiting, [], trio.Event()
        changes = [change for some, _ in waiting for change in some]
        with trio.CancelScope(shield=True):
            await self._write_down(changes)
        for _, then in waiting:
            then()

    async def _write_down(self, changes: list[Change]) -> None:
        if changes:
            async with self._files:
                try:
                    await trio.to_thread.run_sync(self._append, changes)
                except LogError as error:
                    self._not_written(changes, error)
                except Exception as error:  # a bug of ours: what was committed is answered all the same
                    self._reports.bug("audit log failed", error)
                    self._not_written(changes, error)
                else:
                    self._lost = 0
                    self._written.set()

    def _append(self, changes: Sequence[Change]) -> None:
        """In a thread."""
        if self._reopen_at is not None:
            if time.monotonic() < self._reopen_at:
                raise LogFailed("an earlier write failed")
            self._reopen_at = time.monotonic() + _REOPEN_S
            self.partition.reopen()
            self._reopen_at = None
        lost = self._lost
        made = []
        for change in changes:
            made.append(Written(change.time_ms, audit_value(change, _utc(change.time_ms), not_recorded=lost)))
            lost = 0
        self.partition.append(made)

    def _not_written(self, changes: Sequence[Change], error: Exception) -> None:
        self._lost += len(changes)
        if not self.partition.is_writable and self._reopen_at is None:
            self._reopen_at = time.monotonic() + _REOPEN_S
        for change in changes:
            self._reports.report(
                "change not recorded",
                "error",
                api=change.api,
                principal=escape(change.asker.principal),
                offset=change.offset,
                last_offset=change.last_offset,
                error=str(error),
            )

    # --- syncing and cleaning -----------------------------------------------------------------------------------------

    async def _sync(self) -> None:
        while True:
            await self._written.wait()
            self._written = trio.Event()
            if self.partition.syncs:
                await trio.sleep(_SYNC_DELAY_S)
            try:
                await self._sync_once()
            except LogError as error:
                self._reports.report("audit log not synced", "error", error=str(error))
            except Exception as error:  # a bug of ours
                self._reports.bug("audit log failed", error)

    async def _sync_once(self) -> None:
        async with self._files:
            end_offset = self.partition.end_offset
            unsynced = self.partition.to_sync()
        try:
            if unsynced is not None:
                await trio.to_thread.run_sync(unsynced.sync)
        except SyncFailed as error:  # it is in the files as long as the machine runs, and who looks should see it
            self._reports.report("audit log not synced", "error", error=str(error))
        await trio.to_thread.run_sync(self.partition.look)
        self.partition.publish(end_offset)

    async def _clean(self) -> None:
        while True:
            try:
                async with self._files:
                    deleted = await trio.to_thread.run_sync(self.partition.clean, time.time_ns() // 1_000_000)
                if deleted:
                    self._reports.report("audit log cleaned", "info", deleted=deleted)
                    self._written.set()  # where the log begins now is shown with the next sync
            except LogError as error:
                self._reports.report("audit log not cleaned", "error", error=str(error))
            except Exception as error:  # a bug of ours
                self._reports.bug("audit log failed", error)
            await trio.sleep(_CLEAN_S)


def _utc(ms: int) -> str:
    """As people and programs read it, with milliseconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms // 1000)) + f".{ms % 1000:03d}Z"
