"""Keeps the account of changes: each is written before who asked hears of it, and shown to
consumers once it is on disk.

The write goes to the page cache, on the loop: for a few hundred bytes a thread would cost more than
the write, and who asked would wait until it gets its turn. All that takes longer has a thread:
syncs, which wait for a moment so that many changes share one, and run beside the writes; new
segments and old ones, during which changes wait. A write that fails costs the account a change, and
the cluster nothing.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import trio

from gateway.controller.apis import named_resources
from gateway.log.audit_log import AuditRecord
from gateway.log.errors import LogError, LogFailed, SyncFailed
from gateway.server.logs import escape
from gateway.views.audit import audit_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gateway.server.logs import Reports
    from gateway.sources.audit_partition import AuditPartition
    from gateway.views.audit import Change

#: How long after a change everything so far is synced, s: of hundreds of changes in a row one
#: shares the disk with a sync.
_SYNC_DELAY_S: Final = 0.25
#: Between two looks for what is too old or too much, s (``log.retention.check.interval.ms`` is 300
#: s).
_CLEAN_S: Final = 60.0
#: Before files that are in doubt are opened anew, s.
_REOPEN_S: Final = 1.0


class AuditLogWriter:
    """``gateway.ports.Audit``; :meth:`run` is the task. Everything else is called on the loop."""

    def __init__(
        self, partition: AuditPartition, voters: Callable[[], Iterable[int]], reports: Reports
    ) -> None:
        """``voters``: ids of the quorum's nodes, as far as they are known."""
        self.partition = partition
        self._voters = voters
        self._reports = reports
        self._waiting: list[tuple[list[Change], Callable[[], None]]] = []
        self._threads = 0  # that change files; changes wait meanwhile
        self._files = trio.Lock()  # held by whoever changes them in a thread
        self._written = trio.Event()
        self._failed = trio.Event()
        self._lost = 0  # changes that are missing before the next one

    @property
    def nodes(self) -> Sequence[int]:
        """As in ``gateway.ports.Audit``."""
        return sorted(self._voters())

    def record(self, changes: list[Change], then: Callable[[], None]) -> None:
        """These were committed together; ``then`` is called when they are written, or cannot be: at
        once, as a rule.
        """
        if self._threads:
            self._waiting.append((changes, then))
        else:
            self._write(changes)
            then()

    async def run(self) -> None:
        """Sync, clean and mend for ever."""
        self._tell_of_repairs()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._sync)
            nursery.start_soon(self._clean)
            nursery.start_soon(self._mend)

    # --- writing
    # ------------------------------------------------------------------------------------------------------

    def _write(self, changes: Sequence[Change]) -> None:
        """All of them, in one write."""
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
        except Exception as error:  # a bug of ours: what was committed is answered all the same
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

    async def _change_files(self, what: Callable[[], list[str]]) -> list[str]:
        """Do it in a thread; changes that come meanwhile are written when it is done, together.
        Raises LogError.
        """
        async with self._files:
            self._threads += 1
            try:
                return await trio.to_thread.run_sync(what)
            finally:
                self._threads -= 1
                waiting, self._waiting = self._waiting, []
                if waiting:
                    self._write([change for some, _ in waiting for change in some])
                for _, then in waiting:
                    then()

    # --- what takes longer
    # --------------------------------------------------------------------------------------------

    async def _sync(self) -> None:
        while True:
            await self._written.wait()
            self._written = trio.Event()
            if self.partition.flushes:
                await trio.sleep(_SYNC_DELAY_S)
            try:
                await self._sync_once()
                if self.partition.is_full(_wall_ms()):
                    await self._change_files(self.partition.roll)
            except LogFailed:
                pass  # it is being mended
            except LogError as error:
                self._reports.report("audit log not synced", error=str(error))
            except Exception as error:  # a bug of ours
                self._reports.bug("audit log failed", error)

    async def _sync_once(self) -> None:
        async with self._files:
            end_offset = self.partition.end_offset
            pending_flush = self.partition.pending_flush()
        try:
            if pending_flush is not None:
                await trio.to_thread.run_sync(pending_flush.flush)
        except (
            SyncFailed
        ) as error:  # it is in the files as long as the machine runs, and who looks should see it
            self._reports.report("audit log not synced", error=str(error))
        await trio.to_thread.run_sync(self.partition.rescan)
        self.partition.publish(end_offset)

    async def _clean(self) -> None:
        while True:
            try:
                deleted = await self._change_files(lambda: self.partition.clean(_wall_ms()))
                if deleted:
                    self._reports.report("audit log cleaned", deleted=deleted)
                    self._written.set()  # where the log begins now is shown as what was written is
            except LogFailed:
                pass  # it is being mended
            except LogError as error:
                self._reports.report("audit log not cleaned", error=str(error))
            except Exception as error:  # a bug of ours
                self._reports.bug("audit log failed", error)
            if not self.partition.is_writable:
                self._failed.set()
            await trio.sleep(_CLEAN_S)

    async def _mend(self) -> None:
        """Open files anew that are in doubt, until it can be done."""
        while True:
            await self._failed.wait()
            self._failed = trio.Event()
            while not self.partition.is_writable:
                await trio.sleep(_REOPEN_S)
                try:
                    await self._change_files(self.partition.reopen)
                except LogError as error:
                    self._reports.report("audit log not opened", error=str(error))
                except Exception as error:  # a bug of ours
                    self._reports.bug("audit log failed", error)
            self._tell_of_repairs()
            self._written.set()  # what was written before is shown in any case

    def _tell_of_repairs(self) -> None:
        for problem in self.partition.repairs:
            self._reports.report("audit log repaired", error=problem)
        self.partition.repairs.clear()


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _utc(ms: int) -> str:
    """As people and programs read it, with milliseconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms // 1000)) + f".{ms % 1000:03d}Z"
