"""Stores the log, the vote and the snapshots of a voter in Kafka's format.

Blocking, for one thread at a time. It promises more than
:class:`gateway.log.metadata.local_log.LocalLog`: a voter never loses a record or a vote that was
durable, and refuses to open a directory in which that has happened. Follows ``KafkaMetadataLog``
and ``FileQuorumStateStore``.

Changes are durable in order. ``persist``, ``truncate_to`` and ``truncate_to_snapshot`` are durable
when they return, ``append`` after the next ``flush``, one for all appends. After a crash the log
has a prefix of the appends since the last flush, and every ``persist`` that came before them.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Sequence
from pathlib import Path

from gateway.base.leader_epochs import OUT_OF_REACH
from gateway.log.files import meta_properties, quorum_state
from gateway.log.files.disk import Disk, doing
from gateway.log.files.errors import BelowHighWatermark, LogDamaged, LogError, SnapshotNotNewer
from gateway.log.files.meta_properties import MetaProperties
from gateway.log.files.offset_checkpoint import Checkpoints
from gateway.log.files.recovery_point import RecoveryPoint, RecoveryPointFile
from gateway.log.files.write_guard import WriteGuard
from gateway.log.metadata.control_records import read_control_records, read_snapshot_head
from gateway.log.metadata.listing import list_directory
from gateway.log.metadata.local_log import LocalLog, LogSettings, SnapshotWriter
from gateway.log.metadata.stored_facts import Election, StoredFacts
from gateway.log.metadata.voter_directory_check import (
    VoterDirectoryCheck,
    check_epoch,
    not_formatted,
    with_voter_advice,
)
from gateway.log.partition.unified_log import UnifiedLog
from kwire.messages.quorum_state_data import QuorumStateData, Voter
from kwire.messages.voters_record import VotersRecord
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.uuid import ZERO_UUID, Uuid


class RaftStore:
    """The files of a node of a quorum in ``data_dir``, opened by ``open``.

    A change that fails raises DiskFailed or SyncFailed, and every later one LogFailed: the state of
    the disk is then unknown, and the process must end. Bytes that ``append`` and
    ``truncate_to_snapshot`` refuse leave the store unchanged. ``problems`` has one sentence for
    each thing that ``open`` found and repaired.
    """

    def __init__(
        self, log: LocalLog, point: RecoveryPointFile, static_voters: Sequence[int]
    ) -> None:
        """For :meth:`open`."""
        self.directory = log.directory
        self.problems = log.problems
        self._log = log
        self._point = point
        self._static_voters = [Voter(voter_id=voter) for voter in static_voters]
        self._guard = WriteGuard(log.directory, "; the process has to be started again")
        # The note may be newer than ``high-watermark``, which only ``close`` and ``clean`` write.
        self._high_watermark = max(
            log.high_watermark, log.start_offset, min(point.point.high_watermark, log.end_offset)
        )

    @classmethod
    def open(
        cls,
        data_dir: Path,
        settings: LogSettings,
        *,
        node_id: int,
        cluster_id: str | None = None,
        static_voters: Sequence[int] = (),
        disk: Disk | None = None,
    ) -> RaftStore:
        """Open the formatted directory of node ``node_id``, exclusively until ``close``.

        ``cluster_id``: the cluster that it must belong to, None for any. ``static_voters``: the ids
        in ``controller.quorum.voters``, which a ``quorum-state`` of version 0 names. ``disk`` is
        for tests. Raises NotFormatted, WrongNode, QuorumStateLost, LogDamaged, before anything is
        changed; LogLocked, DiskFailed.
        """
        disk = disk or Disk(fsync=settings.fsync)
        # Before ``LocalLog.open``, which would create the directory of an unformatted node.
        with doing("look at", data_dir):
            if not (data_dir / meta_properties.FILE_NAME).exists():
                raise not_formatted(data_dir)
        point = RecoveryPointFile(data_dir, disk)
        try:
            log = LocalLog.open(
                data_dir,
                settings,
                disk=disk,
                durable_end=VoterDirectoryCheck(node_id, cluster_id, point).durable_end,
            )
            store = cls(log, point, static_voters)
            try:
                store._begin()
            except BaseException:
                with contextlib.suppress(LogError):
                    store.close()
                raise
        except LogDamaged as error:
            raise with_voter_advice(error) from None
        return store

    # --- content
    # ---------------------------------------------------------------------------------------------

    @property
    def cluster_id(self) -> str:
        """As in meta.properties."""
        return self._meta.cluster_id or ""

    @property
    def directory_id(self) -> Uuid:
        """Identity of this directory (KIP-853), as in meta.properties."""
        return self._meta.directory_id or ZERO_UUID

    @property
    def log(self) -> UnifiedLog:
        """As ``LocalLog.log``."""
        return self._log.log

    @property
    def checkpoints(self) -> Checkpoints:
        """As ``LocalLog.checkpoints``."""
        return self._log.checkpoints

    @property
    def start_offset(self) -> int:
        """As ``LocalLog.start_offset``."""
        return self._log.start_offset

    @property
    def end_offset(self) -> int:
        """The offset of the next batch."""
        return self._log.end_offset

    @property
    def flushed_offset(self) -> int:
        """The offset below which every record is known to be on disk."""
        return self._log.flushed_offset

    @property
    def high_watermark(self) -> int:
        """The last one set, at least the log start. A power failure may lose the newest ones."""
        return self._high_watermark

    @property
    def snapshots(self) -> tuple[SnapshotId, ...]:
        """The complete snapshots, ascending, without the one from formatting. Raises DiskFailed."""
        with doing("read", self.directory):
            return list_directory(str(self.directory)).snapshots

    def stored(self) -> StoredFacts:
        """Return the content of the disk for the start of the core. Raises LogDamaged,
        DiskFailed.
        """
        log = self._log
        with doing("read", self.directory):
            control = read_control_records(self.directory)
        assert log.quorum_state is not None
        state = log.quorum_state[1]
        return StoredFacts(
            Election(state.leader_epoch, state.leader_id, state.voted_id, state.voted_directory_id),
            log.start_offset,
            log.start_epoch,
            log.end_offset,
            log.epochs,
            self.snapshots,
            self._high_watermark,
            control.voters,
            control.kraft_versions,
        )

    # --- election state
    # --------------------------------------------------------------------------------------

    def persist(
        self,
        epoch: int,
        leader_id: int = -1,
        voted_id: int = -1,
        voted_directory_id: Uuid = ZERO_UUID,
        *,
        kraft_version: int,
    ) -> None:
        """Replace ``quorum-state``, durable when this returns. -1: no leader, no vote.

        The file has Kafka's version 0 while ``kraft_version`` is 0, else 1. Raises ElectionGoesBack
        for an epoch below the one on disk, another leader or vote in the same epoch; DiskFailed,
        LogFailed.
        """
        self._guard.check()
        version = min(kraft_version, 1)
        state = QuorumStateData(leader_id=leader_id, leader_epoch=epoch, voted_id=voted_id)
        if version:
            state.voted_directory_id = voted_directory_id
        else:
            state.current_voters = list(self._static_voters)
        old = self._log.quorum_state
        # The core gives up an epoch out of reach at its start.
        if old is not None and old[1].leader_epoch <= self._log.last_epoch + OUT_OF_REACH:
            quorum_state.check_moves_forward(self.directory / quorum_state.FILE_NAME, old[1], state)
            # Not in another version of the file: an upgrade of kraft.version rewrites it.
            if old == (version, state):
                return
        with self._guard.several_steps():
            self._log.write_quorum_state(state, version)

    # --- the log
    # ---------------------------------------------------------------------------------------------

    def append(
        self, base_offset: int, data: bytes | memoryview, *, crc_checked: bool = False
    ) -> int:
        """Append whole batches verbatim, the first at ``base_offset``; return the new end. Durable
        after ``flush``. ``crc_checked``: the caller has checked each CRC.

        Raises ValueError if the log does not end at ``base_offset``, and DecodeError for bad
        batches, before anything is appended; DiskFailed, LogFailed.
        """
        log = self._log
        self._guard.check()
        if base_offset != log.end_offset:
            raise ValueError(
                f"a batch for offset {base_offset} cannot be appended: {self.directory} ends at "
                f"{log.end_offset}"
            )
        try:
            return log.append(data, crc_checked=crc_checked)
        # DecodeError is no LogError: a leader that sends bad bytes does not stop this node.
        except LogError as error:
            self._guard.fail(error)
            raise

    def flush(self) -> int:
        """Return the log's end once everything before it is on disk, with one fsync for all
        appends.

        Raises SyncFailed, after which the state of the disk is unknown; LogFailed.
        """
        self._guard.check()
        with self._guard.several_steps():
            self._log.flush()
            # After the sync: the note must never claim more than the disk has.
            if self._log.end_offset > self._point.point.synced:
                self._point.note(self._here())
        assert self._log.flushed_offset == self._log.end_offset, "everything is flushed"
        return self._log.end_offset

    def truncate_to(self, offset: int) -> None:
        """Drop everything from ``offset`` on, and the batch that holds it; durable when this
        returns.

        Raises BelowHighWatermark before anything is changed; DiskFailed, LogFailed.
        """
        self._guard.check()
        if offset >= self._log.end_offset:
            return
        # Kafka's ``KafkaMetadataLog.truncateTo`` throws IllegalArgumentException for it.
        self._refuse_committed(offset, f"truncate to offset {offset}")
        with self._guard.several_steps():
            # The point first, durably: with the old one, a start after a crash in between would
            # take the shorter log for one that lost synced records.
            self._point.settle(RecoveryPoint(self._high_watermark, self._high_watermark))
            self._log.truncate_to(offset)
        assert self._high_watermark <= self._log.end_offset <= offset

    def set_high_watermark(self, offset: int) -> None:
        """Note that everything below ``offset`` is committed. The note survives the process, and
        not always a power failure.

        It never decreases: a smaller offset is ignored. Raises ValueError above the flushed offset;
        DiskFailed, LogFailed.
        """
        self._guard.check()
        if offset <= self._high_watermark:
            return
        if offset > self._log.flushed_offset:
            raise ValueError(
                f"the high watermark {offset} lies beyond what is on disk, "
                f"{self._log.flushed_offset}"
            )
        # No sync: a voter learns the high watermark again from the quorum, which cannot go below
        # it.
        self._high_watermark = offset
        assert self._log.start_offset <= offset <= self._log.flushed_offset
        with self._guard.several_steps():
            self._point.note(self._here())

    # --- snapshots
    # ---------------------------------------------------------------------------------------------

    def new_snapshot(self, snapshot_id: SnapshotId) -> SnapshotWriter:
        """Return a writer of a snapshot, the leader's or this node's. Raises DiskFailed, LogFailed.

        No reader sees it before it is frozen. This node's own may be written in another thread
        while the log changes.
        """
        self._guard.check()
        return self._log.new_snapshot(snapshot_id, before_freeze=self._make_way)

    def truncate_to_snapshot(self, snapshot_id: SnapshotId) -> tuple[VotersRecord | None, int]:
        """Restart the log, empty, at the end of a frozen snapshot; durable when this returns.

        Returns voters and kraft.version from its first batch, None and 0 if they are not in it.
        ``open`` finishes it after a crash. Raises SnapshotNotNewer, BelowHighWatermark before
        anything is changed; LogDamaged, DiskFailed, LogFailed.
        """
        self._guard.check()
        # Kafka's ``truncateToLatestSnapshot`` does not compare it with the high watermark.
        self._refuse_committed(snapshot_id.end_offset, f"begin anew at {snapshot_id.file_name}")
        try:
            self._log.truncate_to_snapshot(snapshot_id)
        except SnapshotNotNewer:
            raise
        except BaseException as error:
            self._guard.fail(error)
            raise
        # A snapshot holds committed records only (KIP-630).
        self._high_watermark = snapshot_id.end_offset
        assert self._log.start_offset == self._log.end_offset == self._high_watermark
        with self._guard.several_steps(), doing("read", self.directory):
            self._point.note(self._here())
            version, voters = read_snapshot_head(self.directory, snapshot_id)
        return voters, version

    def clean(self, *, now_ms: int) -> list[str]:
        """Delete old snapshots and the segments before them, as ``LocalLog.clean``, and move the
        recovery point to the end of the log; return the names of the files.

        Raises DiskFailed, LogFailed.
        """
        self._guard.check()
        with self._guard.several_steps():
            # LocalLog deletes nothing above its own high watermark, which is the durable one.
            self._log.set_high_watermark(self._high_watermark)
            deleted = self._log.clean(now_ms=now_ms)
        # Afterwards: a full disk may have space now. Otherwise a start reads more.
        with self._guard.one_file():
            self._log.checkpoint()
        return deleted

    def close(self) -> None:
        """Flush everything and release the directory. Idempotent. Raises DiskFailed; the directory
        is released then too.
        """
        try:
            if not self._guard.reason:
                self._guard.fail("it was closed")
                self._log.flush()
                self._log.set_high_watermark(self._high_watermark)
                self._point.settle(self._here())
        finally:
            self._point.close()
            self._log.close()

    # --- inside
    # ---------------------------------------------------------------------------------------------

    @property
    def _meta(self) -> MetaProperties:
        meta = self._log.meta_properties
        assert meta is not None
        return meta

    def _begin(self) -> None:
        """Write the files that a voter needs. Raises QuorumStateLost, LogDamaged, DiskFailed."""
        log = self._log
        # A voter without the file is refused before (``VoterDirectoryCheck``), unless it has never
        # run.
        if log.quorum_state is not None:
            check_epoch(self.directory, log.quorum_state[1], log.last_epoch)
        # Kafka before KIP-858, and version 0 of the file, have no directory id.
        if self._meta.directory_id is None:
            log.write_meta_properties(
                self.cluster_id, self._meta.node_id or 0, Uuid(uuid.uuid4().bytes)
            )
        if log.quorum_state is None:
            with doing("read", self.directory):
                versions = read_control_records(self.directory).kraft_versions
            # So that a missing file means a lost one from now on.
            self.persist(0, kraft_version=versions[-1][1] if versions else 0)
        self._point.settle(self._here())

    def _here(self) -> RecoveryPoint:
        return RecoveryPoint(self._log.flushed_offset, self._high_watermark)

    def _make_way(self, snapshot_id: SnapshotId) -> None:
        """Lower the recovery point before a snapshot becomes visible that supersedes the log."""
        log = self._log
        # Once the name is on disk, a start drops the log for the snapshot, and the records in it
        # are not lost but replaced.
        if (snapshot_id.epoch, snapshot_id.end_offset) > (log.last_epoch, log.end_offset):
            self._refuse_committed(snapshot_id.end_offset, f"take {snapshot_id.file_name}")
            with self._guard.several_steps():
                self._point.settle(RecoveryPoint(self._high_watermark, self._high_watermark))

    def _refuse_committed(self, offset: int, what: str) -> None:
        if offset < self._high_watermark:
            raise BelowHighWatermark(
                f"refused to {what}: what lies below the high watermark {self._high_watermark} of "
                f"{self.directory} is committed; the quorum has lost it, or it is another one than "
                "before: compare cluster ids and the leader's log"
            )
