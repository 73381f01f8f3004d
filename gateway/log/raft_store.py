"""What a voter has on disk, in Kafka's form: its log, its vote, its snapshots
(``KafkaMetadataLog``, ``FileQuorumStateStore``).

Blocking, for one thread at a time. Beside what :class:`gateway.log.local_log.LocalLog` promises, a
voter must never lose what it was once told is durable, nor forget a vote: a directory in which
either has happened is refused at the start.

In order. ``persist``, ``truncate`` and ``install`` are durable when they return; ``append`` is
after the next ``sync``, one for all of them. A crash leaves of the appends since the last sync the
first ones, or none; never one without every ``persist`` that came before it, nor without the
appends before it.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

from gateway.log import meta_properties, quorum_state
from gateway.log.control_records import read_control_records, read_snapshot_head
from gateway.log.disk import Disk, doing
from gateway.log.errors import (
    BelowHighWatermark,
    ElectionGoesBack,
    LogDamaged,
    LogError,
    LogFailed,
    SnapshotNotNewer,
)
from gateway.log.listing import list_directory
from gateway.log.local_log import LocalLog, LogSettings, SnapshotWriter
from gateway.log.meta_properties import MetaProperties
from gateway.log.recovery_point import RecoveryPoint, RecoveryPointFile
from gateway.log.voter_directory_check import (
    VoterDirectoryCheck,
    check_epoch,
    not_formatted,
    with_voter_advice,
)
from gateway.snapshot_id import SnapshotId
from kwire.messages.quorum_state_data import QuorumStateData, Voter
from kwire.messages.voters_record import VotersRecord
from kwire.uuid import ZERO_UUID, Uuid


class Election(NamedTuple):
    """What ``quorum-state`` holds. -1: no leader, no vote."""

    epoch: int
    leader_id: int = -1
    voted_id: int = -1
    voted_directory_id: Uuid = ZERO_UUID


class StoredFacts(NamedTuple):
    """What a node of the quorum has to know at its birth; the words are those of
    ``gateway.quorum.settings.Stored``.

    Offsets are exclusive where they say end. ``voters`` and ``kraft_versions``: (offset of the
    record, value) ascending, -1 for those of formatting.
    """

    election: Election
    start_offset: int
    start_epoch: int
    end_offset: int
    epochs: tuple[tuple[int, int], ...]
    snapshots: tuple[SnapshotId, ...]
    high_watermark: int
    voters: tuple[tuple[int, VotersRecord], ...]
    kraft_versions: tuple[tuple[int, int], ...]


class RaftStore:
    """The files of the voter, or observer, of a quorum in ``data_dir``; made by ``open``.

    Every change raises LogError when it cannot be done: DiskFailed, SyncFailed, and then LogFailed
    for ever after, because what is on disk is not known any more: the process has to end. Only what
    ``append`` and ``install`` refuse of the bytes of others leaves the store as it was.
    ``problems``: sentences on what ``open`` found and repaired.
    """

    observes: ClassVar[bool] = False

    def __init__(
        self, log: LocalLog, point: RecoveryPointFile, static_voters: Sequence[int]
    ) -> None:
        """For :meth:`open`."""
        self.directory = log.directory
        self.problems = log.problems
        self._log = log
        self._point = point
        self._static_voters = [Voter(voter_id=voter) for voter in static_voters]
        self._failed = ""
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
        """Open the formatted directory of node ``node_id``, alone until ``close``.

        ``cluster_id``: whose it has to be, if anybody's in particular. ``static_voters``: ids of
        ``controller.quorum.voters``, which stand in a ``quorum-state`` of version 0. ``disk`` is
        for tests. Raises NotFormatted, WrongNode, Forgotten, LogDamaged, and nothing was changed;
        LogLocked, DiskFailed.
        """
        disk = disk or Disk(fsync=settings.fsync)
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

    # --- what is there
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
    def start_offset(self) -> int:
        """As ``LocalLog.start_offset``."""
        return self._log.start_offset

    @property
    def end_offset(self) -> int:
        """Where the next batch goes."""
        return self._log.end_offset

    @property
    def flushed_offset(self) -> int:
        """Everything before it is known to be on disk."""
        return self._log.flushed_offset

    @property
    def high_watermark(self) -> int:
        """The last one set, as far as it was not lost with the machine's power; at least the log
        start.
        """
        return self._high_watermark

    @property
    def snapshots(self) -> tuple[SnapshotId, ...]:
        """The complete snapshots, ascending, that of formatting not among them. Raises
        DiskFailed.
        """
        with doing("read", self.directory):
            return list_directory(str(self.directory)).snapshots

    def stored(self) -> StoredFacts:
        """Everything that a node has to know when it is born. Raises LogDamaged, DiskFailed."""
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

    # --- what an election leaves
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
        self._ready()
        version = min(kraft_version, 1)
        state = QuorumStateData(leader_id=leader_id, leader_epoch=epoch, voted_id=voted_id)
        if version:
            state.voted_directory_id = voted_directory_id
        else:
            state.current_voters = list(self._static_voters)
        if self._log.quorum_state is not None:
            self._refuse_back(self._log.quorum_state[1], state)
            if self._log.quorum_state == (version, state):
                return
        with self._failing():
            self._log.write_quorum_state(state, version)

    # --- the log
    # ---------------------------------------------------------------------------------------------

    def append(self, base_offset: int, data: bytes | memoryview) -> int:
        """Append whole batches verbatim, the first at ``base_offset``; returns the new end. Durable
        after ``sync``.

        Raises ValueError where the log does not end at ``base_offset``, DecodeError for bytes that
        are no good batches that follow on, and nothing was appended; DiskFailed, LogFailed.
        """
        log = self._log
        if self._failed:
            self._ready()
        if base_offset != log.end_offset:
            raise ValueError(
                f"a batch for offset {base_offset} cannot be appended: {self.directory} ends at {log.end_offset}"
            )
        try:
            return log.append(data)
        except LogError as error:
            self._failed = str(error)
            raise

    def flush(self) -> int:
        """Return the log's end, once everything before it is on disk: one fsync for all that was
        appended since the last.

        Raises SyncFailed, LogFailed: then what is on disk is not known, and asking again would not
        tell.
        """
        self._ready()
        with self._failing():
            self._log.flush()
            if self._log.end_offset > self._point.point.synced:
                self._point.note(self._here())
        return self._log.end_offset

    def truncate_to(self, offset: int) -> None:
        """Drop everything from ``offset`` on, with the batch it lies in; durable when this returns.

        Raises BelowHighWatermark, and nothing is changed; DiskFailed, LogFailed.
        """
        self._ready()
        if offset >= self._log.end_offset:
            return
        self._refuse_committed(offset, f"truncate to offset {offset}")
        with self._failing():
            self._point.settle(RecoveryPoint(self._high_watermark, self._high_watermark))
            self._log.truncate_to(offset)

    def set_high_watermark(self, offset: int) -> None:
        """Remember that everything below ``offset`` is committed. Cheap: it survives the process,
        not always the machine.

        Never goes back: a smaller one is ignored. Raises ValueError beyond what is synced;
        DiskFailed, LogFailed.
        """
        self._ready()
        if offset <= self._high_watermark:
            return
        if offset > self._log.flushed_offset:
            raise ValueError(
                f"the high watermark {offset} lies beyond what is on disk, {self._log.flushed_offset}"
            )
        self._high_watermark = offset
        with self._failing():
            self._point.note(self._here())

    # --- snapshots
    # ---------------------------------------------------------------------------------------------

    def new_snapshot(self, snapshot_id: SnapshotId) -> SnapshotWriter:
        """Begin a snapshot, a leader's or our own; nobody sees it before it is frozen. Raises
        DiskFailed, LogFailed.

        Our own may be written in another thread, while the log goes on.
        """
        self._ready()
        return self._log.new_snapshot(snapshot_id, before_freeze=self._make_way)

    def truncate_to_snapshot(self, snapshot_id: SnapshotId) -> tuple[VotersRecord | None, int]:
        """Let the log begin anew, empty, at the end of a snapshot that was frozen; durable when
        this returns.

        Returns voters and kraft.version as its head has them, None and 0 where it has none. A crash
        between the freezing and the end of this is finished by ``open``. Raises SnapshotNotNewer,
        BelowHighWatermark, and nothing is changed; LogDamaged, DiskFailed, LogFailed.
        """
        self._ready()
        self._refuse_committed(snapshot_id.end_offset, f"begin anew at {snapshot_id.file_name}")
        try:
            self._log.truncate_to_snapshot(snapshot_id)
        except SnapshotNotNewer:
            raise
        except BaseException as error:
            self._failed = str(error)
            raise
        self._high_watermark = (
            snapshot_id.end_offset
        )  # only what is committed is ever in a snapshot (KIP-630)
        with self._failing(), doing("read", self.directory):
            self._point.note(self._here())
            version, voters = read_snapshot_head(self.directory, snapshot_id)
        return voters, version

    def clean(self, *, now_ms: int) -> list[str]:
        """Delete old snapshots and the segments before them, as ``LocalLog.clean``; the names of
        what went.

        Raises DiskFailed, LogFailed.
        """
        self._ready()
        with self._failing():
            self._log.set_high_watermark(self._high_watermark)
            return self._log.clean(now_ms=now_ms)

    def close(self) -> None:
        """Bring everything to disk and let another process have the directory. Harmless a second
        time. Raises DiskFailed.
        """
        try:
            if not self._failed:
                self._failed = "it was closed"
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
        """What a directory needs before its node may vote. Raises Forgotten, LogDamaged,
        DiskFailed.
        """
        log = self._log
        if log.quorum_state is not None:
            check_epoch(self.directory, log.quorum_state[1], log.last_epoch)
        if (
            self._meta.directory_id is None
        ):  # formatted by a Kafka of before KIP-858, or for version 0
            log.write_meta_properties(
                self.cluster_id, self._meta.node_id or 0, Uuid(uuid.uuid4().bytes)
            )
        if log.quorum_state is None:
            with doing("read", self.directory):
                versions = read_control_records(self.directory).kraft_versions
            self.persist(0, kraft_version=versions[-1][1] if versions else 0)
        self._point.settle(self._here())

    def _here(self) -> RecoveryPoint:
        return RecoveryPoint(self._log.flushed_offset, self._high_watermark)

    def _make_way(self, snapshot_id: SnapshotId) -> None:
        """Before a snapshot can be seen: where it stands for more than the log, what is in that
        counts no more.
        """
        log = self._log
        if (snapshot_id.epoch, snapshot_id.end_offset) > (log.last_epoch, log.end_offset):
            self._refuse_committed(snapshot_id.end_offset, f"take {snapshot_id.file_name}")
            with self._failing():
                self._point.settle(RecoveryPoint(self._high_watermark, self._high_watermark))

    def _ready(self) -> None:
        if self._failed:
            raise LogFailed(
                f"nothing can be changed in {self.directory}: {self._failed}; the process has to be started again"
            )

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """Whatever goes wrong, nothing more is done."""
        try:
            yield
        except BaseException as error:
            self._failed = str(error)
            raise

    def _refuse_committed(self, offset: int, what: str) -> None:
        if offset < self._high_watermark:
            raise BelowHighWatermark(
                f"refused to {what}: what lies below the high watermark {self._high_watermark} of {self.directory} is committed; "
                "the quorum has lost it, or it is another one than before: compare cluster ids and the leader's log"
            )

    def _refuse_back(self, old: QuorumStateData, new: QuorumStateData) -> None:
        same = old.leader_epoch == new.leader_epoch
        other_leader = (
            same and -1 not in (old.leader_id, new.leader_id) and old.leader_id != new.leader_id
        )
        other_vote = (
            same and -1 not in (old.voted_id, new.voted_id) and old.voted_id != new.voted_id
        )
        if new.leader_epoch < old.leader_epoch or other_leader or other_vote:
            raise ElectionGoesBack(
                f"refused to write epoch {new.leader_epoch}, leader {new.leader_id}, vote {new.voted_id} to "
                f"{self.directory / quorum_state.FILE_NAME}, which has epoch {old.leader_epoch}, leader {old.leader_id}, "
                f"vote {old.voted_id}"
            )
