"""Stores the log of another quorum for an observer: the copy, the epoch, the high watermark.

It has the interface of :class:`gateway.log.metadata.raft_store.RaftStore` with weaker promises,
because no node relies on an observer's disk: a missing ``quorum-state`` is no danger, a full disk
may be tried again, and a damaged copy is fetched anew. The high watermark is durable, because
clients must see again after a restart what they saw before it; Kafka's observers do not store it.
Follows ``KafkaMetadataLog`` and ``FileQuorumStateStore``.
"""

from __future__ import annotations

import contextlib
import uuid
from pathlib import Path
from typing import Final

from gateway.log.files.disk import doing
from gateway.log.files.errors import LogError
from gateway.log.files.offset_checkpoint import Checkpoints
from gateway.log.metadata.control_records import read_snapshot_head
from gateway.log.metadata.listing import list_directory
from gateway.log.metadata.local_log import LocalLog, LogSettings, SnapshotWriter
from gateway.log.metadata.stored_facts import Election, StoredFacts
from gateway.log.partition.unified_log import UnifiedLog
from kwire.messages.quorum_state_data import QuorumStateData
from kwire.messages.voters_record import VotersRecord
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.uuid import ZERO_UUID, Uuid

#: The form of ``quorum-state`` without the voters: an observer learns them from the log (KIP-853).
_QUORUM_STATE_VERSION: Final = 1


class WrongCluster(LogError):
    """The directory holds the log of another cluster than the configuration names."""


