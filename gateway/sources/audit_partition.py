"""Reads and writes the audit log of this node, and serves it as far as it is on disk: to clients
until the audit topic is created, and to the task that hands its entries over to that topic.

A consumer therefore never reads a record that a power failure removes, and its offset is never
given to another record. Writing is in ``gateway.log.audit.audit_log``; when to write, flush and
roll is decided in ``gateway.server.controller.audit_log_writer``.
"""

from __future__ import annotations

import contextlib
import secrets
from pathlib import Path
from typing import Final

from gateway.log.audit.audit_log import AuditLog, AuditRecord
from gateway.log.files.disk import Disk, doing
from gateway.log.files.errors import LogError
from gateway.log.files.high_watermark_file import FILE_NAME as HIGH_WATERMARK
from gateway.log.files.partition_metadata import FILE_NAME as TOPIC_ID
from gateway.log.files.problem import Problem
from gateway.log.partition.log_settings import LogSettings
from gateway.log.partition.partition_directories import set_aside
from gateway.log.partition.pending_flush import PendingFlush
from gateway.log.reading.follower import DirectoryFollower
from gateway.log.reading.own_log import OwnLog
from gateway.ports.services import AUDIT_TOPIC, State
from gateway.sources.committed_view import up_to_high_watermark
from gateway.sources.log_partition import LogPartition

#: Below the node's data directory. No topic can have a name with a tilde: this is the directory of
#: no replica.
DIRECTORY: Final = f"{AUDIT_TOPIC}~local-0"
#: The directory in earlier releases; now that of a replica of the audit topic.
FORMER_DIRECTORY: Final = f"{AUDIT_TOPIC}-0"


class AuditPartition(LogPartition):
    """``gateway.ports.services.Partition`` over an ``AuditLog``.

    ``append``, ``roll``, ``clean`` and ``reopen`` are for one thread at a time; so is
    ``check_files``, which may run beside them.
    """

    def __init__(self, data_dir: Path, settings: LogSettings, *, cluster_id: str) -> None:
        """Open the log; every segment is scanned once. Raises LogError."""
        super().__init__(cluster_id=cluster_id, log_dir=str(data_dir))
        self._settings = settings
        self.directory = data_dir / DIRECTORY
        self.repairs: list[str] = []  #: what was repaired since the start, as sentences
        self._take_over(data_dir / FORMER_DIRECTORY)
        self._log = AuditLog(self.directory, settings)
        self.repairs += self._log.problems
        self._damage: Problem | None = None
        self._visible_end = self._log.end_offset  # below it everything is on disk, or was given up
        try:
            self._repair()
            self._own = self._opened()
        except BaseException:
            self._log.close()
            raise
        self.publish(self._visible_end)

    # --- files
    # ---------------------------------------------------------------------------------------------

    def append(self, changes: list[AuditRecord]) -> None:
        """Write all records; they survive the process. Raises LogError: then nothing was written,
        or the log must be opened again.
        """
        self._log.append(changes)
        self._refresh()

    def is_full(self, now_ms: int) -> bool:
        """Whether it is time to ``roll``."""
        return self._log.is_full(now_ms)

    def roll(self) -> list[str]:
        """Create the next segment; delete nothing. Raises LogError."""
        self._log.roll()
        self._refresh()
        return []

    def reopen(self) -> list[str]:
        """Open the log again after a failure that left its files in an unknown state; return what
        was repaired. Raises LogError.
        """
        with contextlib.suppress(LogError):
            self._log.close()
        self._log = AuditLog(self.directory, self._settings)
        self.repairs += self._log.problems
        self._own = self._opened()
        return self._log.problems

    def check_files(self) -> None:
        """Compare the files with what was written. In any thread."""
        try:
            self._damage = self._own.fault(self._visible_end)
        except OSError as error:
            self._damage = self._problem(error)

    def clean(self, now_ms: int) -> list[str]:
        """Delete what exceeds the retention; return the names of the deleted files. Raises
        LogError.
        """
        deleted = self._log.clean(now_ms)
        self._refresh()
        return deleted

    def close(self) -> None:
        """Flush everything and close the files. Raises LogError."""
        self._log.close()

    def _take_over(self, former: Path) -> None:
        """Rename the directory of an earlier release. A crash leaves it under one of the names."""
        with doing("read", former.parent):
            # A replica's directory has an id. An audit log has had this file in all releases.
            is_log = (former / HIGH_WATERMARK).exists() and not (former / TOPIC_ID).exists()
            is_new = not self.directory.exists()
        if not is_log:
            return
        disk = Disk(fsync=self._settings.fsync)
        if is_new:
            disk.rename(former, self.directory)
            disk.sync_directory(former.parent)
        else:
            # An earlier release has run here since.
            other = set_aside(former, disk, secrets.token_hex(16), "stray")
            self.repairs.append(f"{former}: written by an earlier release; it is now {other.name}")

    def _repair(self) -> None:
        """Repair damage in the middle and missing segments, so that the records on both sides are
        served.
        """
        # Every segment is read once: no other node has these records.
        follower = DirectoryFollower(str(self.directory), snapshot_prefix=False)
        while True:
            while follower.step():
                pass
            if (view := follower.view) is None or view.broken is None:
                break
            self.repairs += [f"{view.broken}; {done}" for done in self._log.repair(view.end_offset)]

    def _opened(self) -> OwnLog:
        with doing("read", self.directory):
            return OwnLog(self._log.log, snapshot_prefix=False)

    def _refresh(self) -> None:
        """Show readers what was written."""
        try:
            self._own.refresh()
        except OSError as error:
            self._damage = self._problem(error)

    def _problem(self, error: OSError) -> Problem:
        return Problem(str(error.filename or self.directory), -1, error.strerror or str(error))

    # --- on the event loop
    # ---------------------------------------------------------------------------------------------

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self._log.end_offset

    @property
    def is_writable(self) -> bool:
        """Whether the log can be written; if not, call ``reopen`` first."""
        return not self._log.failed

    @property
    def flushes(self) -> bool:
        """Whether the log calls fsync at all."""
        return self._settings.fsync

    def pending_flush(self) -> PendingFlush | None:
        """Return what ``append`` wrote since the last flush; not to be called during an append.
        Raises LogError.
        """
        return self._log.pending_flush()

    def publish(self, end_offset: int) -> None:
        """Serve everything below ``end_offset``, which is on disk."""
        self._log.on_flushed(end_offset)
        self._visible_end = max(self._visible_end, end_offset)
        try:
            visible = up_to_high_watermark(self._own.view, self._visible_end)
        except OSError:
            return  # the records published before stay served; the next check reports the fault
        old = self.served
        self.serve(
            visible,
            notify=(visible.start_offset, visible.end_offset) != (old.start_offset, old.end_offset),
        )

    @property
    def state(self) -> State:
        """BROKEN if the files are no longer what was written; the records of before are still
        served.
        """
        return State.BROKEN if self.problems else State.READY

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The current faults of the files."""
        return () if self._damage is None else (self._damage,)
