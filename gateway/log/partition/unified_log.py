"""Appends batches to the segments of one partition, rolls, flushes and truncates them.

Blocking, for one thread at a time. It keeps batches byte for byte, in Kafka's on-disk format, so
that ``kafka-dump-log.sh`` and Kafka itself read them. It knows no snapshots, no lock and no small
files, and recovers nothing: its users load the segments (``gateway.log.metadata.recovery`` for the
metadata log, ``gateway.log.partition.salvage_recovery`` for logs that no other node has). Source:
``UnifiedLog`` and ``LocalLog``.

The segments before the active one are always on disk as a whole, because a segment is synced before
the next one is created. Recovery therefore checks batches of the last segment only.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from gateway.log.files.disk import Disk, DiskFile, doing
from gateway.log.files.errors import BelowHighWatermark, DiskFailed, SyncFailed
from gateway.log.files.write_guard import WriteGuard
from gateway.log.partition.loaded_log import LoadedLog, restart
from gateway.log.partition.log_settings import LogSettings
from gateway.log.partition.pending_flush import PendingFlush
from gateway.log.partition.roll_policy import RollPolicy
from gateway.log.segments.batch_check import Batch, Tail, check_batches
from gateway.log.segments.segment import (
    ReadableSegment,
    Segment,
    delete_segments,
    open_closed,
    replace_segment,
)
from gateway.log.segments.segment_scan import SegmentScan, batch_start, scan_segment
from gateway.log.segments.segment_swap import swap_segments
from kwire.metadata_log.file_names import segment_name


class UnifiedLog:
    """The segments in ``directory``. Offsets are exclusive where their names say end.

    Every method that changes something raises DiskFailed when the operating system refuses. If the
    files are known to be as before, the log continues; if not, every later change raises LogFailed,
    and the caller must close the log and open it again. ``problems`` has one sentence for each
    thing that opening found and repaired, for the server's log.
    """

    def __init__(
        self,
        directory: Path,
        disk: Disk,
        settings: LogSettings,
        loaded: LoadedLog,
        *,
        rolls: RollPolicy,
        problems: list[str],
    ) -> None:
        self.directory = directory
        self.problems = problems
        #: Common to the log and the files beside it: one failure ends all changes.
        self.guard = WriteGuard(directory, "; close it and open it again")
        self.disk = disk
        self.settings = settings
        #: Returns how long the files of a deleted segment stay under other names, ms.
        self.delete_delay_ms: Callable[[], int] = lambda: 0
        self._rolls = rolls
        self._closed = loaded.closed
        self._active = loaded.active
        self._opened: dict[int, ReadableSegment] = {}  # closed segments for readers, by base
        self._readable: tuple[ReadableSegment, ...] | None = None  # all; None when they changed
        self._epochs = loaded.epochs
        self._start_offset, self._start_epoch = loaded.start_offset, loaded.start_epoch
        #: How often records were dropped from the end since the log was opened.
        self.truncations = 0
        assert self._start_offset <= self.end_offset, "a log starts at or before its end"
        assert self._closed == sorted(self._closed), "base offsets ascend"

    # --- positions
    # ---------------------------------------------------------------------------------------------

    @property
    def bases(self) -> list[int]:
        """Base offsets of the segments, the active one last."""
        return [*self._closed, self._active.base_offset]

    @property
    def active_size(self) -> int:
        """Bytes in the active segment."""
        return self._active.size

    @property
    def first_timestamp(self) -> int | None:
        """Largest timestamp of the first batch in the active segment (ms), None without a batch."""
        return self._active.first_timestamp

    @property
    def start_offset(self) -> int:
        """The first offset of the log: 0, or the end of the snapshot that replaced what was before
        it.
        """
        return self._start_offset

    @property
    def end_offset(self) -> int:
        """The offset of the next batch."""
        return self._active.end_offset

    @property
    def last_epoch(self) -> int:
        """Epoch of the last batch (``lastFetchedEpoch``).

        Without a batch: the epoch of the snapshot that the log starts at, 0 without a snapshot.
        """
        latest = self._epochs.latest
        return self.start_epoch if latest is None else latest

    @property
    def latest_epoch(self) -> int:
        """Epoch of the last batch, or the one that was begun behind it; -1 without one
        (``UnifiedLog.latestEpoch``).
        """
        latest = self._epochs.latest
        return -1 if latest is None else latest

    @property
    def start_epoch(self) -> int:
        """Epoch of the record before ``start_offset``, 0 at offset 0."""
        return self._start_epoch

    @property
    def epochs(self) -> tuple[tuple[int, int], ...]:
        """(epoch, first offset) of every epoch in the log, oldest first."""
        return self._epochs.entries

    @property
    def flushed_offset(self) -> int:
        """The offset below which every record is known to be on disk."""
        return max(self._start_offset, self._active.flushed_offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest known epoch not above ``epoch``, and its end offset.

        (-1, -1) for an epoch newer than every known one, and while the log holds no batch. For one
        older than every known one: itself, and the start of the first known one. Source:
        ``LeaderEpochFileCache.endOffsetFor``.
        """
        return self._epochs.end_offset_for(epoch, self.end_offset)

    def closed_segments(self) -> tuple[ReadableSegment, ...]:
        """Return the closed segments, oldest first, for readers: the same object until they change.
        In the thread that changes the log. Raises OSError.
        """
        if self._readable is None:
            known, self._opened = self._opened, {}
            for base, following in itertools.pairwise(self.bases):
                self._opened[base] = known.get(base) or open_closed(
                    self.directory, base, following, self.settings.index_interval_bytes
                )
            self._readable = tuple(self._opened.values())
        return self._readable

    def active_segment(self) -> ReadableSegment:
        """Return the active segment as it is now, for readers."""
        return self._active.readable()

    # --- changes
    # ---------------------------------------------------------------------------------------------

    def append(self, records: bytes | memoryview, *, crc_checked: bool = False) -> int:
        """Append whole batches of format 2 verbatim; return the new end offset.

        Everything is checked before anything is written: CRC-32C unless the caller has checked it,
        offsets without a gap, epochs that never decrease. A batch that is cut off at the end is
        ignored, as Fetch responses may end inside one. The bytes are safe after ``flush``. Raises
        DecodeError (``offset`` is the byte in ``records``), DiskFailed, LogFailed.
        """
        self.guard.check()
        before = self.end_offset
        view = memoryview(records)
        checked = check_batches(view, Tail(before, self.last_epoch), crc_checked=crc_checked)
        # All or nothing: a response with one bad batch is not trusted in the others.
        if checked.fault is not None:
            raise checked.fault
        self.append_checked(view, checked.batches)
        assert self.end_offset == checked.tail.next_offset >= before, "every batch was appended"
        return self.end_offset

    def append_checked(self, view: memoryview, batches: Sequence[Batch]) -> None:
        """As :meth:`append`, for batches that were found good, and that follow the end of the log.
        Raises DiskFailed, LogFailed.
        """
        self.guard.check()
        run: list[Batch] = []
        # Counted here, because the batches of a run are not written before the segment is full.
        size, first_timestamp = self._active.size, self._active.first_timestamp
        for batch in batches:
            if self._needs_roll(batch, size, first_timestamp):
                # One write for all batches of a segment: a Fetch response of 1 MiB may hold
                # thousands of them.
                self._write(view, run)
                self.roll()
                run, size, first_timestamp = [], 0, None
            run.append(batch)
            size += batch.size
            first_timestamp = batch.max_timestamp if first_timestamp is None else first_timestamp
        self._write(view, run)

    def begin_epoch(self, epoch: int) -> None:
        """Note, durably, that the next batch begins ``epoch``, so that its append does not wait for
        that (``UnifiedLog.assignEpochStartOffset``). Raises DiskFailed, LogFailed.
        """
        self.guard.check()
        self._epochs.assign(epoch, self.end_offset)
        self._epochs.save(self.disk, self.directory)

    def flush(self) -> None:
        """Return once everything appended is on disk. Raises SyncFailed, LogFailed.

        After SyncFailed the log refuses every change.
        """
        self.guard.check()
        try:
            # The closed segments were synced when they were sealed.
            self._active.flush()
        except SyncFailed as error:
            self.guard.fail(error)
            # Linux marks pages as clean after a failed fsync, although they are not on disk
            # ("fsyncgate"). Reads from the page cache would then show records that a crash removes.
            # Cutting them off makes the file agree with the disk.
            with contextlib.suppress(DiskFailed):
                self._active.truncate_unflushed()
            raise
        assert self.flushed_offset == self.end_offset, "everything is flushed"

    def flush_with_indexes(self) -> None:
        """As ``flush``, for the index files too: the end may then become the recovery point. Raises
        DiskFailed, LogFailed.
        """
        self.flush()
        with self.guard.several_steps():
            self._active.flush_indexes()

    def truncate_to(self, offset: int, *, high_watermark: int) -> None:
        """Drop every record from ``offset`` on (``UnifiedLog.truncateTo``), durably.

        The batch that contains ``offset`` goes as a whole. At the end of the log an epoch goes that
        was begun without a batch; an offset beyond it changes nothing. Everything below
        ``high_watermark`` stays. Raises BelowHighWatermark before anything is changed; DiskFailed,
        LogFailed.
        """
        self.guard.check()
        if offset >= self.end_offset:
            with self.guard.several_steps():
                self._epochs.truncate_from_end(offset)
                self._epochs.save(self.disk, self.directory)
            return
        # Before the batch is looked for, and once more with its start: a committed offset may be in
        # its middle.
        refuse_below(high_watermark, offset, f"truncate to offset {offset}", self.directory)
        scan = self._scan_closed(offset)
        with doing("read", self.directory):
            end_offset = (
                batch_start(self.directory, scan, offset)
                if scan
                else self._active.locate(offset)[1]
            )
        # In a gap of a compacted log the next batch begins behind the offset.
        end_offset = min(end_offset, offset)
        action = f"truncate to offset {offset}, inside the batch at {end_offset}"
        refuse_below(high_watermark, end_offset, action, self.directory)
        self.truncations += 1
        with self.guard.several_steps():
            if scan:
                self._reopen_closed(scan)
            self._active.truncate_to(end_offset)
            # The epochs are saved after the segments: after a crash between the two, recovery drops
            # the entries that begin behind the log's end.
            self._epochs.truncate_from_end(end_offset)
            self._epochs.save(self.disk, self.directory)
            # The batch that is gone may have begun before the log start.
            self._start_offset = min(self._start_offset, end_offset)
        assert high_watermark <= self.end_offset == end_offset <= offset
        assert self.flushed_offset <= self.end_offset

    def roll(self) -> None:
        """Seal the active segment and begin a new one, unless it is empty (``UnifiedLog.roll``).
        Raises DiskFailed, LogFailed.

        The old segment is sealed first. If a new, empty file appeared on disk before the last
        batches of the old one, a crash would leave a gap between the two.
        """
        self.guard.check()
        if self._active.size == 0:
            return
        with self.guard.several_steps():
            self._active.seal()
            old = self._active
            # Assigned before the old segment is closed: if the creation fails, the old one is still
            # active.
            self._active = self._create(old.end_offset)
            self._closed.append(old.base_offset)
            self._readable = None
            old.close()
        assert self._active.size == 0 and self._active.base_offset > self._closed[-1]

    def pending_flush(
        self,
        on_synced: Callable[[int], None] = lambda end_offset: None,
        suffixes: Sequence[str] = (),
    ) -> PendingFlush:
        """Return the flush of everything written so far, to run beside further writes: of the
        batches, and of the files beside them with one of ``suffixes``. Raises DiskFailed.
        """
        self._active.write_entries()
        files: list[DiskFile] = []
        path = self.directory / segment_name(self._active.base_offset)
        flush = PendingFlush(files, self.end_offset, self.disk, on_synced)
        try:
            for one in (path, *(path.with_suffix(suffix) for suffix in suffixes)):
                with doing("open", one):
                    # Descriptors of its own: the segment may be rolled and closed during the sync.
                    files.append(DiskFile(one, os.open(one, os.O_RDWR | os.O_CLOEXEC)))
        except BaseException:
            flush.close()
            raise
        return flush

    def delete_closed(self, bases: Sequence[int]) -> list[str]:
        """Delete these segments, the first first and each durably; return their names. Raises
        DiskFailed, LogFailed.
        """
        self.guard.check()
        assert set(bases) <= set(self._closed), "the active segment has to exist for the next batch"
        with self.guard.several_steps():
            deleted = delete_segments(self.directory, self.disk, bases, self.delete_delay_ms())
            self._closed = [base for base in self._closed if base not in bases]
            self._readable = None
            self._start_offset = max(self._start_offset, self.bases[0])
        return deleted

    def replace_closed(self, base: int, pieces: Iterable[bytes]) -> None:
        """Replace the batches of a closed segment: after a crash it has the old ones or the new
        ones. Raises DiskFailed, LogFailed.
        """
        self.guard.check()
        assert base in self._closed, "the active segment gets appends"
        self._opened.pop(base, None)
        self._readable = None
        # Without the guard: memory holds nothing of a closed segment that a failure could belie.
        with doing("replace", self.directory / segment_name(base)):
            replace_segment(
                self.directory, self.disk, base, pieces, self.settings.index_interval_bytes
            )

    def swap_closed(self, bases: Sequence[int]) -> None:
        """Put the compacted segment in the directory in the place of the closed segments ``bases``
        (``UnifiedLog.replaceSegments``). Raises DiskFailed, LogFailed.
        """
        self.guard.check()
        assert set(bases) <= set(self._closed), "only closed segments are compacted"
        with self.guard.several_steps():
            swap_segments(self.directory, self.disk, bases, self.delete_delay_ms())
            self._closed = [base for base in self._closed if base not in bases[1:]]
            for base in bases:
                self._opened.pop(base, None)
            self._readable = None

    def start_at(self, offset: int, epoch: int) -> None:
        """Set the log start, and the epoch of the record before it, after the segments below were
        deleted. Raises DiskFailed, LogFailed.
        """
        self.guard.check()
        with self.guard.several_steps():
            self._start_offset, self._start_epoch = offset, epoch
            # After the segments: the next start drops entries below the log start.
            self._epochs.truncate_from_start(offset)
            self._epochs.save(self.disk, self.directory)

    def truncate_fully_and_start_at(self, offset: int, epoch: int) -> None:
        """Delete every segment and begin again, empty, at ``offset``; ``epoch`` is the epoch of the
        record before it (``UnifiedLog.truncateFullyAndStartAt``). Raises DiskFailed, LogFailed.
        """
        self.guard.check()
        self.truncations += 1
        with self.guard.several_steps():
            # Before its file is deleted: a later flush must not count bytes of a file without a
            # name.
            self._active.close()
            self._opened.clear()
            self._active = restart(
                self.directory,
                self.disk,
                self.settings,
                self.bases,
                offset,
                self._epochs,
                self.delete_delay_ms(),
            )
            self._closed, self._readable = [], None
            self._start_offset, self._start_epoch = offset, epoch

    def close(self) -> None:
        """Flush everything and close the files. Idempotent. Raises DiskFailed; the files are closed
        then too.
        """
        try:
            if not self.guard.reason:
                # So that Kafka finds the time index of a closed log complete.
                self._active.seal()
        finally:
            # In ``finally``: a second ``close`` must not seal files that are closed.
            self.guard.fail("it was closed")
            self._active.close()

    # --- inside
    # ---------------------------------------------------------------------------------------------

    def _needs_roll(self, batch: Batch, size: int, first_timestamp: int | None) -> bool:
        # A batch larger than a segment gets a segment of its own: an empty one is never rolled.
        return size > 0 and (
            self._rolls(batch, size, first_timestamp) or not self._active.has_room_for(batch, size)
        )

    def _write(self, view: memoryview, batches: Sequence[Batch]) -> None:
        """Append to the active segment.

        The epochs are saved before the batches. An entry that begins at or behind the log's end is
        harmless, because recovery drops it; a batch whose epoch has no entry would need a scan of
        every closed segment.
        """
        if not batches:
            return
        try:
            for batch in batches:
                self._epochs.assign(batch.epoch, batch.base_offset)
            self._epochs.save(self.disk, self.directory)
            self._active.append(view, batches)
        except BaseException as error:
            # Memory alone: the entries on disk begin at the log's end, where recovery drops them.
            self._epochs.truncate_from_end(batches[0].base_offset)
            # A plain DiskFailed (a full disk) was undone: the log continues. Anything else leaves
            # bytes behind that nothing in memory accounts for.
            undone = isinstance(error, DiskFailed) and not isinstance(error, SyncFailed)
            if self._active.torn or not undone:
                self.guard.fail(error)
            raise

    def _create(self, base_offset: int) -> Segment:
        return Segment.create(
            self.disk, self.directory, base_offset, self.settings.index_interval_bytes
        )

    def _scan_closed(self, offset: int) -> SegmentScan | None:
        """Scan the closed segment that contains ``offset``; None if the active one does."""
        # The usual case: what is not committed is at the end.
        if offset >= self._active.base_offset:
            return None
        # The caller has refused offsets below the high watermark, so there is such a segment.
        base_offset = max(base for base in self._closed if base <= offset)
        with doing("read", self.directory):
            interval = self.settings.index_interval_bytes
            return scan_segment(self.directory, base_offset, interval, 0, gaps=True)

    def _reopen_closed(self, scan: SegmentScan) -> None:
        """Delete the segments behind a closed one, and make that one the active segment.

        The later segments go first. The closed segment is only changed when it is the last one on
        disk, because recovery checks every batch of the last segment and of no other.
        """
        later = [
            base for base in (*self._closed, self._active.base_offset) if base > scan.base_offset
        ]
        # The file is deleted next.
        self._active.close()
        self._opened.clear()
        # The newest first, so that the rest is at any instant the beginning of the log.
        delete_segments(self.directory, self.disk, later[::-1], self.delete_delay_ms())
        self._closed = [base for base in self._closed if base < scan.base_offset]
        self._readable = None
        self._active = Segment(self.disk, self.directory, scan)
        self._active.flush()


def refuse_below(high_watermark: int, offset: int, action: str, directory: Path) -> None:
    """Raise BelowHighWatermark if ``offset`` lies below the high watermark."""
    if offset < high_watermark:
        raise BelowHighWatermark(
            f"refused to {action}: the records up to the high watermark {high_watermark} of "
            f"{directory} are committed; the quorum has lost them, or it is another one than "
            "before: compare cluster ids and the leader's log, and remove the data directory only "
            "to take the quorum's word for it"
        )
