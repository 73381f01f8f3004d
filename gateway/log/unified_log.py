"""Appends batches to the segments of one partition, rolls, flushes and truncates them.

Blocking, for one thread at a time. It keeps batches byte for byte, in Kafka's on-disk format, so
that ``kafka-dump-log.sh`` and Kafka itself read them. It knows no snapshots, no lock and no small
files: ``gateway.log.local_log`` adds those. Source: ``UnifiedLog`` and ``LocalLog``.

The segments before the active one are always on disk as a whole, because a segment is synced before
the next one is created. Recovery therefore checks every batch of the last segment only.
"""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Sequence
from pathlib import Path

from gateway.log import recovery
from gateway.log.batch_check import Batch, Tail, check_batches
from gateway.log.disk import Disk, doing
from gateway.log.errors import BelowHighWatermark, DiskFailed, SyncFailed
from gateway.log.log_settings import LogSettings
from gateway.log.segment import Segment, SegmentScan, batch_start, scan_segment
from gateway.log.write_guard import WriteGuard


class UnifiedLog(abc.ABC):
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
        problems: list[str],
        durable_end: int,
    ) -> None:
        """Recover the segments. Raises LogDamaged for damage below ``durable_end``; DiskFailed."""
        self.directory = directory
        self.problems = problems
        self._disk = disk
        self._settings = settings
        self._guard = WriteGuard(directory, "; close it and open it again")
        # Without fsync a crash of the machine may lose any suffix of the log: that is not damage.
        loaded = recovery.recover(
            directory, disk, settings, durable_end if settings.fsync else 0, problems
        )
        self._closed = loaded.closed
        self._active = loaded.active
        self._epochs = loaded.epochs
        self._start = loaded.start
        assert self._start.offset <= self.end_offset, "a log starts at or before its end"
        assert self._closed == sorted(self._closed), "base offsets ascend"

    # --- positions
    # ---------------------------------------------------------------------------------------------

    @property
    @abc.abstractmethod
    def high_watermark(self) -> int:
        """Everything below it is committed. It lies between log start and log end."""

    @property
    def start_offset(self) -> int:
        """The first offset of the log: 0, or the end of the snapshot that replaced what was before
        it.
        """
        return self._start.offset

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
    def start_epoch(self) -> int:
        """Epoch of the record before ``start_offset``, 0 at offset 0."""
        return self._start.snapshot.epoch if self._start.snapshot else 0

    @property
    def epochs(self) -> tuple[tuple[int, int], ...]:
        """(epoch, first offset) of every epoch in the log, oldest first."""
        return self._epochs.entries

    @property
    def flushed_offset(self) -> int:
        """The offset below which every record is known to be on disk."""
        return max(self._start.offset, self._active.flushed_offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest known epoch not above ``epoch``, and its end offset.

        (-1, -1) for an epoch newer than every known one, and while the log holds no batch. For one
        older than every known one: itself, and the start of the first known one. Source:
        ``LeaderEpochFileCache.endOffsetFor``.
        """
        return self._epochs.end_offset_for(epoch, self.end_offset)

    # --- changes
    # ---------------------------------------------------------------------------------------------

    def append(self, records: bytes | memoryview) -> int:
        """Append whole batches of format 2 verbatim; return the new end offset.

        Everything is checked before anything is written: CRC-32C, offsets without a gap, epochs
        that never decrease. A batch that is cut off at the end is ignored, as Fetch responses may
        end inside one. The bytes are safe after ``flush``. Raises DecodeError (``offset`` is the
        byte in ``records``), DiskFailed, LogFailed.
        """
        self._guard.check()
        before = self.end_offset
        view = memoryview(records)
        # Checked again, although the core has checked what a leader sent: no path may bring a bad
        # batch to the disk.
        checked = check_batches(view, Tail(before, self.last_epoch))
        # All or nothing: a response with one bad batch is not trusted in the others.
        if checked.fault is not None:
            raise checked.fault
        run: list[Batch] = []
        # Counted here, because the batches of a run are not written before the segment is full.
        size, first_timestamp = self._active.size, self._active.first_timestamp
        for batch in checked.batches:
            if self._needs_roll(batch, size, first_timestamp):
                # One write for all batches of a segment: a Fetch response of 1 MiB may hold
                # thousands of them.
                self._write(view, run)
                self._roll()
                run, size, first_timestamp = [], 0, None
            run.append(batch)
            size += batch.size
            first_timestamp = batch.max_timestamp if first_timestamp is None else first_timestamp
        self._write(view, run)
        assert self.end_offset == checked.tail.next_offset >= before, "every batch was appended"
        return self.end_offset

    def flush(self) -> None:
        """Return once everything appended is on disk. Raises SyncFailed, LogFailed.

        After SyncFailed the log refuses every change.
        """
        self._guard.check()
        try:
            # The closed segments were synced when they were sealed.
            self._active.flush()
        except SyncFailed as error:
            self._guard.fail(error)
            # Linux marks pages as clean after a failed fsync, although they are not on disk
            # ("fsyncgate"). Reads from the page cache would then show records that a crash removes.
            # Cutting them off makes the file agree with the disk.
            with contextlib.suppress(DiskFailed):
                self._active.truncate_unflushed()
            raise
        assert self.flushed_offset == self.end_offset, "everything is flushed"

    def truncate_to(self, offset: int) -> None:
        """Drop every record from ``offset`` on (``UnifiedLog.truncateTo``), durably.

        The batch that contains ``offset`` goes as a whole. An offset at or beyond the end changes
        nothing. Raises BelowHighWatermark before anything is changed; DiskFailed, LogFailed.
        """
        self._guard.check()
        if offset >= self.end_offset:
            return
        # Before the batch is looked for, and once more with its start: a committed offset may be in
        # its middle.
        self._refuse_below_high_watermark(offset, f"truncate to offset {offset}")
        scan = self._scan_closed(offset)
        with doing("read", self.directory):
            end_offset = (
                batch_start(self.directory, scan, offset)
                if scan
                else self._active.locate(offset)[1]
            )
        self._refuse_below_high_watermark(
            end_offset, f"truncate to offset {offset}, inside the batch at {end_offset}"
        )
        with self._guard.several_steps():
            if scan:
                self._reopen_closed(scan)
            self._active.truncate_to(end_offset)
            # The epochs are saved after the segments: after a crash between the two, recovery drops
            # the entries that begin behind the log's end.
            self._epochs.truncate_from_end(end_offset)
            self._epochs.save(self._disk, self.directory)
        assert self.high_watermark <= self.end_offset == end_offset <= offset
        assert self.flushed_offset <= self.end_offset

    # --- inside
    # ---------------------------------------------------------------------------------------------

    def _needs_roll(self, batch: Batch, size: int, first_timestamp: int | None) -> bool:
        """Return whether ``batch`` begins a new segment (``LogSegment.shouldRoll``).

        The age of a segment is the difference of two batch timestamps, not of clocks: replicas then
        roll at the same offsets.
        """
        # A batch larger than a segment gets a segment of its own: an empty one is never rolled.
        if size == 0:
            return False
        aged = (
            first_timestamp is not None
            # A batch without timestamps, -1, has no age. Kafka takes that of the file
            # (``LogSegment.timeWaitedForRoll``).
            and 0 <= first_timestamp < batch.max_timestamp - self._settings.segment_ms
        )
        # ``>``: a batch that fills the segment exactly stays in it, as in
        # ``LogSegment.shouldRoll``.
        return (
            size + batch.size > self._settings.segment_bytes
            or aged
            or not self._active.has_room_for(batch, size)
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
            self._epochs.save(self._disk, self.directory)
            self._active.append(view, batches)
        except BaseException as error:
            # Memory alone: the entries on disk begin at the log's end, where recovery drops them.
            self._epochs.truncate_from_end(batches[0].base_offset)
            # A plain DiskFailed (a full disk) was undone: the log continues. Anything else leaves
            # bytes behind that nothing in memory accounts for.
            undone = isinstance(error, DiskFailed) and not isinstance(error, SyncFailed)
            if self._active.torn or not undone:
                self._guard.fail(error)
            raise

    def _roll(self) -> None:
        """Begin a new segment (``UnifiedLog.roll``).

        The old segment is sealed first. If a new, empty file appeared on disk before the last
        batches of the old one, a crash would leave a gap between the two.
        """
        with self._guard.several_steps():
            self._active.seal()
            old = self._active
            # Assigned before the old segment is closed: if the creation fails, the old one is still
            # active.
            self._active = self._create(old.end_offset)
            self._closed.append(old.base_offset)
            old.close()
        assert self._active.size == 0 and self._active.base_offset > self._closed[-1]

    def _create(self, base_offset: int) -> Segment:
        return Segment.create(
            self._disk, self.directory, base_offset, self._settings.index_interval_bytes
        )

    def _scan_closed(self, offset: int) -> SegmentScan | None:
        """Scan the closed segment that contains ``offset``; None if the active one does."""
        # The usual case: what is not committed is at the end.
        if offset >= self._active.base_offset:
            return None
        # The caller has refused offsets below the high watermark, so there is such a segment.
        base_offset = max(base for base in self._closed if base <= offset)
        with doing("read", self.directory):
            return scan_segment(self.directory, base_offset, self._settings.index_interval_bytes, 0)

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
        recovery.remove_segments(self.directory, self._disk, later)
        self._closed = [base for base in self._closed if base < scan.base_offset]
        self._active = Segment(self._disk, self.directory, scan)
        self._active.flush()

    def _refuse_below_high_watermark(self, offset: int, action: str) -> None:
        if offset < self.high_watermark:
            raise BelowHighWatermark(
                f"refused to {action}: the records up to the high watermark {self.high_watermark} "
                f"of {self.directory} are committed; the quorum has lost them, or it is another "
                "one than before: compare cluster ids and the leader's log, and remove the data "
                "directory only to take the quorum's word for it"
            )
