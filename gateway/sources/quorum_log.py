"""Performs the core's effects on a log, and serves its committed records.

The log is a voter's, or an observer's copy of another quorum's. :meth:`QuorumLog.perform` runs in a
thread, everything else on the event loop. Clients see only records that are committed and on disk;
peers get what is on disk, committed or not. A voter whose files cannot be read back stops, because
other nodes rely on them. An observer keeps serving the records that it served before, and reports
the damage (``gateway.sources.quorum_log_policies``).
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from gateway.log.files.disk import free_bytes
from gateway.log.files.errors import LogError, SnapshotNotNewer
from gateway.log.files.problem import Problem
from gateway.log.reading.own_log import OwnLog
from gateway.log.reading.recent_batches import RecentBatches
from gateway.ports.services import Isolation, State
from gateway.quorum.effects import (
    AbandonSnapshot,
    Advance,
    Append,
    BeginSnapshot,
    DiskEffect,
    InstallSnapshot,
    LearnClusterId,
    LogRange,
    Persist,
    SnapshotChunk,
    SnapshotRange,
    Truncate,
)
from gateway.quorum.events import Installed, NotInstalled
from gateway.quorum.voter_set import VoterSet
from gateway.sources import log_reader
from gateway.sources.committed_view import up_to_high_watermark
from gateway.sources.log_partition import LogPartition
from gateway.sources.quorum_log_policies import BatchesRefused, LogUnreadable, policy_of
from gateway.sources.snapshot_locks import LockedSnapshotWriter, SnapshotBusy, SnapshotLocks
from kwire.errors import DecodeError
from kwire.metadata_log.open_file import OpenFile

if TYPE_CHECKING:
    from gateway.log.metadata.observer_store import ObserverStore
    from gateway.log.metadata.raft_store import RaftStore
    from gateway.ports.services import Read
    from kwire.metadata_log.snapshot_id import SnapshotId


#: Interval at which a log that is written compares its files with what it wrote, ns.
_CHECK_INTERVAL_NS: Final = 1_000_000_000


class QuorumLog(LogPartition):
    """``gateway.ports.services.Partition`` over a store.

    Only one thread at a time changes the log: the caller of ``perform``, ``write_high_watermark``
    or ``clean`` holds a lock. Only ``new_snapshot`` and its result may be used beside it.
    ``leader_alive``: there is a leader, and it answers; ``caught_up``: the log has once been where
    the leader's high watermark was. The driver sets both.
    """

    def __init__(self, store: RaftStore | ObserverStore, *, snapshot_prefix: bool) -> None:
        """Open the log for readers. Raises LogUnreadable if it cannot be read."""
        super().__init__(cluster_id=store.cluster_id, log_dir=str(store.directory.parent))
        self.store = store
        self._policy = policy_of(store)
        self.leader_alive = False
        self.caught_up = False
        self.epoch = 0  #: of the newest leader known
        self.leader_id = -1
        self.committed = store.high_watermark  #: one past what is committed, and durable here
        self._knows_end = self.committed > 0
        self._stored_high_watermark = self.committed
        self.recent = RecentBatches()  #: for the loader of the image
        self._writer: LockedSnapshotWriter | None = None
        self._names = SnapshotLocks()
        self._damage: Problem | None = None
        self._unreachable: Problem | None = None
        self._suspects: set[int] = set()  # offsets whose batch a reader did not find
        self._check_at = 0  # ns of the monotonic clock
        try:
            self._reader = OwnLog(store.log, snapshot_prefix=snapshot_prefix)
            why = self._fault()
        except OSError as error:
            why = _problem(error, self.log_dir)
        if why is not None:
            raise LogUnreadable(f"{why}; {self._policy.advice}")
        self.publish()

    # --- effects of the core (in a thread)
    # -----------------------------------------------------------------------

    def perform(self, effects: Sequence[DiskEffect | Advance]) -> list[Installed | NotInstalled]:
        """Perform the effects in order; they are durable when this returns.

        Raises LogError, after which a voter may acknowledge nothing more; an observer may start
        again from its disk.
        """
        outcome: list[Installed | NotInstalled] = []
        try:
            for effect in effects:
                self._perform(effect, outcome)
            # One sync for all appends (group commit).
            self.store.flush()
        except LogError:
            # The log may have ended before what was appended.
            self.recent.clear()
            self._abandon()
            self._refresh()
            raise
        self._refresh()
        self._check_files()
        self._policy.check_damage(self._damage)
        return outcome

    def _perform(
        self, effect: DiskEffect | Advance, outcome: list[Installed | NotInstalled]
    ) -> None:
        match effect:
            case Append(_, base_offset, data):
                self._append(base_offset, data)
            case Advance(high_watermark):
                if high_watermark > self.committed:
                    self.store.set_high_watermark(high_watermark)
                    self.committed = self._stored_high_watermark = high_watermark
            case Persist(_, state, kraft_version):
                self.store.persist(
                    state.epoch,
                    state.leader_id,
                    state.voted_id,
                    state.voted_directory_id,
                    kraft_version=kraft_version,
                )
                self._policy.persisted(state.epoch)
            case Truncate(_, offset):
                self.recent.truncate_to(offset)
                self.store.truncate_to(offset)
                # Before other records take these offsets.
                self._refresh()
                self._policy.check_cut(offset)
            case BeginSnapshot(snapshot_id):
                self._abandon()
                self._writer = LockedSnapshotWriter(
                    self._names, snapshot_id, self.store.new_snapshot
                )
            case SnapshotChunk():
                if self._writer is not None and (refused := self._write_chunk(effect)) is not None:
                    outcome.append(refused)
            case InstallSnapshot(_, snapshot_id):
                outcome.append(self._install(snapshot_id))
            case AbandonSnapshot():
                self._abandon()
            case LearnClusterId(_, cluster_id):
                self._policy.learn_cluster_id(cluster_id)
                self.cluster_id = cluster_id

    def _append(self, base_offset: int, data: bytes | memoryview) -> None:
        try:
            # The core has computed each CRC: of a response before it took it, of its own batches
            # when it encoded them.
            end_offset = self.store.append(base_offset, data, crc_checked=True)
        except DecodeError as error:
            raise BatchesRefused(
                f"{self.store.directory} does not take what came for offset {base_offset}: {error}"
            ) from None
        # In memory before it is on disk: the loader stops at the high watermark.
        self.recent.append(base_offset, end_offset, data)

    def _write_chunk(self, chunk: SnapshotChunk) -> NotInstalled | None:
        """Write a chunk if the disk can hold the rest of the snapshot: a full disk would stop this
        node and all others that write there. The chunks behind a refused one are dropped.
        """
        writer = self._writer
        assert writer is not None, "a chunk belongs to a snapshot"
        free, needed = free_bytes(self.store.directory), chunk.size - chunk.position
        if needed > free:
            self._abandon()
            return NotInstalled(
                writer.snapshot_id,
                f"{needed} of its {chunk.size} bytes are still to come, and {free} are free in"
                f" {self.store.directory}: free some, or look at the leader's file",
            )
        writer.write(chunk.position, chunk.data)
        return None

    def _install(self, snapshot_id: SnapshotId) -> Installed | NotInstalled:
        if self._writer is None:
            return NotInstalled(snapshot_id, "the disk could not hold it")
        try:
            self._writer.freeze()
            self._writer = None
            self.recent.clear()
            voters, kraft_version = self.store.truncate_to_snapshot(snapshot_id)
            proven = self._policy.committed_by_snapshot(snapshot_id.end_offset)
            if proven > self.committed:
                self.committed = self._stored_high_watermark = proven
            return Installed(
                snapshot_id,
                VoterSet.of_record(voters) if voters is not None else None,
                kraft_version,
            )
        except (DecodeError, SnapshotNotNewer, SnapshotBusy, ValueError) as error:
            self._abandon()
            return NotInstalled(snapshot_id, str(error))

    def _abandon(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.abandon()

    def _refresh(self) -> None:
        """Show readers what was written. Records that are served already stay so after a
        failure.
        """
        try:
            self._reader.refresh()
            self._unreachable = None
        except OSError as error:
            self._unreachable = _problem(error, self.log_dir)

    def _check_files(self) -> None:
        """Set the damage, from time to time and when a reader has met some: the files are not what
        was written.
        """
        if self._unreachable is not None:
            # Readers have an older view than the files.
            self._damage = self._policy.damage_of(self._unreachable) or self._damage
        elif (now := time.monotonic_ns()) >= self._check_at or self._damage is not None:
            self._check_at = now + _CHECK_INTERVAL_NS
            try:
                self._damage = self._fault()
            except OSError as error:
                self._damage = _problem(error, self.log_dir)

    def _fault(self) -> Problem | None:
        """Return how the files differ from what was written. Raises OSError."""
        suspects = tuple(self._suspects)
        problem = self._reader.fault(self._policy.needed_end(self.committed), suspects)
        if problem is None:
            self._suspects.difference_update(suspects)
        return problem

    def write_high_watermark(self) -> None:
        """Store the high watermark. Raises LogError."""
        committed = self.committed
        self.store.set_high_watermark(committed)
        self._stored_high_watermark = committed

    def clean(self, now_ms: int) -> list[str]:
        """Delete what exceeds the retention and is in a later snapshot; return the names of the
        files. Raises LogError.
        """
        try:
            self.write_high_watermark()
            return self.store.clean(now_ms=now_ms)
        finally:
            self._refresh()

    def new_snapshot(self, snapshot_id: SnapshotId) -> LockedSnapshotWriter:
        """Return the writer of a snapshot of this node's, for any thread beside ``perform``. Raises
        SnapshotBusy, LogError.
        """
        return LockedSnapshotWriter(self._names, snapshot_id, self.store.new_snapshot)

    def close(self) -> None:
        """Store the high watermark and release the directory. Raises LogError; the directory is
        released then too.
        """
        try:
            self._abandon()
            if self.high_watermark_dirty:
                self.write_high_watermark()
        finally:
            self.store.close()

    # --- the partition that clients see (on the event loop)
    # -------------------------------------------------------------------------------

    def commit(self, high_watermark: int) -> None:
        """Serve the records below ``high_watermark``, which are committed and durable.

        For a voter; an observer performs ``Advance`` first, so that its high watermark is durable.
        """
        if high_watermark > self.committed:
            self.committed = high_watermark
            self.publish()

    def lead(self, epoch: int, leader_id: int) -> None:
        """Set the newest known epoch and its leader (-1: none)."""
        self.epoch, self.leader_id = epoch, leader_id
        is_led = self._policy.is_led_by(leader_id)
        if is_led is not None:
            self.leader_alive = is_led
            self.serve(self.served, notify=True)

    @property
    def high_watermark_dirty(self) -> bool:
        """Whether the high watermark on disk is lower than the one in memory."""
        return self.committed > self._stored_high_watermark

    def publish(self) -> None:
        """Serve the written records up to the high watermark."""
        # Records that are served already stay, and none behind damage are added.
        if self._damage is not None or self._unreachable is not None:
            return
        try:
            visible = up_to_high_watermark(self._reader.view, self.committed)
        except OSError as error:
            self._damage = _problem(error, self.log_dir)
            return
        old, epoch_moved = self.served, self._policy.show_epoch()
        if visible.end_offset >= old.end_offset:
            moved = (visible.start_offset, visible.end_offset) != (old.start_offset, old.end_offset)
            self.serve(visible, notify=moved or epoch_moved)

    @property
    def state(self) -> State:
        """LOADING until the end of the log is known: stored before the restart, or reached once at
        the leader.
        """
        was_reached = self._knows_end or self.caught_up
        if self._damage is not None:
            return self._policy.state_of_damage(was_reached=was_reached)
        if not self._policy.knows_end(was_reached=was_reached, committed=self.committed):
            return State.LOADING
        return State.READY if self.leader_alive else State.STALE

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The current faults of the files."""
        found = (self._unreachable, self._damage, *self.served.notices)
        return tuple(dict.fromkeys(problem for problem in found if problem))

    @property
    def leader_epoch(self) -> int:
        """The quorum's epoch, also before its first record is committed. It never decreases."""
        return max(self._policy.shown_epoch(self.epoch), self.served.epoch)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """As in Kafka; an epoch that has committed nothing yet ends at the log's end."""
        epochs = self.served.epochs
        if epochs and epochs[-1][0] < epoch <= self.leader_epoch:
            return epochs[-1][0], self.served.end_offset
        return self.served.end_offset_for_epoch(epoch)

    def committed_epoch_at(self, offset: int) -> int:
        """Return the epoch of the record at ``offset``; -1 if it is not committed, or only in a
        snapshot.
        """
        return self.epoch_at(offset) if self.store.start_offset <= offset < self.committed else -1

    def read(
        self, offset: int, max_bytes: int, isolation: Isolation = Isolation.HIGH_WATERMARK
    ) -> Read:
        """As ``LogPartition.read``. Where the files no longer have the batch, the log is BROKEN at
        least until it is written next, when the files are compared again.
        """
        found = super().read(offset, max_bytes)
        if not found.size and offset < self.high_watermark:
            self._suspects.add(offset)
            self._damage = self._damage or self._reader.missing(offset)
        return found

    # --- reads of peers
    # -----------------------------------------------------------------------------------------

    def read_range(self, wanted: LogRange) -> Read:
        """Return whole batches from the one that holds the offset. Raises OSError."""
        visible = up_to_high_watermark(self._reader.view, wanted.end)
        return log_reader.read(visible, wanted.offset, wanted.max_bytes)

    def read_snapshot(self, wanted: SnapshotRange) -> tuple[int, bytes]:
        """Return the size of the file, and its bytes from the position on. Raises OSError."""
        file = OpenFile(os.path.join(self.store.directory, wanted.id.file_name))
        size, _ = file.status()
        return size, os.pread(file.fd, wanted.max_bytes, wanted.position)


def _problem(error: OSError, log_dir: str) -> Problem:
    return Problem(str(error.filename or log_dir), -1, error.strerror or str(error))
