"""Checks that a directory may be a voter's, under its lock and before anything in it is changed.

A voter that has lost its vote can elect two leaders of one epoch. A missing, unreadable or foreign
file is therefore refused, where an observer would fetch it anew. Each refusal names the file, the
fault and the remedy. Kafka starts on such a directory and votes again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gateway.log.files import quorum_state
from gateway.log.files.errors import LogDamaged, NotFormatted, QuorumStateLost, WrongNode
from gateway.log.files.recovery_point import RecoveryPointFile
from gateway.log.metadata.listing import list_directory
from gateway.log.metadata.local_log import PARTITION_DIRECTORY
from gateway.log.metadata.metadata_files import MetadataFiles
from gateway.log.partition.data_directory import DataDirectory
from kwire.messages.quorum_state_data import QuorumStateData

_RESTORE: Final = (
    "restore it from a copy of its last state; without one remove the whole data directory, format "
    "it anew, and let the node join as a new voter"
)


#: The remedy for a ``quorum-state`` that cannot be read.
_VOTE_ADVICE: Final = f"it holds this voter's vote, which must not be forgotten: {_RESTORE}"
#: The remedy for lost records.
_LOG_ADVICE: Final = f"this voter has told others that it has them: {_RESTORE}"


class VoterDirectoryCheck:
    """The identity that a voter's directory must have. ``cluster_id`` None: any."""

    def __init__(self, node_id: int, cluster_id: str | None, point: RecoveryPointFile) -> None:
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._point = point

    def durable_end(self, data: DataDirectory, directory: Path, files: MetadataFiles) -> int:
        """Return the offset before which the log was synced, and must be whole.

        Raises NotFormatted, WrongNode, QuorumStateLost; LogDamaged for impossible values.
        """
        # The owner first: the files of another node say nothing about this one's vote.
        self._check_owner(data)
        path = directory / quorum_state.FILE_NAME
        if files.quorum_state is None:
            self._refuse_lost_quorum_state(path)
        else:
            _check_state(path, files.quorum_state[1])
        # Every synced record and not only the committed ones: its acknowledgement may have
        # completed a majority. The high watermark is durable by itself, and may be newer than the
        # note.
        return max(self._point.point.synced, data.high_watermark)

    def _check_owner(self, data: DataDirectory) -> None:
        data_dir, meta = data.path, data.meta_properties
        # Version 0 of the file may lack the cluster id.
        if meta is None or meta.cluster_id is None:
            raise not_formatted(data_dir)
        if meta.node_id != self._node_id:
            raise WrongNode(
                f"{data_dir} belongs to node {meta.node_id} (meta.properties), and this is node "
                f"{self._node_id}: give node.id or data.dir as they belong together"
            )
        if self._cluster_id is not None and meta.cluster_id != self._cluster_id:
            raise WrongNode(
                f"{data_dir} belongs to cluster {meta.cluster_id} (meta.properties), not to "
                f"{self._cluster_id}: give that cluster's id, or another data.dir"
            )

    def _refuse_lost_quorum_state(self, path: Path) -> None:
        """Refuse a directory without ``quorum-state`` unless no voter has run on it."""
        # A formatted directory has no quorum-state yet. A log, a snapshot or a recovery point shows
        # that a node has run on it, and may have voted.
        listing = list_directory(str(path.parent))
        # A first start creates an empty segment at 0 before it writes quorum-state.
        has_log = any(
            base or (path.parent / f"{base:020d}.log").stat().st_size
            for base, _ in listing.segments
        )
        if has_log or listing.snapshots or self._point.exists:
            why = (
                "the log beside it is not empty"
                if has_log or listing.snapshots
                else "this node has voted before"
            )
            raise QuorumStateLost(
                f"{path} is missing, and {why}: whom the node voted for is not known any more; "
                f"{_RESTORE}"
            )


def check_epoch(directory: Path, state: QuorumStateData, last_epoch: int) -> None:
    """Refuse a state that is older than the log. Raises QuorumStateLost."""
    # An epoch is on disk before its first record is appended, so only an old copy is behind. ``<``:
    # the epoch of a candidate or a new leader may be ahead of its log.
    if state.leader_epoch < last_epoch:
        raise QuorumStateLost(
            f"{directory / quorum_state.FILE_NAME} is of epoch {state.leader_epoch}, and the log "
            f"has records of epoch {last_epoch}: it is an older copy, and whom the node voted for "
            f"since is not known; {_RESTORE}"
        )


def with_voter_advice(error: LogDamaged) -> LogDamaged:
    """Return the error with advice for a voter, which unlike an observer cannot fetch its log anew:
    other nodes rely on what it has acknowledged.
    """
    name = Path(error.file).name
    if name == quorum_state.FILE_NAME:
        return LogDamaged(error.file, error.position, error.reason, _VOTE_ADVICE)
    if name.endswith((".log", ".checkpoint", PARTITION_DIRECTORY)):
        return LogDamaged(error.file, error.position, error.reason, _LOG_ADVICE)
    return error


def not_formatted(data_dir: Path) -> NotFormatted:
    """Return the refusal of an unformatted directory."""
    return NotFormatted(
        f"{data_dir} is not formatted: meta.properties is missing; run 'kwire format' (see kwire "
        "format --help), or restore the directory if this node has run before"
    )


def _check_state(path: Path, state: QuorumStateData) -> None:
    """Refuse values that Kafka never writes. Raises LogDamaged."""
    problem = ""
    if state.leader_epoch < 0:
        problem = f"leaderEpoch {state.leader_epoch} is negative"
    elif state.leader_id < -1 or state.voted_id < -1:
        problem = f"leaderId {state.leader_id} or votedId {state.voted_id} is below -1"
    if problem:
        raise LogDamaged(str(path), -1, problem, _VOTE_ADVICE)
