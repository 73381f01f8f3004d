"""Whether a directory may be a voter's: looked at under its lock, before anything in it is changed.

A voter that forgot what it promised can elect two leaders of one epoch. So what is missing,
unreadable or somebody else's is refused, where an observer would learn it anew. Each refusal says
what is wrong with which file, and what to do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gateway.log import quorum_state
from gateway.log.errors import LogDamaged, NotFormatted, QuorumStateLost, WrongNode
from gateway.log.listing import list_directory
from gateway.log.local_log import PARTITION_DIRECTORY
from gateway.log.metadata_files import MetadataFiles
from gateway.log.recovery_point import RecoveryPointFile
from kwire.messages.quorum_state_data import QuorumStateData

_RESTORE: Final = (
    "restore it from a copy of its last state; without one remove the whole data directory, format it anew, and let the node "
    "join as a new voter"
)


#: What to do about a ``quorum-state`` that cannot be read.
_VOTE_ADVICE: Final = f"it holds this voter's vote, which must not be forgotten: {_RESTORE}"
#: What to do about records that are lost.
_LOG_ADVICE: Final = f"this voter has told others that it has them: {_RESTORE}"


class VoterDirectoryCheck:
    """What the node that wants to vote says of itself. ``cluster_id`` None: whatever
    meta.properties says.
    """

    def __init__(self, node_id: int, cluster_id: str | None, point: RecoveryPointFile) -> None:
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._point = point

    def durable_end(self, directory: Path, files: MetadataFiles) -> int:
        """The offset up to which the log was synced, and must be whole.

        Raises NotFormatted, WrongNode, Forgotten; LogDamaged for a state that cannot be one.
        """
        self._check_owner(directory.parent, files)
        path = directory / quorum_state.FILE_NAME
        if files.quorum_state is None:
            self._refuse_lost_quorum_state(path)
        else:
            _check_state(path, files.quorum_state[1])
        return max(self._point.point.synced, files.high_watermark)

    def _check_owner(self, data_dir: Path, files: MetadataFiles) -> None:
        meta = files.meta_properties
        if meta is None or meta.cluster_id is None:
            raise not_formatted(data_dir)
        if meta.node_id != self._node_id:
            raise WrongNode(
                f"{data_dir} belongs to node {meta.node_id} (meta.properties), and this is node {self._node_id}: "
                "give node.id or data.dir as they belong together"
            )
        if self._cluster_id is not None and meta.cluster_id != self._cluster_id:
            raise WrongNode(
                f"{data_dir} belongs to cluster {meta.cluster_id} (meta.properties), not to {self._cluster_id}: "
                "give that cluster's id, or another data.dir"
            )

    def _refuse_lost_quorum_state(self, path: Path) -> None:
        """No ``quorum-state`` is right only where nothing was ever promised."""
        listing = list_directory(str(path.parent))
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
                f"{path} is missing, and {why}: whom the node voted for is not known any more; {_RESTORE}"
            )


def check_epoch(directory: Path, state: QuorumStateData, last_epoch: int) -> None:
    """Refuse a state that is older than the log: an epoch is always on disk before its first
    record. Raises Forgotten.
    """
    if state.leader_epoch < last_epoch:
        raise QuorumStateLost(
            f"{directory / quorum_state.FILE_NAME} is of epoch {state.leader_epoch}, and the log has records of epoch "
            f"{last_epoch}: it is an older copy, and whom the node voted for since is not known; {_RESTORE}"
        )


def with_voter_advice(error: LogDamaged) -> LogDamaged:
    """The same with advice to a voter, which unlike an observer cannot fetch everything anew."""
    name = Path(error.file).name
    if name == quorum_state.FILE_NAME:
        return LogDamaged(error.file, error.position, error.reason, _VOTE_ADVICE)
    if name.endswith((".log", ".checkpoint", PARTITION_DIRECTORY)):
        return LogDamaged(error.file, error.position, error.reason, _LOG_ADVICE)
    return error


def not_formatted(data_dir: Path) -> NotFormatted:
    """The refusal of a directory that nobody has formatted."""
    return NotFormatted(
        f"{data_dir} is not formatted: meta.properties is missing; run 'kwire format' (see kwire format --help), "
        "or restore the directory if this node has run before"
    )


def _check_state(path: Path, state: QuorumStateData) -> None:
    """Values that Kafka never writes. Raises LogDamaged."""
    problem = ""
    if state.leader_epoch < 0:
        problem = f"leaderEpoch {state.leader_epoch} is negative"
    elif state.leader_id < -1 or state.voted_id < -1:
        problem = f"leaderId {state.leader_id} or votedId {state.voted_id} is below -1"
    if problem:
        raise LogDamaged(str(path), -1, problem, _VOTE_ADVICE)
