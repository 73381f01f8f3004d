"""A ``__cluster_metadata`` log that this process owns and writes, in Kafka's on-disk format (``KafkaMetadataLog``).

Blocking, for one thread at a time. Batches are kept as they came. Readers use the directory like Kafka's own, by
:class:`gateway.log.follower.DirectoryFollower`. Knows nothing of leaders, requests, or what records mean.

A crash at any instruction loses nothing that was flushed, and leaves a directory that ``open`` takes: segments are synced
before the next is begun, small files are replaced, and what is dropped is dropped from the end.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from gateway.log import recovery, retention
from gateway.log.batch_check import Batch, Tail, check_batches
from gateway.log.directory_lock import DirectoryLock
from gateway.log.disk import Disk, doing
from gateway.log.errors import BelowHighWatermark, DiskFailed, LogFailed, SnapshotNotNewer, SyncFailed
from gateway.log.file_names import segment_name
from gateway.log.listing import list_directory, log_start
from gateway.log.log_settings import LogSettings as LogSettings
from gateway.log.meta_properties import MetaProperties
from gateway.log.segment import Segment, SegmentScan, batch_start, scan_segment
from gateway.log.small_files import SmallFiles
from gateway.log.snapshot_writer import SnapshotWriter as SnapshotWriter
from gateway.snapshot_id import SnapshotId
from kwire.messages.quorum_state_data import QuorumStateData
from kwire.uuid import Uuid

PARTITION_DIRECTORY: Final = "__cluster_metadata-0"
#: The offset before which everything was synced, told by the partition's directory and the small files.
DurableEnd = Callable[[Path, SmallFiles], int]


class LocalLog:
    """The log in ``data_dir``; made by ``open``. Offsets are exclusive where they say end.

    Every call that changes something raises DiskFailed when the operating system refuses. Where the files are known to be
    as before, the log goes on; where not, everything after it raises LogFailed: close it and open it again, which looks.
    ``problems``: sentences on what ``open`` found and repaired, for the server's log.
    """

    def __init__(
        self,
        directory: Path,
        disk: Disk,
        settings: LogSettings,
        lock: DirectoryLock,
        files: SmallFiles,
        problems: list[str],
        durable_end: int,
    ) -> None:
        """Raises LogDamaged, DiskFailed. For :meth:`open`; ``durable_end``: what lies before it must be whole."""
        self.directory = directory
        self.problems = problems
        self._disk = disk
        self._settings = settings
        self._lock = lock
        self._files = files
        self._failed = ""
        recovered = recovery.recover(directory, disk, settings, durable_end if settings.fsync else 0, problems)
        self._closed = recovered.closed
        self._active = recovered.active
        self._epochs = recovered.epochs
        self._start = recovered.start
        if self.end_offset < files.high_watermark:
            problems.append(f"{directory}: the log ends at {self.end_offset}, before the high watermark {files.high_watermark}")

    @classmethod
    def open(
        cls, data_dir: Path, settings: LogSettings, *, disk: Disk | None = None, durable_end: DurableEnd | None = None
    ) -> LocalLog:
        """Open or begin the log in ``data_dir/__cluster_metadata-0``, alone until ``close``.

        An unfinished or damaged end is cut off, indexes and epochs are made again, leftovers of a crash removed. ``disk``
        is for tests. ``durable_end``, for who counts on more than what is committed, is asked once, under the lock: what is
        bad before that offset is no end to be cut off. Raises LogLocked; LogDamaged where what was committed is lost or a
        small file cannot be read, and what ``durable_end`` does, before any record is touched; DiskFailed.
        """
        disk = disk or Disk(fsync=settings.fsync)
        disk.make_directory(data_dir)
        lock = DirectoryLock(data_dir)
        try:
            directory = data_dir / PARTITION_DIRECTORY
            disk.make_directory(directory)
            problems: list[str] = []
            files = SmallFiles(data_dir, directory, disk, problems)
            durable = durable_end(directory, files) if durable_end else files.high_watermark
            return cls(directory, disk, settings, lock, files, problems, durable)
        except BaseException:
            lock.release()
            raise

    # --- what is there ------------------------------------------------------------------------------------------------

    @property
    def start_offset(self) -> int:
        """The first offset of the log: 0, or the end of the snapshot that stands for what was before."""
        return self._start.offset

    @property
    def end_offset(self) -> int:
        """Where the next batch goes."""
        return self._active.end_offset

    @property
    def last_epoch(self) -> int:
        """Epoch of the last batch; of the snapshot the log starts at while it holds none; else 0 (``lastFetchedEpoch``)."""
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
    def latest_snapshot(self) -> SnapshotId | None:
        """The newest complete snapshot, whoever wrote it; never the one from formatting, 0-0. Raises DiskFailed."""
        with doing("read", self.directory):
            snapshots = list_directory(str(self.directory)).snapshots
        return max(snapshots, key=lambda snapshot: (snapshot.epoch, snapshot.end_offset), default=None)

    @property
    def high_watermark(self) -> int:
        """The last one set, also before a restart; at least the log start, never above the log end."""
        return max(self.start_offset, min(self._files.high_watermark, self.end_offset))

    @property
    def flushed_offset(self) -> int:
        """Everything before it is known to be on disk."""
        return max(self._start.offset, self._active.synced_offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """``LeaderEpochFileCache.endOffsetFor``: the largest known epoch not above ``epoch``, and where it ends.

        (-1, -1) for an epoch newer than all and while the log holds no batch; for one older than all, itself with the start
        of the first known one.
        """
        return self._epochs.end_offset_for(epoch, self.end_offset)

    @property
    def quorum_state(self) -> tuple[int, QuorumStateData] | None:
        """(data version, state) as last written; None if there is none. An observer has no vote to forget."""
        return self._files.quorum_state

    @property
    def meta_properties(self) -> MetaProperties | None:
        """Which cluster and node the directory belongs to; None while nobody has said."""
        return self._files.meta_properties

    # --- the log ------------------------------------------------------------------------------------------------------

    def append(self, records: bytes | memoryview) -> int:
        """Append whole batches of format 2 verbatim; returns the new end offset. A batch that is cut off at the end is left out.

        Everything is checked before anything is written: CRC-32C, offsets that follow on, epochs that do not go back. The
        bytes are safe after ``flush``. Raises DecodeError (``offset`` is the byte in ``records``), DiskFailed, LogFailed.
        """
        self._ready()
        view = memoryview(records)
        checked = check_batches(view, Tail(self.end_offset, self.last_epoch))
        if checked.fault is not None:
            raise checked.fault
        run: list[Batch] = []
        size, first_timestamp = self._active.size, self._active.first_timestamp
        for batch in checked.batches:
            if self._needs_roll(batch, size, first_timestamp):
                self._write(view, run)
                self._roll()
                run, size, first_timestamp = [], 0, None
            run.append(batch)
            size += batch.size
            first_timestamp = batch.max_timestamp if first_timestamp is None else first_timestamp
        self._write(view, run)
        return self.end_offset

    def flush(self) -> None:
        """Return once everything appended is on disk. Raises SyncFailed, after which the log has failed; LogFailed."""
        self._ready()
        try:
            self._active.flush()
        except SyncFailed as error:
            self._failed = str(error)
            # The system may count the pages as clean although they are not on disk. What is read back must be what is there.
            with contextlib.suppress(DiskFailed):
                self._active.forget_unsynced()
            raise

    def truncate_to(self, offset: int) -> None:
        """Drop everything from ``offset`` on, with the batch that ``offset`` lies in; done on disk when this returns.

        Nothing to do at the end or beyond. Raises BelowHighWatermark, and nothing is changed; DiskFailed, LogFailed.
        """
        self._ready()
        if offset >= self.end_offset:
            return
        self._refuse_below_high_watermark(offset, f"truncate to offset {offset}")
        scan = self._scan_closed(offset)
        with doing("read", self.directory):
            end_offset = batch_start(self.directory, scan, offset) if scan else self._active.locate(offset)[1]
        self._refuse_below_high_watermark(end_offset, f"truncate to offset {offset}, inside the batch at {end_offset}")
        with self._changing():
            if scan:
                self._drop_behind(scan)
            self._active.truncate(end_offset)
            self._epochs.truncate_from_end(end_offset)
            self._epochs.save(self._disk, self.directory)

    def set_high_watermark(self, offset: int) -> None:
        """Remember that everything below ``offset`` is committed; it and what lies below it are on disk when this returns.

        Never goes back: a smaller one is ignored. Raises ValueError above the log end; DiskFailed, LogFailed.
        """
        self._ready()
        if offset > self.end_offset:
            raise ValueError(f"the high watermark {offset} lies beyond the end of the log, {self.end_offset}")
        if offset > self._files.high_watermark:
            if offset > self.flushed_offset:
                self.flush()
            with self._replacing():
                self._files.write_high_watermark(offset)

    # --- snapshots ----------------------------------------------------------------------------------------------------

    def new_snapshot(
        self, snapshot_id: SnapshotId, *, before_freeze: Callable[[SnapshotId], None] = lambda snapshot_id: None
    ) -> SnapshotWriter:
        """Begin to write the snapshot that stands for the log up to ``snapshot_id``. Raises DiskFailed, LogFailed.

        ``before_freeze`` is called when it is whole, before anybody can see it.
        """
        self._ready()
        return SnapshotWriter(self._disk, self.directory, snapshot_id, before_freeze=before_freeze)

    def truncate_to_snapshot(self, snapshot_id: SnapshotId) -> None:
        """Drop the whole log; it begins anew, empty, at the end of the snapshot, with its epoch. Older snapshots go too.

        As ``KafkaMetadataLog.truncateToLatestSnapshot``: only for the newest snapshot, which must be complete on disk and
        beyond the log. A crash in between is finished by ``open``. Raises SnapshotNotNewer, BelowHighWatermark, and nothing
        is changed; DiskFailed, LogFailed.
        """
        self._ready()
        if snapshot_id != self.latest_snapshot:
            raise SnapshotNotNewer(f"{self.directory}: {snapshot_id.file_name} is not the newest complete snapshot there")
        if (snapshot_id.epoch, snapshot_id.end_offset) <= (self.last_epoch, self.end_offset):
            raise SnapshotNotNewer(
                f"{self.directory}: the log, which ends at {self.end_offset} in epoch {self.last_epoch}, "
                f"is not behind {snapshot_id.file_name}"
            )
        self._refuse_below_high_watermark(snapshot_id.end_offset, f"begin anew at {snapshot_id.file_name}")
        with self._changing():
            self._active.close()
            bases = [*self._closed, self._active.base_offset]
            self._active = recovery.restart_at(self.directory, self._disk, self._settings, bases, snapshot_id, self._epochs)
            self._closed = []
            self._start = log_start(list_directory(str(self.directory)))
            retention.delete_snapshots_before(self.directory, self._disk, snapshot_id)
            self._start = log_start(list_directory(str(self.directory)))

    def clean(self, *, now_ms: int) -> list[str]:
        """Delete old snapshots, and the whole segments before the one that then is the oldest; returns their names.

        As ``KafkaMetadataLog.maybeClean``: by total size, then by age at ``now_ms``; never the newest snapshot, nothing at
        or above the high watermark. Raises DiskFailed, LogFailed.
        """
        self._ready()
        with self._changing():
            bases = [*self._closed, self._active.base_offset]
            snapshot = retention.oldest_to_keep(self.directory, bases, self._settings, self.high_watermark, now_ms)
            if snapshot is None:
                return []
            deleted = retention.delete_before(self.directory, self._disk, bases, snapshot)
            self._closed = [base for base in self._closed if segment_name(base) not in deleted]
            self._start = log_start(list_directory(str(self.directory)))
            self._epochs.truncate_from_start(self._start.offset)
            self._epochs.save(self._disk, self.directory)
            return deleted

    # --- the files beside it ------------------------------------------------------------------------------------------

    def write_quorum_state(self, state: QuorumStateData, version: int) -> None:
        """Remember leader and epoch (``FileQuorumStateStore``), on disk when this returns.

        ``version`` 0 while kraft.version is 0, else 1. Raises EncodeError, DiskFailed, LogFailed.
        """
        self._ready()
        with self._replacing():
            self._files.write_quorum_state(state, version)

    def write_meta_properties(self, cluster_id: str, node_id: int, directory_id: Uuid) -> None:
        """Say to whom the directory belongs (``meta.properties`` version 1), on disk when this returns.

        Raises DiskFailed, LogFailed.
        """
        self._ready()
        with self._replacing():
            self._files.write_meta_properties(cluster_id, node_id, directory_id)

    def close(self) -> None:
        """Bring everything to disk and let another process have the directory. Harmless a second time.

        Raises DiskFailed; the directory is free then too.
        """
        try:
            if not self._failed:
                self._active.seal()
        finally:
            self._failed = self._failed or "it was closed"
            self._active.close()
            self._files.close()
            self._lock.release()

    # --- inside -------------------------------------------------------------------------------------------------------

    def _ready(self) -> None:
        if self._failed:
            raise LogFailed(f"the log in {self.directory} cannot be changed: {self._failed}; close it and open it again")

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """Something of several steps: if it stops in between, only ``open`` can tell where it is."""
        try:
            with doing("change", self.directory):
                yield
        except BaseException as error:
            self._failed = str(error)
            raise

    @contextlib.contextmanager
    def _replacing(self) -> Iterator[None]:
        """A file replaced as a whole is old or new, whatever happens; but after a failed sync nobody knows which."""
        try:
            yield
        except SyncFailed as error:
            self._failed = str(error)
            raise

    def _needs_roll(self, batch: Batch, size: int, first_timestamp: int | None) -> bool:
        """``LogSegment.shouldRoll``; the age of a segment is told by its batches, not by a clock."""
        if size == 0:
            return False
        aged = first_timestamp is not None and 0 <= first_timestamp < batch.max_timestamp - self._settings.segment_ms
        return size + batch.size > self._settings.segment_bytes or aged or not self._active.has_room_for(batch, size)

    def _write(self, view: memoryview, batches: Sequence[Batch]) -> None:
        """Append to the active segment; the epochs first, so that those of a closed segment are never missing on disk."""
        if not batches:
            return
        try:
            for batch in batches:
                self._epochs.assign(batch.epoch, batch.base_offset)
            self._epochs.save(self._disk, self.directory)
            self._active.append(view, batches)
        except BaseException as error:
            self._epochs.truncate_from_end(batches[0].base_offset)
            if self._active.torn or not isinstance(error, DiskFailed) or isinstance(error, SyncFailed):
                self._failed = str(error)
            raise

    def _roll(self) -> None:
        """Begin a new segment (``UnifiedLog.roll``). The old one is on disk before the new one can be seen."""
        with self._changing():
            self._active.seal()
            old = self._active
            self._active = self._create(old.end_offset)
            self._closed.append(old.base_offset)
            old.close()

    def _create(self, base_offset: int) -> Segment:
        return Segment.create(self._disk, self.directory, base_offset, self._settings.index_interval_bytes)

    def _scan_closed(self, offset: int) -> SegmentScan | None:
        """What is in the closed segment that holds ``offset``; None if the active one does."""
        if offset >= self._active.base_offset:
            return None
        base_offset = max(base for base in self._closed if base <= offset)
        with doing("read", self.directory):
            return scan_segment(self.directory, base_offset, self._settings.index_interval_bytes, 0)

    def _drop_behind(self, scan: SegmentScan) -> None:
        """Make a closed segment the active one. Its files are touched when it is the last: whatever happens, it is looked at."""
        behind = [base for base in (*self._closed, self._active.base_offset) if base > scan.base_offset]
        self._active.close()
        recovery.remove_segments(self.directory, self._disk, behind)
        self._closed = [base for base in self._closed if base < scan.base_offset]
        self._active = Segment(self._disk, self.directory, scan)
        self._active.flush()

    def _refuse_below_high_watermark(self, offset: int, what: str) -> None:
        if offset < self.high_watermark:
            raise BelowHighWatermark(
                f"refused to {what}: the records up to the high watermark {self.high_watermark} of {self.directory} are "
                "committed; the quorum has lost them, or it is another one than before: compare cluster ids and the leader's "
                "log, and remove the data directory only to take the quorum's word for it"
            )
