"""Makes a directory a node's own: what ``kafka-storage format`` writes (``Formatter``), so that Kafka starts on it, too.

``bootstrap.checkpoint``: the features that the first leader finalizes. ``__cluster_metadata-0/0-0.checkpoint``: the first
voters, where the quorum is a dynamic one (KIP-853). ``meta.properties``: whose directory it is. That is written last: without
it nothing is formatted, and whatever a crash left of the others is written again.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.address import Address
from gateway.log import meta_properties
from gateway.log.directory_lock import DirectoryLock
from gateway.log.disk import TEMPORARY, Disk, doing
from gateway.log.errors import AlreadyFormatted, LogDamaged, WrongNode
from gateway.log.file_names import BOOTSTRAP_SNAPSHOT, segment_name
from gateway.log.listing import list_directory
from gateway.log.local_log import PARTITION_DIRECTORY
from gateway.log.meta_properties import MetaProperties
from gateway.log.quorum_state import FILE_NAME as QUORUM_STATE
from gateway.log.reader import read_log_file
from gateway.log.recovery_point import FILE_NAME as RECOVERY_POINT
from gateway.log.releases import LEVEL_MAX, features_of
from gateway.log.small_files import read_meta, write_meta
from gateway.log.snapshot_file import SnapshotFile
from kwire.errors import DecodeError
from kwire.messages.feature_level_record import FeatureLevelRecord
from kwire.messages.voters_record import Endpoint, KRaftVersionFeature, Voter, VotersRecord
from kwire.records import encode_metadata_record
from kwire.uuid import Uuid

BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"
_KRAFT_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Formatting:
    """What a directory is to say. ``features``: (name, level), metadata.version first (``releases.features_of``).

    ``voters``: the first ones of a dynamic quorum, the same for all its nodes; None for a static quorum, and for a node that
    is to join one.
    """

    cluster_id: str
    node_id: int
    directory_id: Uuid
    features: Sequence[tuple[str, int]] = features_of(LEVEL_MAX)
    voters: VotersRecord | None = None


def random_uuid() -> Uuid:
    """For a cluster or a directory; like Kafka's never with a dash in front, which a command line takes for an option."""
    while str(made := Uuid(uuid.uuid4().bytes)).startswith("-"):
        pass
    return made


def voter(node_id: int, directory_id: Uuid, endpoints: Mapping[str, Address]) -> Voter:
    """A voter as a KRAFT_VOTERS record has it; ``endpoints`` are its controllers' listeners by name."""
    return Voter(
        voter_id=node_id,
        voter_directory_id=directory_id,
        endpoints=[Endpoint(name=name, host=at.host, port=at.port) for name, at in endpoints.items()],
        k_raft_version_feature=KRaftVersionFeature(min_supported_version=0, max_supported_version=_KRAFT_VERSION),
    )


def format_directory(data_dir: Path, wanted: Formatting, *, disk: Disk | None = None) -> None:
    """Format ``data_dir``, which is made if it is not there; all of it is on disk when this returns.

    Raises AlreadyFormatted, also where a log stands without its meta.properties, and nothing was changed; LogLocked,
    LogDamaged for a meta.properties that cannot be read, DiskFailed.
    """
    disk = disk or Disk()
    disk.make_directory(data_dir)
    lock = DirectoryLock(data_dir)
    try:
        if read_meta(data_dir) is not None:
            raise AlreadyFormatted(f"{data_dir} is formatted already: --ignore-formatted leaves it as it is")
        _refuse_used(data_dir)
        _write(data_dir, wanted, disk)
    finally:
        lock.release()


def ensure_formatted(
    data_dir: Path, *, node_id: int, cluster_id: str | None, endpoints: Mapping[str, Address], disk: Disk | None = None
) -> MetaProperties:
    """Format a directory that nobody has formatted for a dynamic quorum of this node alone; returns what meta.properties says.

    ``cluster_id`` None: a new one. ``endpoints``: this node's controllers' listeners by name. A formatted directory is left
    as it is, whoever's it is: ``RaftStore.open`` looks at that. Raises as ``format_directory``.
    """
    known = read_meta(data_dir)
    if known is None:
        directory_id = random_uuid()
        alone = VotersRecord(version=0, voters=[voter(node_id, directory_id, endpoints)])
        wanted = Formatting(cluster_id or str(random_uuid()), node_id, directory_id, voters=alone)
        format_directory(data_dir, wanted, disk=disk)
        known = read_meta(data_dir)
        assert known is not None
    return known