class ObserverStore:
    """The files in ``data_dir``, opened by :meth:`open`, for one thread at a time.

    ``append`` raises DecodeError for bad batches and leaves the log unchanged. Every other change
    raises DiskFailed, after which it may be tried again, or another LogError, after which the store
    must be opened again.
    """

    def __init__(self, log: LocalLog, *, node_id: int) -> None:
        """``node_id`` is written to meta.properties, because Kafka's tools need the key."""
        self.directory = log.directory
        self.problems = log.problems
        self._log = log
        self._node_id = node_id
        self._closed = False
        known = log.meta_properties
        self.cluster_id = (known.cluster_id if known else None) or ""
        #: Identity of this copy (KIP-853): random, and stored in meta.properties with the cluster
        #: id. Kept over restarts: Kafka lists an observer once for each directory id that it has
        #: seen.
        self.directory_id = (known.directory_id if known else None) or Uuid(uuid.uuid4().bytes)

    @classmethod
    def open(
        cls, data_dir: Path, settings: LogSettings, *, node_id: int, cluster_id: str | None
    ) -> ObserverStore:
        """Open or create ``data_dir``. ``cluster_id``: the cluster that it must belong to, None for
        any.

        Raises WrongCluster, LogLocked, LogDamaged, DiskFailed.
        """
        # Without ``durable_end``: beside the committed records nothing here counts for others.
        log = LocalLog.open(data_dir, settings)
        store = cls(log, node_id=node_id)
        try:
            # Before a request is sent: a log of two clusters could not be separated.
            if cluster_id is not None and store.cluster_id not in ("", cluster_id):
                raise WrongCluster(
                    f"{data_dir} holds the log of cluster {store.cluster_id}, not of {cluster_id}: "
                    "give another directory, or that cluster's id"
                )
            if cluster_id is not None and not store.cluster_id:
                store.learn_cluster_id(cluster_id)
        except BaseException:
            with contextlib.suppress(LogError):
                store.close()
            raise
        return store

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
    def last_epoch(self) -> int:
        """Epoch of the last batch, else of the snapshot at which the log starts, else 0."""
        return self._log.last_epoch

    @property
    def flushed_offset(self) -> int:
        """Everything before it is known to be on disk."""
        return self._log.flushed_offset

    @property
    def high_watermark(self) -> int:
        """The last one set; at least the log start."""
        return self._log.high_watermark

    @property
    def election(self) -> Election:
        """The newest epoch and its leader, also if ``quorum-state`` was lost."""
        state = (
            self._log.quorum_state[1]
            if self._log.quorum_state
            else QuorumStateData(leader_id=-1, leader_epoch=0)
        )
        # The file is behind the log when it was lost or restored; the leader of the newer epoch is
        # not known.
        if state.leader_epoch < self._log.last_epoch:
            return Election(self._log.last_epoch)
        return Election(state.leader_epoch, state.leader_id)

    def stored(self) -> StoredFacts:
        """Return the content of the disk for the start of the core. Raises DiskFailed.

        Without voters: an observer uses no voter set, and asks the leader for the voters.
        """
        log = self._log
        with doing("read", self.directory):
            snapshots = list_directory(str(self.directory)).snapshots
        return StoredFacts(
            self.election,
            log.start_offset,
            log.start_epoch,
            log.end_offset,
            log.epochs,
            snapshots,
            log.high_watermark,
            (),
            (),
        )

    def persist(
        self,
        epoch: int,
        leader_id: int = -1,
        voted_id: int = -1,
        voted_directory_id: Uuid = ZERO_UUID,
        *,
        kraft_version: int,
    ) -> None:
        """Replace ``quorum-state``, durable when this returns. Raises LogError."""
        assert voted_id == -1, "an observer gives no vote"
        state = QuorumStateData(leader_id=leader_id, leader_epoch=epoch, voted_id=-1)
        # In the form without voters whatever ``kraft_version`` is.
        self._log.write_quorum_state(state, _QUORUM_STATE_VERSION)

    def learn_cluster_id(self, cluster_id: str) -> None:
        """Write the cluster's id to meta.properties, durable when this returns. Raises LogError."""
        self._log.write_meta_properties(cluster_id, self._node_id, self.directory_id)
        # After the disk, so that a failed write is tried again.
        self.cluster_id = cluster_id

    def append(
        self, base_offset: int, data: bytes | memoryview, *, crc_checked: bool = False
    ) -> int:
        """Append whole batches verbatim; return the new end. ``crc_checked``: the caller has
        checked each CRC. Raises ValueError, DecodeError, LogError.
        """
        if base_offset != self._log.end_offset:
            raise ValueError(
                f"a batch for offset {base_offset}: {self.directory} ends at {self._log.end_offset}"
            )
        return self._log.append(data, crc_checked=crc_checked)

    def flush(self) -> int:
        """Return the log's end, once everything before it is on disk. Raises LogError."""
        self._log.flush()
        return self._log.end_offset

    def truncate_to(self, offset: int) -> None:
        """Drop everything from ``offset`` on. Raises BelowHighWatermark, and nothing is changed;
        LogError.
        """
        self._log.truncate_to(offset)

    def set_high_watermark(self, offset: int) -> None:
        """Store that everything below ``offset`` is committed; offset and records are durable when
        this returns.
        """
        # Durable at once, which a voter's is not: a voter learns it again from a quorum that cannot
        # lose it.
        self._log.set_high_watermark(offset)

    def new_snapshot(self, snapshot_id: SnapshotId) -> SnapshotWriter:
        """Return a writer of a snapshot, the leader's or this node's. Raises LogError."""
        return self._log.new_snapshot(snapshot_id)

    def truncate_to_snapshot(self, snapshot_id: SnapshotId) -> tuple[VotersRecord | None, int]:
        """Restart the log, empty, at the end of a frozen snapshot (KIP-630).

        Returns voters and kraft.version from its first batch. Raises SnapshotNotNewer, LogError.
        """
        self._log.truncate_to_snapshot(snapshot_id)
        # A snapshot holds committed records only, so its end is the high watermark at least.
        self._log.set_high_watermark(snapshot_id.end_offset)
        with doing("read", self.directory):
            version, voters = read_snapshot_head(self.directory, snapshot_id)
        return voters, version

    def clean(self, *, now_ms: int) -> list[str]:
        """Delete old snapshots and the segments before them, and move the recovery point to the end
        of the log; return the names of the files. Raises LogError.
        """
        deleted = self._log.clean(now_ms=now_ms)
        # Afterwards: a full disk may have space now. Otherwise a start reads more.
        self._log.checkpoint()
        return deleted

    def close(self) -> None:
        """Flush everything and release the directory. Idempotent. Raises LogError; the directory is
        released then too.
        """
        if not self._closed:
            # First: the directory is released even if the flush fails, and only once.
            self._closed = True
            self._log.close()
