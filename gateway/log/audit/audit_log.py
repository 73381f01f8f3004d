"""Appends audit records to segments in Kafka's format, and bounds them by size and age.

Blocking. Methods that change something are for one thread at a time; a ``PendingFlush`` may be
flushed beside them. It does not know what the values mean (``gateway.views.audit``) or when to
flush (``gateway.server.controller.audit_log_writer``).

No quorum agrees on this log, so it has one writer and one leader epoch. A record survives the
process as soon as it is written, because the page cache belongs to the system, and survives a power
failure once it is flushed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from gateway.base.sizes import MIB
from gateway.log.files.disk import Disk, doing
from gateway.log.files.synced_end import SyncedEnd
from gateway.log.partition.log_settings import LogSettings
from gateway.log.partition.pending_flush import PendingFlush
from gateway.log.partition.roll_policy import rolls_when_told
from gateway.log.partition.salvage import EPOCH
from gateway.log.partition.salvage_recovery import SalvageRecovery
from gateway.log.partition.unified_log import UnifiedLog
from gateway.log.segments.segment_index import TIME_ENTRY
from gateway.log.segments.segment_scan import TIME_INDEX_SUFFIX
from kwire.metadata_log.file_names import segment_name
from kwire.metadata_log.open_file import read_regular
from kwire.records import Record, encode_batch

#: A batch holds no more than this of values, bytes, so that a reader need not take more at once.
_BATCH_BYTES_MAX: Final = MIB
#: The defaults of the audit log. The clock measures the age of a segment and of its records.
AUDIT_SETTINGS: Final = LogSettings(segment_bytes=16 * MIB, retention_ms=90 * 24 * 3_600_000)


class AuditRecord(NamedTuple):
    """A change of the cluster: when it was committed (ms since the epoch), and its encoded audit
    entry.
    """

    timestamp: int
    value: bytes


class AuditLog:
    """The log in ``directory``, which is created if it is missing. The caller must be the only
    writer.

    ``problems`` has one sentence for each thing found and repaired. Every method that changes
    something raises DiskFailed; if the state of the files is then unknown, every later change
    raises LogFailed, and the caller must close the log and open it again.
    """

    def __init__(self, directory: Path, settings: LogSettings, disk: Disk | None = None) -> None:
        self.directory = directory
        self.problems: list[str] = []
        self._settings = settings
        disk = disk or Disk(fsync=settings.fsync)
        disk.make_directory(directory)
        self._synced_end = SyncedEnd(directory, disk, self.problems)
        self._recovery = SalvageRecovery(directory, disk, self.problems)
        self._log = UnifiedLog(
            directory,
            disk,
            settings,
            self._recovery.recover(self._synced_end.offset),
            rolls=rolls_when_told,
            problems=self.problems,
        )
        # Recovery ends with a sync, so that nothing served from here on can be lost.
        self.flushed = self.end_offset  #: everything before it is on disk
        self._synced_end.write(self.flushed)

    @property
    def log(self) -> UnifiedLog:
        """The segments, for readers in this process."""
        return self._log

    @property
    def failed(self) -> bool:
        """Whether the log must be opened again before the next change."""
        return bool(self._log.guard.reason)

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self._log.end_offset

    # --- writing
    # ---------------------------------------------------------------------------------------------

    def append(self, changes: Sequence[AuditRecord]) -> None:
        """Write all records in one write; a crash of the process does not lose them. Raises
        DiskFailed, LogFailed.

        It takes as long as a write to the page cache. It does not roll: the caller calls ``roll``
        when ``is_full``, in a thread, as that waits for the disk.
        """
        first = self.end_offset
        # Joined: one write, so that a killed process leaves all of these records or a prefix of the
        # batches.
        self._log.append(b"".join(self._batches(changes)), crc_checked=True)
        assert self.end_offset == first + len(changes), "an encoded batch is whole"

    def _batches(self, changes: Sequence[AuditRecord]) -> Iterator[bytes]:
        part: list[Record] = []
        size = 0
        for offset, change in enumerate(changes, self.end_offset):
            # ``part``: a value that is larger than a batch has one of its own.
            if part and size + len(change.value) > _BATCH_BYTES_MAX:
                yield encode_batch(part, partition_leader_epoch=EPOCH)
                part, size = [], 0
            part.append(Record(offset=offset, timestamp=change.timestamp, value=change.value))
            size += len(change.value)
        yield encode_batch(part, partition_leader_epoch=EPOCH)

    def pending_flush(self) -> PendingFlush | None:
        """Return what was written since the last flush, to be flushed beside further writes; None
        if nothing was. Raises DiskFailed.
        """
        # No sync without a write: an idle cluster has no changes for hours.
        if self.end_offset == self.flushed:
            return None
        return self._log.pending_flush(self._synced_end.write)

    def on_flushed(self, end_offset: int) -> None:
        """Note that everything before ``end_offset`` is on disk."""
        # ``max``: a flush that began earlier may end later, when the segment was rolled meanwhile.
        self.flushed = max(self.flushed, end_offset)

    def close(self) -> None:
        """Flush everything and close the files. Raises DiskFailed; the files are closed then
        too.
        """
        is_whole = not self.failed
        try:
            self._log.close()
            if is_whole:
                self.on_flushed(self.end_offset)
                # Behind the sync: the offset never claims what the disk has not.
                self._synced_end.write(self.flushed)
        finally:
            self._synced_end.close()

    # --- segments
    # ---------------------------------------------------------------------------------------------

    def is_full(self, now_ms: int) -> bool:
        """Return whether the active segment is due for a roll, by its size or by the age of its
        first record.
        """
        first = self._log.first_timestamp
        # By the clock, unlike the metadata log: no other replica has to roll at the same offset.
        aged = first is not None and first < now_ms - self._settings.segment_ms
        return self._log.active_size >= self._settings.segment_bytes or aged

    def roll(self) -> None:
        """Flush the active segment and create the next one. Raises DiskFailed, LogFailed."""
        self._log.roll()
        self.flushed = self.end_offset
        self._synced_end.write(self.flushed)

    def clean(self, now_ms: int) -> list[str]:
        """Delete whole segments, the oldest first, while all together are too large or the oldest
        has only records that are too old.

        Returns their names. A full or old active segment is rolled first, so that it can go later.
        Raises DiskFailed, LogFailed.
        """
        if self.is_full(now_ms):
            self.roll()
        # Never the active one, which has to exist for the next record.
        *closed, active = self._log.bases
        doomed: list[int] = []
        with doing("read", self.directory):
            sizes = {base: self._path(base).stat().st_size for base in (*closed, active)}
            for base in closed:
                too_large = 0 <= self._settings.retention_bytes < sum(sizes.values())
                if not too_large and not self._is_too_old(base, now_ms):
                    break
                doomed.append(base)
                del sizes[base]
        # Oldest first: a crash in between leaves a log that starts later, without a gap.
        return self._log.delete_closed(doomed)

    def repair(self, end_offset: int) -> list[str]:
        """Make the log readable beyond ``end_offset``, where a batch is damaged or a segment is
        missing; return what was done, as sentences.

        Readable batches on both sides stay. Segments that hold the same offsets twice are kept
        under another name (``.damaged``) and leave the log. Raises DiskFailed.
        """
        self._log.guard.check()
        with self._log.guard.several_steps():
            *closed, active = self._log.bases
            before = [base for base in closed if base <= end_offset]
            behind = [base for base in (*closed, active) if base > end_offset]
            # The active segment is never replaced under the writer: ``roll`` closes it first
            # (``_set_aside``).
            if before and behind and (done := self._recovery.repair_closed(before[-1], behind[0])):
                return done
            return [f"set aside: {', '.join(self._set_aside(end_offset))}"]

    def _set_aside(self, end_offset: int) -> list[str]:
        # A segment that gets appends cannot leave the log.
        if self._log.bases[-1] <= end_offset:
            self.roll()
        doomed = [base for base in self._log.bases[:-1] if base <= end_offset]
        # Before the deletion: a crash leaves the segment, its copy, or both.
        copies = [self._recovery.keep_copy(base) for base in doomed]
        self._log.delete_closed(doomed)
        return copies

    # --- inside
    # ---------------------------------------------------------------------------------------------

    def _is_too_old(self, base: int, now_ms: int) -> bool:
        """Return whether the last record of a closed segment is older than the retention time."""
        keep_ms = self._settings.retention_ms
        return keep_ms >= 0 and _newest(self._path(base)) < now_ms - keep_ms

    def _path(self, base: int) -> Path:
        return self.directory / segment_name(base)


def _newest(segment: Path) -> int:
    """Return the largest timestamp (ms) in a closed segment, from its time index; without that
    file, the time of its last change.
    """
    with contextlib.suppress(FileNotFoundError):
        entries = read_regular(segment.with_suffix(TIME_INDEX_SUFFIX))
        # The last entry has the largest timestamp: ``seal`` added it.
        if len(entries) >= TIME_ENTRY.size:
            return int(TIME_ENTRY.unpack(entries[-TIME_ENTRY.size :])[0])
    return segment.stat().st_mtime_ns // 1_000_000
