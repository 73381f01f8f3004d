"""The ``own`` source: the log of this node's part in a quorum of ours, served as far as it is committed.

The quorum's core decides; what it wants of the files is done here, in two halves: :meth:`OwnLog.perform` changes files and may
take its time, everything else runs on the event loop. Clients see nothing that is not committed; peers are given what is
durable here, committed or not.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.log.chain import Chain
from gateway.log.errors import LogError, SnapshotNotNewer
from gateway.log.follower import DirectoryFollower
from gateway.log.problem import Problem
from gateway.ports import State
from gateway.quorum.raft.effects import (
    AbandonSnapshot,
    Append,
    BeginSnapshot,
    DiskEffect,
    InstallSnapshot,
    LogRange,
    Persist,
    SnapshotChunk,
    SnapshotRange,
    Truncate,
)
from gateway.quorum.raft.events import Installed, NotInstalled
from gateway.quorum.raft.voter_set import VoterSet
from gateway.sources import chain_reader
from gateway.sources.chain_partition import EMPTY, ChainPartition
from gateway.sources.clip import clip
from gateway.sources.named_writer import NamedWriter, Names, SnapshotBusy
from kwire.errors import DecodeError

if TYPE_CHECKING:
    from gateway.log.raft_store import RaftStore
    from gateway.ports import Read
    from gateway.snapshot_id import SnapshotId


class NotShown(LogError):
    """What is committed cannot be read back from the files."""


class OwnLog(ChainPartition):
    """``gateway.ports.Partition`` over a ``RaftStore``.

    What changes the log is for one thread at a time: who calls ``perform``, ``remember`` or ``clean`` holds a lock. Only
    ``new_snapshot`` and what it gives may be used beside it. ``in_touch``: there is a leader; the driver sets it.
    """

    def __init__(self, store: RaftStore, *, cluster_id: str, snapshot_prefix: bool) -> None:
        super().__init__(cluster_id=cluster_id, log_dir=str(store.directory.parent))
        self.store = store
        self.in_touch = False
        self.epoch = 0  #: of the newest leader known
        self.leader_id = -1
        self.committed = store.high_watermark  #: one past what is committed, and durable here
        self._remembered = self.committed
        self._follower = DirectoryFollower(str(store.directory), snapshot_prefix=snapshot_prefix)
        self._writer: NamedWriter | None = None
        self._names = Names()
        self._damage: Problem | None = None
        self._look()
        if self._damage is not None or self._follower.chain is None:
            raise NotShown(f"{self._damage or 'the log cannot be read'}; restore {store.directory} from a copy of this node")
        self._publish()

    # --- what the core wants done (in a thread) -----------------------------------------------------------------------

    def perform(self, effects: Sequence[DiskEffect]) -> list[Installed | NotInstalled]:
        """Do all of it, in order; durable when this returns. Raises LogError, after which nothing more may be acknowledged."""
        outcome: list[Installed | NotInstalled] = []
        for effect in effects:
            self._perform(effect, outcome)
        self.store.sync()
        self._look()
        if self._damage is not None:
            raise NotShown(str(self._damage))
        return outcome

    def _perform(self, effect: DiskEffect, outcome: list[Installed | NotInstalled]) -> None:
        match effect:
            case Append(_, base_offset, data):
                self.store.append(base_offset, data)
            case Persist(_, state, kraft_version):
                self.store.persist(
                    state.epoch, state.leader_id, state.voted_id, state.voted_directory_id, kraft_version=kraft_version
                )
            case Truncate(_, offset):
                self.store.truncate(offset)
                self._look()  # before anything new stands where the old did
            case BeginSnapshot(snapshot_id):
                self._abandon()
                self._writer = NamedWriter(self._names, snapshot_id, self.store.new_snapshot)
            case SnapshotChunk(position, data, _):
                assert self._writer is not None
                self._writer.write(position, data)
            case InstallSnapshot(_, snapshot_id):
                outcome.append(self._install(snapshot_id))
            case AbandonSnapshot():
                self._abandon()

    def _install(self, snapshot_id: SnapshotId) -> Installed | NotInstalled:
        assert self._writer is not None
        try:
            self._writer.freeze()
            self._writer = None
            voters, kraft_version = self.store.install(snapshot_id)
            return Installed(snapshot_id, VoterSet.of_record(voters) if voters is not None else None, kraft_version)
        except (DecodeError, SnapshotNotNewer, SnapshotBusy, ValueError) as error:
            self._abandon()
            return NotInstalled(snapshot_id, str(error))

    def _abandon(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.abandon()

    def _look(self) -> None:
        """Read what was written, as the serving side does."""
        follower = self._follower
        while follower.step():
            pass
        self._damage = follower.unreachable
        if self._damage is None and follower.chain is not None and follower.chain.end_offset < self.store.end_offset:
            self._damage = follower.chain.broken or Problem(self.log_dir, -1, "less can be read back than was written")

    def remember(self) -> None:
        """Write down what is committed. Raises LogError."""
        committed = self.committed
        self.store.set_high_watermark(committed)
        self._remembered = committed

    def clean(self, now_ms: int) -> list[str]:
        """Delete what is too old or too much and stands in a later snapshot; the names of what went. Raises LogError."""
        try:
            self.remember()
            return self.store.clean(now_ms=now_ms)
        finally:
            self._look()

    def new_snapshot(self, snapshot_id: SnapshotId) -> NamedWriter:
        """For a snapshot of our own, written in any thread while ``perform`` goes on. Raises SnapshotBusy, LogError."""
        return NamedWriter(self._names, snapshot_id, self.store.new_snapshot)

    def close(self) -> None:
        """Let go of the directory, what is committed written down. Raises LogError; it is free then, too."""
        try:
            self._abandon()
            if self.owes_high_watermark:
                self.remember()
        finally:
            self.store.close()

    # --- what clients see (on the loop) -------------------------------------------------------------------------------

    def commit(self, high_watermark: int) -> None:
        """Everything below is committed and durable: clients see it from now on."""
        if high_watermark > self.committed:
            self.committed = high_watermark
            self._publish()

    def lead(self, epoch: int, leader_id: int) -> None:
        """Who leads now, -1 for nobody."""
        self.epoch, self.leader_id, self.in_touch = epoch, leader_id, leader_id >= 0
        self.show(self.served, tell=True)

    def publish(self) -> None:
        """Show where the log begins now."""
        self._publish()

    def committed_epoch_at(self, offset: int) -> int:
        """In which epoch the record there was written; -1 where it is not committed, or a snapshot stands for it."""
        return self.epoch_at(offset) if self.store.start_offset <= offset < self.committed else -1

    @property
    def owes_high_watermark(self) -> bool:
        """Is more committed than was written down?"""
        return self.committed > self._remembered

    def _publish(self) -> None:
        chain = self._follower.chain
        if chain is None:
            return
        try:
            shown = clip(chain, self.committed)
        except OSError as error:
            self._damage = Problem(str(error.filename or self.log_dir), -1, error.strerror or str(error))
            return
        old = self.served
        if shown.end_offset >= old.end_offset:
            self.show(shown, tell=(shown.start_offset, shown.end_offset) != (old.start_offset, old.end_offset))

    @property
    def state(self) -> State:
        """LOADING until something is known to be committed."""
        if self._damage is not None:
            return State.BROKEN
        if not self.committed:
            return State.LOADING
        return State.READY if self.in_touch else State.STALE

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the log."""
        return tuple(problem for problem in (self._damage, *self.served.notices) if problem)

    @property
    def leader_epoch(self) -> int:
        """The quorum's, also before its first record of that epoch is committed."""
        return max(self.epoch, self.served.epoch)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """As in Kafka; an epoch that has begun but committed nothing yet ends where the log does."""
        epochs = self.served.epochs
        if epochs and epochs[-1][0] < epoch <= self.leader_epoch:
            return epochs[-1][0], self.served.end_offset
        return self.served.end_offset_for_epoch(epoch)

    # --- what peers are given -----------------------------------------------------------------------------------------

    def read_range(self, wanted: LogRange) -> Read:
        """Whole batches from the one that holds the offset. Raises OSError."""
        chain: Chain = self._follower.chain or EMPTY
        return chain_reader.read(clip(chain, wanted.end), wanted.offset, wanted.max_bytes)

    def read_snapshot(self, wanted: SnapshotRange) -> tuple[int, bytes]:
        """(size of the file, its bytes from the position on). Raises OSError."""
        with open(Path(self.store.directory) / wanted.id.file_name, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            return size, os.pread(file.fileno(), wanted.max_bytes, wanted.position)
