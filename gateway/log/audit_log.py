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
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from gateway.log.audit_checkpoint import Checkpoint
from gateway.log.audit_checkpoint import PendingFlush as PendingFlush
from gateway.log.audit_repair import EPOCH, Salvaged, gap, salvage
from gateway.log.batch_check import Tail, check_batches
from gateway.log.disk import Disk, DiskFile, doing
from gateway.log.errors import DiskFailed
from gateway.log.listing import list_directory
from gateway.log.recovery import delete_segment
from gateway.log.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX, Segment, SegmentScan, scan_segment
from gateway.log.segment_index import TIME_ENTRY
from gateway.log.write_guard import WriteGuard
from gateway.sizes import MIB
from kwire.metadata_log.file_names import segment_name
from kwire.metadata_log.open_file import read_regular
from kwire.records import Record, encode_batch

#: A batch holds no more than this of values, bytes, so that a reader need not take more at once.
_BATCH_BYTES_MAX: Final = MIB
_INDEX_INTERVAL_BYTES: Final = 4096
#: Suffix of what is kept of a segment that could not be read.
DAMAGED: Final = ".damaged"


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """Sizes in bytes, times in ms; a negative retention keeps everything. ``fsync``: as in
    ``LogSettings``.
    """

    segment_bytes: int = 16 * MIB
    segment_ms: int = 7 * 24 * 3_600_000
    retention_bytes: int = 100 * MIB
    retention_ms: int = 90 * 24 * 3_600_000
    fsync: bool = True


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

    def __init__(self, directory: Path, settings: AuditSettings, disk: Disk | None = None) -> None:
        self.directory = directory
        self.problems: list[str] = []
        self._settings = settings
        self._disk = disk or Disk(fsync=settings.fsync)
        self._guard = WriteGuard(directory, "")
        self._disk.make_directory(directory)
        self._checkpoint = Checkpoint(directory, self._disk, self.problems)
        self._active = self._recover()
        # Recovery ends with a sync, so that nothing served from here on can be lost.
        self.flushed = self._active.end_offset  #: everything before it is on disk
        self._checkpoint.write(self.flushed)

    @property
    def failed(self) -> bool:
        """Whether the log must be opened again before the next change."""
        return bool(self._guard.reason)

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self._active.end_offset

    # --- writing
    # ---------------------------------------------------------------------------------------------

    def append(self, changes: Sequence[AuditRecord]) -> None:
        """Write all records in one write; a crash of the process does not lose them. Raises
        DiskFailed, LogFailed.

        It takes as long as a write to the page cache. It does not roll: the caller calls ``roll``
        when ``is_full``, in a thread, as that waits for the disk.
        """
        self._guard.check()
        # Joined: one write, so that a killed process leaves all of these records or a prefix of the
        # batches.
        data = memoryview(b"".join(self._batches(changes)))
        checked = check_batches(data, Tail(self.end_offset, EPOCH))
        assert checked.end == len(data), "an encoded batch is whole and follows the last one"
        if not self._active.has_room_for(checked.batches[-1], self._active.size + len(data)):
            # Offsets and positions in the indexes are int32. A segment grows that far only after
            # many failed rolls.
            self.roll()
        try:
            self._active.append(data, checked.batches)
        except BaseException as error:
            if self._active.torn or not isinstance(error, DiskFailed):
                # A full disk was undone, and the next append may succeed; a torn segment has to be
                # opened again.
                self._guard.fail(error)
            raise

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
        path = self.directory / segment_name(self._active.base_offset)
        with doing("open", path):
            # A descriptor of its own: the segment may be rolled and closed during the sync.
            return PendingFlush(
                DiskFile(path, os.open(path, os.O_RDWR | os.O_CLOEXEC)),
                self.end_offset,
                self._disk,
                self._checkpoint,
            )

    def on_flushed(self, end_offset: int) -> None:
        """Note that everything before ``end_offset`` is on disk."""
        # ``max``: a flush that began earlier may end later, when the segment was rolled meanwhile.
        self.flushed = max(self.flushed, end_offset)

    def close(self) -> None:
        """Flush everything and close the files. Raises DiskFailed; the files are closed then
        too.
        """
        try:
            if not self._guard.reason:
                self._active.seal()
                self.flushed = self._active.end_offset
                # Behind the sync: the checkpoint never claims what the disk has not.
                self._checkpoint.write(self.flushed)
        finally:
            self._guard.fail("it was closed")
            self._active.close()
            self._checkpoint.close()

    # --- segments
    # ---------------------------------------------------------------------------------------------

    def is_full(self, now_ms: int) -> bool:
        """Return whether the active segment is due for a roll, by its size or by the age of its
        first record.
        """
        first = self._active.first_timestamp
        # By the clock, unlike the metadata log: no other replica has to roll at the same offset.
        aged = first is not None and first < now_ms - self._settings.segment_ms
        return self._active.size >= self._settings.segment_bytes or aged

    def roll(self) -> None:
        """Flush the active segment and create the next one. Raises DiskFailed, LogFailed."""
        self._guard.check()
        with self._guard.several_steps():
            old = self._active
            # Synced before the next segment exists, as ``UnifiedLog._roll`` does.
            old.seal()
            self._active = self._create(old.end_offset)
            self.flushed = old.end_offset
            old.close()
        self._checkpoint.write(self.flushed)

    def clean(self, now_ms: int) -> list[str]:
        """Delete whole segments, the oldest first, while all together are too large or the oldest
        has only records that are too old.

        Returns their names. A full or old active segment is rolled first, so that it can go later.
        Raises DiskFailed, LogFailed.
        """
        self._guard.check()
        if self.is_full(now_ms):
            self.roll()
        deleted: list[str] = []
        with self._guard.several_steps():
            sizes = {
                base: (self.directory / segment_name(base)).stat().st_size for base in self._bases()
            }
            # Never the active one, which has to exist for the next record.
            for base in list(sizes)[:-1]:
                too_large = 0 <= self._settings.retention_bytes < sum(sizes.values())
                if not too_large and not self._is_too_old(base, now_ms):
                    break
                # Oldest first: a crash in between leaves a log that starts later, without a gap.
                deleted.append(delete_segment(self.directory, self._disk, base))
                del sizes[base]
        return deleted

    def repair(self, end_offset: int) -> list[str]:
        """Make the log readable beyond ``end_offset``, where a batch is damaged or a segment is
        missing; return what was done, as sentences.

        Readable batches on both sides stay. Segments that hold the same offsets twice are kept
        under another name (``.damaged``) and leave the log. Raises DiskFailed.
        """
        self._guard.check()
        with self._guard.several_steps():
            bases = self._bases()
            before = [base for base in bases if base <= end_offset]
            behind = [base for base in bases if base > end_offset]
            # The active segment is never replaced under the writer: ``roll`` closes it first
            # (``_set_aside``).
            if before and behind and before[-1] != self._active.base_offset:
                salvaged = self._salvage(before[-1], behind[0])
                # Only then does the repaired segment lead to the next one without a gap or an
                # overlap.
                if salvaged.end_offset == behind[0] and salvaged.losses:
                    return self._replace(before[-1], salvaged)
            return [f"set aside: {', '.join(self._set_aside(end_offset))}"]

    def _set_aside(self, end_offset: int) -> list[str]:
        aside: list[str] = []
        # A segment that gets appends cannot leave the log.
        if self._active.base_offset <= end_offset:
            self.roll()
        for base in self._bases():
            if base <= end_offset and base != self._active.base_offset:
                # Before the deletion: a crash leaves the segment, its copy, or both.
                aside.append(self._keep_copy(base))
                delete_segment(self.directory, self._disk, base)
        self._disk.sync_directory(self.directory)
        return aside

    # --- inside
    # ---------------------------------------------------------------------------------------------

    def _recover(self) -> Segment:
        """Open the newest segment after repairing it; create one if there is none. The log ends no
        lower than any offset that a consumer may have read.
        """
        with doing("read", self.directory):
            bases = self._bases()
            if not bases:
                if self._checkpoint.offset:
                    self.problems.append(
                        f"{self.directory}: every segment below offset "
                        f"{self._checkpoint.offset} is missing"
                    )
                return self._create(self._checkpoint.offset)
            # The others were sealed, so that damage in them is found when they are read
            # (``repair``).
            scan = self._scan(bases[-1])
            segment = Segment(self._disk, self.directory, scan)
        try:
            # Before the flush, so that one sync covers both.
            self._fill_lost_offsets(segment)
            segment.flush()
        except BaseException:
            segment.close()
            raise
        return segment

    def _scan(self, base: int) -> SegmentScan:
        """Scan the last segment, after joining batches behind damage to those before it."""
        scan = scan_segment(self.directory, base, _INDEX_INTERVAL_BYTES, EPOCH)
        # The usual case after a clean stop or a kill between two writes: nothing to salvage.
        if scan.file_size <= scan.size:
            return scan
        salvaged = self._salvage(base, None)
        if salvaged.losses:
            self.problems += self._replace(base, salvaged)
            return scan_segment(self.directory, base, _INDEX_INTERVAL_BYTES, EPOCH)
        self._report_truncation(scan)
        return scan

    def _fill_lost_offsets(self, segment: Segment) -> None:
        """Append empty batches up to the checkpoint, so that no offset that a consumer may have
        seen is given twice.
        """
        start, end = segment.end_offset, self._checkpoint.offset
        if start >= end:
            return
        data = memoryview(gap(start, end))
        segment.append(data, check_batches(data, Tail(start, EPOCH)).batches)
        path = self.directory / segment_name(segment.base_offset)
        self.problems.append(
            f"{path}: offsets {start} to {end - 1} are missing behind it; "
            f"the log goes on at offset {end}"
        )

    def _salvage(self, base: int, end_offset: int | None) -> Salvaged:
        return salvage(read_regular(self.directory / segment_name(base)), base, end_offset)

    def _replace(self, base: int, salvaged: Salvaged) -> list[str]:
        """Replace a segment by its salvaged bytes. The original is copied first unless all of it
        stays.
        """
        path = self.directory / segment_name(base)
        kept = ""
        # Nothing of the file is lost if empty batches were only added behind it.
        if not salvaged.data.startswith(path.read_bytes()):
            kept = f"; the file as it was is kept as {self._keep_copy(base)}"
        # The data first: an index that describes the old bytes is worse than none, and a crash
        # before its removal is found, because recovery compares indexes with the batches.
        self._disk.replace(path, salvaged.data)
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            self._disk.remove(path.with_suffix(suffix))
        rebuilt = Segment(
            self._disk,
            self.directory,
            scan_segment(self.directory, base, _INDEX_INTERVAL_BYTES, EPOCH),
        )
        try:
            rebuilt.seal()
        finally:
            rebuilt.close()
        return [f"{path}: lost {loss}{kept}" for loss in salvaged.losses]

    def _keep_copy(self, base: int) -> str:
        """Copy a damaged segment; return the name of the copy."""
        path = self.directory / segment_name(base)
        copy = path.with_name(path.name + DAMAGED)
        self._disk.replace(copy, path.read_bytes())
        return copy.name

    def _report_truncation(self, scan: SegmentScan) -> None:
        path = self.directory / segment_name(scan.base_offset)
        why = scan.fault.reason if scan.fault else "an unfinished batch"
        kept = ""
        if scan.fault is not None:
            # A killed process leaves a batch that is cut short. Wrong bytes in a whole batch come
            # from a power failure or a bad disk, so the evidence is kept.
            kept = f"; the file as it was is kept as {self._keep_copy(scan.base_offset)}"
        self.problems.append(
            f"{path}: {scan.file_size - scan.size} bytes from byte {scan.size} on cut off: "
            f"{why}{kept}"
        )

    def _bases(self) -> list[int]:
        return [base for base, _ in list_directory(str(self.directory)).segments]

    def _is_too_old(self, base: int, now_ms: int) -> bool:
        """Return whether the last record of a closed segment is older than the retention time."""
        keep_ms = self._settings.retention_ms
        return keep_ms >= 0 and _newest(self.directory / segment_name(base)) < now_ms - keep_ms

    def _create(self, base_offset: int) -> Segment:
        return Segment.create(self._disk, self.directory, base_offset, _INDEX_INTERVAL_BYTES)


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
