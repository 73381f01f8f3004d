"""Joins a ``__cluster_metadata`` log with its snapshots, vote and high watermark.

Blocking, for one thread at a time. It does not know leaders, requests or the meaning of records.
Readers in this process use ``log`` (``gateway.log.reading.own_log``), those of other processes
follow the directory (``gateway.log.reading.follower``). Appending and truncating are in
``gateway.log.partition.unified_log``, lock and identity of the data directory in
``gateway.log.partition.data_directory``. Source: ``KafkaMetadataLog``.

A crash at any instruction loses nothing that was flushed, and leaves a directory that ``open``
accepts. Three rules give that: a segment is synced before the next one is created; a small file is
written beside the old one, synced and renamed over it; segments are deleted from one end only, with
a sync of the directory after each.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from gateway.log.files.disk import Disk, doing
from gateway.log.files.errors import SnapshotNotNewer
from gateway.log.files.meta_properties import MetaProperties
from gateway.log.files.offset_checkpoint import Checkpoints
from gateway.log.metadata import recovery, retention
from gateway.log.metadata.listing import list_directory, log_start
from gateway.log.metadata.metadata_files import MetadataFiles
from gateway.log.metadata.snapshot_writer import SnapshotWriter as SnapshotWriter
from gateway.log.partition.data_directory import DataDirectory
from gateway.log.partition.log_settings import LogSettings as LogSettings
from gateway.log.partition.roll_policy import rolls_by_size_and_age
from gateway.log.partition.unified_log import UnifiedLog, refuse_below
from kwire.messages.quorum_state_data import QuorumStateData
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.protocol import CLUSTER_METADATA_PARTITION, CLUSTER_METADATA_TOPIC
from kwire.uuid import Uuid

PARTITION_DIRECTORY: Final = CLUSTER_METADATA_PARTITION
_PARTITION: Final = (CLUSTER_METADATA_TOPIC, 0)
#: Returns the offset before which everything was synced, from the data directory, and the
#: partition's directory and small files.
DurableEnd = Callable[[DataDirectory, Path, MetadataFiles], int]


class LocalLog:
    """The log in ``data_dir``, made by ``open``. Errors as in ``UnifiedLog``."""

    def __init__(self, log: UnifiedLog, data: DataDirectory, files: MetadataFiles) -> None:
        """For :meth:`open`."""
        self.directory = log.directory
        self.problems = log.problems
        self._log = log
        self._data = data
        self._files = files
        # Reached without fsync alone: with it ``_check_high_watermark`` has refused the directory.
        if log.end_offset < data.high_watermark:
            self.problems.append(
                f"{self.directory}: the log ends at {log.end_offset}, before the high watermark "
                f"{data.high_watermark}"
            )

    @classmethod
    def open(
        cls,
        data_dir: Path,
        settings: LogSettings,
        *,
        disk: Disk | None = None,
        durable_end: DurableEnd | None = None,
    ) -> LocalLog:
        """Open or create the log in ``data_dir/__cluster_metadata-0``, exclusively until ``close``.

        Recovery truncates an unfinished or damaged end, rebuilds indexes and epochs, and removes
        what a crash left behind. ``disk`` is for tests. ``durable_end`` is called once, under the
        lock, by a caller that relies on more than the committed records (a voter relies on every
        synced one): a bad batch before that offset is damage and not a torn end. Default: the high
        watermark.

        Raises LogLocked; LogDamaged if committed records are lost or a small file cannot be read,
        and what ``durable_end`` raises, before any record is changed; DiskFailed.
        """
        disk = disk or Disk(fsync=settings.fsync)
        problems: list[str] = []
        data = DataDirectory(data_dir, disk, problems)
        try:
            directory = data_dir / PARTITION_DIRECTORY
            disk.make_directory(directory)
            files = MetadataFiles(directory, disk)
            data.remove_leftovers()
            # Under the lock and before recovery, which would cut a bad end off.
            durable = durable_end(data, directory, files) if durable_end else data.high_watermark
            # Without fsync a crash of the machine may lose any suffix of the log: that is not
            # damage.
            loaded = recovery.recover(
                directory,
                disk,
                settings,
                durable if settings.fsync else 0,
                problems,
                recovery_point=_recovery_point(data) if settings.fsync else 0,
            )
            rolls = rolls_by_size_and_age(settings)
            log = UnifiedLog(directory, disk, settings, loaded, rolls=rolls, problems=problems)
            made = cls(log, data, files)
            # Recovery has cut records off, or began anew.
            made._lower_recovery_point(log.end_offset)
            return made
        except BaseException:
            data.close()
            raise

    # --- the log
    # -----------------------------------------------------------------------------------------

    @property
    def log(self) -> UnifiedLog:
        """The segments, for readers in this process."""
        return self._log

    @property
    def start_offset(self) -> int:
        """The first offset of the log: 0, or the end of the snapshot that replaced what was before
        it.
        """
        return self._log.start_offset

    @property
    def start_epoch(self) -> int:
        """Epoch of the record before ``start_offset``, 0 at offset 0."""
        return self._log.start_epoch

    @property
    def end_offset(self) -> int:
        """The offset of the next batch."""
        return self._log.end_offset

    @property
    def last_epoch(self) -> int:
        """As ``UnifiedLog.last_epoch``; without a batch, the epoch of the snapshot that the log
        starts at.
        """
        return self._log.last_epoch

    @property
    def epochs(self) -> tuple[tuple[int, int], ...]:
        """(epoch, first offset) of every epoch in the log, oldest first."""
        return self._log.epochs

    @property
    def flushed_offset(self) -> int:
        """The offset below which every record is known to be on disk."""
        return self._log.flushed_offset

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """As ``UnifiedLog.end_offset_for_epoch``."""
        return self._log.end_offset_for_epoch(epoch)

    def append(self, records: bytes | memoryview, *, crc_checked: bool = False) -> int:
        """As ``UnifiedLog.append``."""
        return self._log.append(records, crc_checked=crc_checked)

    def flush(self) -> None:
        """As ``UnifiedLog.flush``."""
        self._log.flush()

    def truncate_to(self, offset: int) -> None:
        """As ``UnifiedLog.truncate_to``, never below the high watermark."""
        self._log.guard.check()
        if offset < self.end_offset:
            self._lower_recovery_point(self.high_watermark)
        self._log.truncate_to(offset, high_watermark=self.high_watermark)

    @property
    def checkpoints(self) -> Checkpoints:
        """The checkpoint files of the data directory, for its other partitions."""
        return self._data.checkpoints

    # --- high watermark
    # -----------------------------------------------------------------------------------------

    @property
    def high_watermark(self) -> int:
        """The last high watermark set, also before a restart.

        At least the log start, because a log starts at a committed snapshot; at most the log end.
        """
        return max(self.start_offset, min(self._data.high_watermark, self.end_offset))

    def set_high_watermark(self, offset: int) -> None:
        """Store that everything below ``offset`` is committed, durably.

        It never decreases: a smaller offset is ignored. Raises ValueError above the log end;
        DiskFailed, LogFailed.
        """
        self._log.guard.check()
        if offset > self.end_offset:
            raise ValueError(
                f"the high watermark {offset} lies beyond the end of the log, {self.end_offset}"
            )
        # Often equal: ``close`` and ``clean`` of a voter store what may be stored already.
        if offset > self._data.high_watermark:
            # The records first: a high watermark on disk above the synced end would make recovery
            # report lost records as damage, although they were only never synced.
            if offset > self.flushed_offset:
                self.flush()
            with self._log.guard.one_file():
                self._data.write_high_watermark(offset)
            assert self.flushed_offset >= self._data.high_watermark == offset

    # --- snapshots
    # ---------------------------------------------------------------------------------------------

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        """The newest complete snapshot of any writer; never 0-0, the one from formatting.

        Raises DiskFailed.
        """
        with doing("read", self.directory):
            snapshots = list_directory(str(self.directory)).snapshots
        # By epoch first, as ``OffsetAndEpoch.compareTo`` does.
        return max(
            snapshots, key=lambda snapshot: (snapshot.epoch, snapshot.end_offset), default=None
        )

    def new_snapshot(
        self,
        snapshot_id: SnapshotId,
        *,
        before_freeze: Callable[[SnapshotId], None] = lambda snapshot_id: None,
    ) -> SnapshotWriter:
        """Create a writer of the snapshot that replaces the log up to ``snapshot_id``.

        ``before_freeze`` is called when the snapshot is whole, before a reader can see it. Raises
        DiskFailed, LogFailed.
        """
        self._log.guard.check()
        return SnapshotWriter(
            self._log.disk, self.directory, snapshot_id, before_freeze=before_freeze
        )

    def truncate_to_snapshot(self, snapshot_id: SnapshotId) -> None:
        """Drop the whole log and restart it, empty, at the snapshot's end and epoch.

        Older snapshots are deleted too. As ``KafkaMetadataLog.truncateToLatestSnapshot``: only for
        the newest snapshot, which must be complete on disk and beyond the log's end. ``open``
        finishes it after a crash. Raises SnapshotNotNewer and BelowHighWatermark before anything is
        changed; DiskFailed, LogFailed.
        """
        self._log.guard.check()
        # ``truncateToLatestSnapshot``: an older one would be superseded at the next start.
        if snapshot_id != self.latest_snapshot:
            raise SnapshotNotNewer(
                f"{self.directory}: {snapshot_id.file_name} is not the newest complete snapshot "
                "there"
            )
        # ``<=``: at exactly the log's end there is nothing to replace. Kafka answers False and its
        # caller throws.
        if (snapshot_id.epoch, snapshot_id.end_offset) <= (self.last_epoch, self.end_offset):
            raise SnapshotNotNewer(
                f"{self.directory}: the log, which ends at {self.end_offset} in epoch "
                f"{self.last_epoch}, is not behind {snapshot_id.file_name}"
            )
        action = f"begin anew at {snapshot_id.file_name}"
        refuse_below(self.high_watermark, snapshot_id.end_offset, action, self.directory)
        self._lower_recovery_point(snapshot_id.end_offset)
        self._log.truncate_fully_and_start_at(snapshot_id.end_offset, snapshot_id.epoch)
        with self._log.guard.several_steps():
            # The old snapshots go last: until the new segment exists, the old log may need one.
            retention.delete_snapshots_before(self.directory, self._log.disk, snapshot_id)
        assert self.start_offset == self.end_offset == snapshot_id.end_offset
        assert self.last_epoch == snapshot_id.epoch

    def clean(self, *, now_ms: int) -> list[str]:
        """Delete old snapshots, and the segments that the oldest remaining one replaces.

        Returns the names of the deleted files. As ``KafkaMetadataLog.maybeClean``: by total size,
        then by age at ``now_ms``; never the newest snapshot, nothing at or above the high
        watermark. Raises DiskFailed, LogFailed.
        """
        self._log.guard.check()
        log, before, end_offset = self._log, self.start_offset, self.end_offset
        with log.guard.several_steps():
            snapshot = retention.oldest_to_keep(
                self.directory, log.bases, log.settings, self.high_watermark, now_ms
            )
            if snapshot is None:
                return []
            # The oldest go first: the rest is at any instant a log that starts at a snapshot, or at
            # 0.
            deleted = log.delete_closed(retention.segments_before(log.bases, snapshot))
            deleted += retention.delete_snapshots_before(self.directory, log.disk, snapshot)
            start = log_start(list_directory(str(self.directory)))
            log.start_at(start.offset, start.epoch)
        assert before <= self.start_offset <= self.high_watermark <= self.end_offset == end_offset
        return deleted

    def checkpoint(self) -> None:
        """Make the end of the log its recovery point, before which a start reads nothing. Raises
        DiskFailed, LogFailed.
        """
        self._log.guard.check()
        # Without fsync nothing is known to be on disk.
        if self._log.settings.fsync and self.end_offset != _recovery_point(self._data):
            self._log.flush_with_indexes()
            with self._log.guard.one_file():
                self.checkpoints.recovery_points.write(*_PARTITION, self.end_offset)

    # --- small files
    # ---------------------------------------------------------------------------------------------

    @property
    def quorum_state(self) -> tuple[int, QuorumStateData] | None:
        """(data version, state) as last written; None if there is none.

        None is safe for an observer, which never votes. A voter checks before it trusts None
        (``gateway.log.metadata.voter_directory_check``).
        """
        return self._files.quorum_state

    @property
    def meta_properties(self) -> MetaProperties | None:
        """Cluster and node of the directory; None if it is not formatted."""
        return self._data.meta_properties

    def write_quorum_state(self, state: QuorumStateData, version: int) -> None:
        """Store leader, epoch and vote durably (``FileQuorumStateStore``).

        ``version`` is 0 while kraft.version is 0, else 1. Raises EncodeError, DiskFailed,
        LogFailed.
        """
        self._log.guard.check()
        with self._log.guard.one_file():
            self._files.write_quorum_state(state, version)

    def write_meta_properties(self, cluster_id: str, node_id: int, directory_id: Uuid) -> None:
        """Store cluster and node of the directory durably (``meta.properties`` version 1).

        Raises DiskFailed, LogFailed.
        """
        self._log.guard.check()
        with self._log.guard.one_file():
            self._data.write_meta_properties(cluster_id, node_id, directory_id)

    def close(self) -> None:
        """Flush everything and release the directory's lock. Idempotent.

        Raises DiskFailed; the lock is released then too.
        """
        is_whole = not self._log.guard.reason
        try:
            self._log.close()
            if is_whole and self._log.settings.fsync:
                # Behind the sync of the batches and the indexes.
                self.checkpoints.recovery_points.write(*_PARTITION, self.end_offset)
        finally:
            self._data.close()

    def _lower_recovery_point(self, offset: int) -> None:
        """Make ``offset`` the recovery point if that is beyond it: other records will take the
        offsets behind. Raises DiskFailed, LogFailed.
        """
        if _recovery_point(self._data) > offset:
            with self._log.guard.one_file():
                self.checkpoints.recovery_points.lower(*_PARTITION, offset)


def _recovery_point(data: DataDirectory) -> int:
    """Return the offset before which batches and indexes were on disk, 0 if that is not known."""
    return data.checkpoints.recovery_points.get(*_PARTITION) or 0