def check_formatted(data_dir: Path, cluster_id: str, node_id: int) -> MetaProperties | None:
    """What a formatted directory says, None if it is not. Raises WrongNode where it is not that node's; LogDamaged."""
    known = read_meta(data_dir)
    if known is not None and (known.cluster_id, known.node_id) != (cluster_id, node_id):
        raise WrongNode(
            f"{data_dir} is formatted for node {known.node_id} of cluster {known.cluster_id}, "
            f"not for node {node_id} of {cluster_id}: give another data.dir, or remove it"
        )
    return known


def read_bootstrap(data_dir: Path) -> tuple[bytes, ...] | None:
    """Values of the records in ``bootstrap.checkpoint``, frame included, which the first leader writes; None without the file.

    Raises LogDamaged, DiskFailed.
    """
    path = data_dir / BOOTSTRAP_FILE
    try:
        with doing("read", path):
            batches = list(read_log_file(path)) if path.exists() else None
    except DecodeError as error:
        raise LogDamaged(str(path), error.offset, error.reason, "restore it, or remove it for the newest features") from error
    if batches is None:
        return None
    return tuple(record.value or b"" for header, records in batches if not header.is_control for record in records)


def _refuse_used(data_dir: Path) -> None:
    """No meta.properties does not mean that nobody's records are here. Raises AlreadyFormatted, DiskFailed."""
    directory = data_dir / PARTITION_DIRECTORY
    with doing("look at", directory):
        used = [path for path in (data_dir / RECOVERY_POINT, directory / QUORUM_STATE) if path.exists()]
        if directory.is_dir():
            listing = list_directory(str(directory))
            logs = [directory / segment_name(base) for base, _ in listing.segments]
            used += [path for path in logs if path.stat().st_size]
            used += [directory / snapshot.file_name for snapshot in listing.snapshots]
    if used:
        raise AlreadyFormatted(
            f"{data_dir} has no {meta_properties.FILE_NAME}, but somebody's log ({used[0]}): restore the file from a copy, or "
            "remove the whole directory"
        )


def _write(data_dir: Path, wanted: Formatting, disk: Disk) -> None:
    now_ms = time.time_ns() // 1_000_000
    bootstrap = _Bytes()
    file = SnapshotFile(bootstrap, BOOTSTRAP_SNAPSHOT, last_contained_log_timestamp=now_ms)
    for name, level in wanted.features:
        file.append(encode_metadata_record(FeatureLevelRecord(name=name, feature_level=level), 0))
    file.finish()
    disk.replace(data_dir / BOOTSTRAP_FILE, bytes(bootstrap.data))
    voters = data_dir / PARTITION_DIRECTORY / BOOTSTRAP_SNAPSHOT.file_name
    disk.make_directory(voters.parent)
    if wanted.voters is not None:
        head = _Bytes()
        SnapshotFile(
            head, BOOTSTRAP_SNAPSHOT, last_contained_log_timestamp=now_ms, kraft_version=_KRAFT_VERSION, voters=wanted.voters
        ).finish()
        disk.replace(voters, bytes(head.data))
    else:  # of an earlier formatting that was not finished
        disk.remove(voters)
        disk.sync_directory(voters.parent)
    disk.remove(voters.with_name(voters.name + TEMPORARY))
    write_meta(data_dir, MetaProperties(1, wanted.cluster_id, wanted.node_id, wanted.directory_id), disk)


class _Bytes:
    """A snapshot in memory."""

    def __init__(self) -> None:
        self.data = bytearray()

    @property
    def size(self) -> int:
        return len(self.data)

    def write(self, position: int, data: bytes) -> None:
        self.data += data

    def freeze(self) -> None: ...
