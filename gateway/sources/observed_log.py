"""The ``quorum`` source: the local copy of a real quorum's log, served as far as it is committed.

Somebody else asks the quorum; what its answers come to is done here, in two halves: :meth:`ObservedLog.perform` changes
files and may take its time, :meth:`ObservedLog.publish` shows the outcome to clients. Nothing is shown that is not on disk
(``metadata.log.fsync``), and what was shown is never taken back: the high watermark outlives the process.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Sequence
from pathlib import Path

from gateway.log.chain import Chain
from gateway.log.errors import LogError, SnapshotNotNewer
from gateway.log.follower import DirectoryFollower
from gateway.log.local_log import LocalLog, LogSettings
from gateway.log.problem import Problem
from gateway.ports import State
from gateway.quorum.effects import (
    AbandonSnapshot,
    Advance,
    Append,
    BeginSnapshot,
    Effect,
    InstallSnapshot,
    LearnClusterId,
    Remember,
    SnapshotChunk,
    Truncate,
)
from gateway.snapshot_id import SnapshotId
from gateway.sources.chain_partition import ChainPartition
from gateway.sources.clip import clip
from gateway.sources.errors import SourceError
from gateway.sources.named_writer import NamedWriter, Names, SnapshotBusy
from kwire.errors import DecodeError
from kwire.messages.quorum_state_data import QuorumStateData
from kwire.uuid import Uuid

#: The form of ``quorum-state`` that does not list the voters: an observer learns them from the log (KIP-853).
_QUORUM_STATE_VERSION = 1


def open_observed_log(
    data_dir: Path, settings: LogSettings, *, cluster_id: str | None, node_id: int, snapshot_prefix: bool
) -> ObservedLog:
    """The log in ``data_dir``, made if it is not there. ``cluster_id``: whose it has to be, if anybody's in particular.

    ``node_id`` stands in meta.properties, which Kafka's own tools want to be whole. Raises SourceError, also where the log is
    damaged below its high watermark: what clients were shown once could not be shown again.
    """
    try:
        log = LocalLog.open(data_dir, settings)
    except LogError as error:
        raise SourceError(str(error)) from None
    known = log.meta_properties.cluster_id if log.meta_properties else None
    if cluster_id is not None and known is not None and known != cluster_id:
        with contextlib.suppress(LogError):
            log.close()
        raise SourceError(
            f"{data_dir} holds the log of cluster {known}, not of {cluster_id}: give another directory, or that cluster's id"
        )
    observed = ObservedLog(log, node_id=node_id, snapshot_prefix=snapshot_prefix)
    try:
        observed.begin(cluster_id)
    except LogError as error:
        with contextlib.suppress(LogError):
            observed.close()
        raise SourceError(str(error)) from None
    return observed


class NotShown(LogError):
    """What is committed cannot be read back from the files."""


class ObservedLog(ChainPartition):
    """``gateway.ports.Partition`` over a ``LocalLog`` that follows a quorum.

    ``caught_up``: it has once been where the leader's high watermark was. ``in_touch``: the leader answers. Both are the
    driver's to set. What changes the log is for one thread at a time, and never while ``publish`` runs: who calls holds a
    lock. Only ``new_snapshot`` and what it gives may be used beside it.
    """

    def __init__(self, log: LocalLog, *, node_id: int, snapshot_prefix: bool) -> None:
        known = log.meta_properties
        super().__init__(cluster_id=(known.cluster_id if known else None) or "", log_dir=str(log.directory.parent))
        self.log = log
        self.node_id = node_id
        #: Identity of this copy (KIP-853): made up once, kept in meta.properties for ever.
        self.directory_id = (known.directory_id if known else None) or Uuid(uuid.uuid4().bytes)
        self.caught_up = False
        self.in_touch = False
        remembered = log.quorum_state[1] if log.quorum_state else QuorumStateData(leader_id=-1, leader_epoch=0)
        self.epoch = max(remembered.leader_epoch, log.last_epoch)  #: that of the newest leader known
        self.leader_id = remembered.leader_id if self.epoch == remembered.leader_epoch else -1
        self.committed = log.high_watermark  #: one past what is committed and here, as made durable
        self._knows_end = log.high_watermark > 0
        self._follower = DirectoryFollower(str(log.directory), snapshot_prefix=snapshot_prefix)
        self._writer: NamedWriter | None = None
        self._names = Names()
        self._next: Chain | None = None  # what publish will show
        self._shown_epoch = self.epoch
        self._damage: Problem | None = None  # why less can be read than was shown

    def begin(self, cluster_id: str | None) -> None:
        """Show what is committed. ``cluster_id`` becomes the log's own where it has none. Raises LogError."""
        if cluster_id is not None and not self.cluster_id:
            self._perform(LearnClusterId(cluster_id))
        self.look()
        damage = self._damage or self._follower.unreachable
        if damage is not None or self._next is None:
            advice = "restore it from a copy, or remove the whole data directory: it is fetched anew from the quorum"
            raise NotShown(f"{damage or 'the log cannot be read'}; {advice}")
        self.publish()

    # --- following ----------------------------------------------------------------------------------------------------

    def perform(self, effects: Sequence[Effect]) -> str | None:
        """Do what the observer wants done with the log, in order. Returns why the log refused the bytes that came, if it did.

        What stands behind a refused effect is not done. Raises DiskFailed, after which it may be tried again; LogError where
        only a person, or another start, can help: a disk that lost what it had taken, committed records that would go.
        """
        try:
            for effect in effects:
                self._perform(effect)
        except (DecodeError, SnapshotNotNewer, SnapshotBusy) as error:
            self._abandon()
            return str(error)
        finally:
            self.look()
        return None

    def settle(self) -> None:
        """Bring to disk what was appended, while the quorum still decides on it: then less is left to do. Raises LogError."""
        self.log.flush()

    def look(self) -> None:
        """Read what was written, as the serving side does, up to the high watermark.

        What cannot be read changes nothing of what is shown: a file that is damaged under us is a problem to be told, and no
        reason to take back what clients have seen.
        """
        follower = self._follower
        while follower.step():
            pass
        if follower.chain is None or follower.unreachable is not None:
            return
        try:
            chain = clip(follower.chain, self.committed)
        except OSError as error:
            self._damage = Problem(str(error.filename or self.log_dir), -1, error.strerror or str(error))
            return
        self._damage = follower.chain.broken if follower.chain.end_offset < self.committed else None
        if chain.end_offset >= self.served.end_offset:
            self._next = chain

    def publish(self) -> bool:
        """Show clients what ``look`` found; true if anything is new to them. On the event loop."""
        chain, old = self._next or self.served, self.served
        moved = (chain.start_offset, chain.end_offset) != (old.start_offset, old.end_offset) or self._shown_epoch != self.epoch
        self._shown_epoch = self.epoch
        self.show(chain, tell=moved)
        return moved

    def clean(self, now_ms: int) -> list[str]:
        """Delete what is too old or too much and stands in a later snapshot; the names of what went. Raises LogError."""
        try:
            return self.log.clean(now_ms=now_ms)
        finally:
            self.look()

    def new_snapshot(self, snapshot_id: SnapshotId) -> NamedWriter:
        """For a snapshot of our own, written in any thread while ``perform`` goes on. Raises SnapshotBusy, LogError."""
        return NamedWriter(self._names, snapshot_id, self.log.new_snapshot)

    def close(self) -> None:
        """Let go of the directory. Raises LogError; it is free then, too."""
        try:
            self._abandon()
        finally:
            self.log.close()

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Append(records):
                self.log.append(records)
            case Advance(high_watermark):
                self._commit(min(high_watermark, self.log.end_offset))
            case Truncate(offset):
                self.log.truncate_to(offset)
                self.look()  # before anything new stands where the old did
            case Remember(epoch, leader_id):
                state = QuorumStateData(leader_id=leader_id, leader_epoch=epoch, voted_id=-1)
                self.log.write_quorum_state(state, _QUORUM_STATE_VERSION)
                self.epoch, self.leader_id = epoch, leader_id
            case LearnClusterId(cluster_id):
                self.log.write_meta_properties(cluster_id, self.node_id, self.directory_id)
                self.cluster_id = cluster_id
            case BeginSnapshot(snapshot_id):
                self._abandon()
                self._writer = NamedWriter(self._names, snapshot_id, self.log.new_snapshot)
            case SnapshotChunk(position, data, _):
                assert self._writer is not None
                self._writer.write(position, data)
            case InstallSnapshot(snapshot_id):
                self._install(snapshot_id)
            case AbandonSnapshot():
                self._abandon()

    def _commit(self, offset: int) -> None:
        """Everything below ``offset`` is committed: on disk first, then remembered, then shown."""
        if offset > self.committed:
            self.log.set_high_watermark(offset)
            self.committed = offset

    def _install(self, snapshot_id: SnapshotId) -> None:
        assert self._writer is not None
        self._writer.freeze()
        self._writer = None
        self.log.truncate_to_snapshot(snapshot_id)
        # Only what is committed is ever in a snapshot (KIP-630).
        self._commit(snapshot_id.end_offset)

    def _abandon(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.abandon()

    # --- the partition ------------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """LOADING until the end is known: from before the last stop, or because we were where the leader was."""
        if not (self._knows_end or self.caught_up):
            return State.LOADING
        if self._damage is not None:
            return State.BROKEN
        return State.READY if self.in_touch else State.STALE

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the local copy."""
        found = (self._follower.unreachable, self._damage, *self.served.notices)
        return tuple(problem for problem in found if problem)

    @property
    def leader_epoch(self) -> int:
        """The quorum's, also before its first record of that epoch is committed. It never goes back."""
        return max(self.epoch, self.served.epoch)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """As in Kafka; an epoch that has begun but committed nothing yet ends where the log does."""
        epochs = self.served.epochs
        if epochs and epochs[-1][0] < epoch <= self.leader_epoch:
            return epochs[-1][0], self.served.end_offset
        return self.served.end_offset_for_epoch(epoch)
