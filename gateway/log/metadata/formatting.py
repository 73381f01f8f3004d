"""Formats a data directory for one node, as ``kafka-storage format`` does, so that Kafka starts on
it too.

``bootstrap.checkpoint``: the features that the first leader finalizes, and the first users (SCRAM).
``__cluster_metadata-0/0-0.checkpoint``: the first voters of a dynamic quorum (KIP-853).
``meta.properties``: cluster and node of the directory; it is written last, because without it
nothing counts as formatted, and whatever a crash left of the other files is written again. It does
not start a node. Source: ``Formatter``.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.base.address import Address
from gateway.base.wall_clock import wall_ms
from gateway.log.files import meta_properties
from gateway.log.files.directory_lock import DirectoryLock
from gateway.log.files.disk import TEMPORARY, Disk, doing
from gateway.log.files.errors import AlreadyFormatted, LogDamaged, WrongNode
from gateway.log.files.meta_properties import MetaProperties
from gateway.log.files.quorum_state import FILE_NAME as QUORUM_STATE
from gateway.log.files.recovery_point import FILE_NAME as RECOVERY_POINT
from gateway.log.metadata.listing import list_directory
from gateway.log.metadata.local_log import PARTITION_DIRECTORY
from gateway.log.metadata.releases import LEVEL_MAX, features_of
from gateway.log.metadata.snapshot_file import MemorySink, SnapshotFile
from gateway.log.partition.data_directory import read_meta, write_meta
from kwire.errors import DecodeError
from kwire.message import Message
from kwire.messages.feature_level_record import FeatureLevelRecord
from kwire.messages.user_scram_credential_record import UserScramCredentialRecord
from kwire.messages.voters_record import Endpoint, KRaftVersionFeature, Voter, VotersRecord
from kwire.metadata_log.file_names import BOOTSTRAP_SNAPSHOT, segment_name
from kwire.metadata_log.reader import read_log_file
from kwire.records import decode_metadata_record, encode_metadata_record
from kwire.uuid import Uuid

BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"
# A directory with first voters begins as a dynamic quorum; a static one has no voters in its log.
_KRAFT_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Formatting:
    """The content of a formatted directory. ``features``: (name, level), metadata.version first
    (``releases.features_of``).

    ``voters``: the first voters of a dynamic quorum, the same on all its nodes; None for a static
    quorum, and for a node that will join one. ``credentials``: SCRAM users that the first leader
    writes to the log.
    """

    cluster_id: str
    node_id: int
    directory_id: Uuid
    # metadata.version comes first: it decides at which versions the records behind it are read.
    features: Sequence[tuple[str, int]] = features_of(LEVEL_MAX)
    voters: VotersRecord | None = None
    credentials: Sequence[UserScramCredentialRecord] = ()


def random_uuid() -> Uuid:
    """Return the id of a new cluster or directory; like Kafka's it has no leading dash, which
    command lines take for an option.
    """
    while str(chosen := Uuid(uuid.uuid4().bytes)).startswith("-"):
        pass
    return chosen


def voter(node_id: int, directory_id: Uuid, endpoints: Mapping[str, Address]) -> Voter:
    """Return a voter as a KRAFT_VOTERS record has it; ``endpoints`` are its controller listeners by
    name.
    """
    return Voter(
        voter_id=node_id,
        voter_directory_id=directory_id,
        endpoints=[
            Endpoint(name=name, host=at.host, port=at.port) for name, at in endpoints.items()
        ],
        k_raft_version_feature=KRaftVersionFeature(
            min_supported_version=0, max_supported_version=_KRAFT_VERSION
        ),
    )


def format_directory(data_dir: Path, formatting: Formatting, *, disk: Disk | None = None) -> None:
    """Format ``data_dir``, which is created if it is missing; everything is on disk when this
    returns.

    Raises AlreadyFormatted before anything is changed, also for a log without meta.properties;
    LogLocked; LogDamaged for a meta.properties that cannot be read; DiskFailed.
    """
    disk = disk or Disk()
    disk.make_directory(data_dir)
    # A running server must not lose the directory under it.
    lock = DirectoryLock(data_dir)
    try:
        # Under the lock: another process could be formatting the directory.
        if read_meta(data_dir) is not None:
            raise AlreadyFormatted(
                f"{data_dir} is formatted already: --ignore-formatted leaves it as it is"
            )
        # Kafka's ``Formatter`` looks at meta.properties alone, and formats a log whose file was
        # lost.
        _refuse_used(data_dir)
        _write(data_dir, formatting, disk)
    finally:
        lock.release()


def ensure_formatted(
    data_dir: Path,
    *,
    node_id: int,
    cluster_id: str | None,
    endpoints: Mapping[str, Address],
    disk: Disk | None = None,
) -> MetaProperties:
    """Format an unformatted directory for a dynamic quorum of this node alone; return its
    meta.properties.

    ``cluster_id`` None: a new one. ``endpoints``: this node's controller listeners by name. A
    formatted directory stays as it is: ``RaftStore.open`` checks that it is this node's. Raises as
    ``format_directory``.
    """
    known = read_meta(data_dir)
    if known is None:
        directory_id = random_uuid()
        # A dynamic quorum: other nodes can be added without another formatting (KIP-853).
        alone = VotersRecord(version=0, voters=[voter(node_id, directory_id, endpoints)])
        formatting = Formatting(
            cluster_id or str(random_uuid()), node_id, directory_id, voters=alone
        )
        format_directory(data_dir, formatting, disk=disk)
        known = read_meta(data_dir)
        assert known is not None
    return known


def check_formatted(data_dir: Path, cluster_id: str, node_id: int) -> MetaProperties | None:
    """Return the meta.properties of a formatted directory, None if there is none. Raises WrongNode
    if it names another node; LogDamaged.
    """
    known = read_meta(data_dir)
    # Not the directory id: it was random, and no configuration has it.
    if known is not None and (known.cluster_id, known.node_id) != (cluster_id, node_id):
        raise WrongNode(
            f"{data_dir} is formatted for node {known.node_id} of cluster {known.cluster_id}, "
            f"not for node {node_id} of {cluster_id}: give another data.dir, or remove it"
        )
    return known


def first_credentials(data_dir: Path) -> tuple[UserScramCredentialRecord, ...] | None:
    """Return the SCRAM users that a formatted directory brings into a new cluster.

    None where that is not known: the directory is not formatted, or its node has run. Raises
    LogDamaged, DiskFailed.
    """
    if read_meta(data_dir) is None or _used_files(data_dir):
        return None
    records = bootstrap_records(data_dir)
    return tuple(one for one in records if isinstance(one, UserScramCredentialRecord))


def has_first_voters(data_dir: Path) -> bool:
    """Whether a directory was formatted with the first voters of a dynamic quorum."""
    return (data_dir / PARTITION_DIRECTORY / BOOTSTRAP_SNAPSHOT.file_name).exists()


def bootstrap_records(data_dir: Path) -> list[Message]:
    """Return the records in ``bootstrap.checkpoint``, which the first leader writes to the log
    (KIP-778, KIP-900). Raises LogDamaged, DiskFailed.
    """
    try:
        return [decode_metadata_record(value)[2] for value in read_bootstrap(data_dir) or ()]
    except DecodeError as error:
        raise LogDamaged(
            str(data_dir / BOOTSTRAP_FILE), -1, error.reason, "format the directory again"
        ) from error


def read_bootstrap(data_dir: Path) -> tuple[bytes, ...] | None:
    """Return the values of the records in ``bootstrap.checkpoint``, frame included; None without
    the file.

    The first leader writes them to the log. Raises LogDamaged, DiskFailed.
    """
    path = data_dir / BOOTSTRAP_FILE
    try:
        with doing("read", path):
            batches = list(read_log_file(path)) if path.exists() else None
    except DecodeError as error:
        raise LogDamaged(
            str(path),
            error.offset,
            error.reason,
            "restore it, or remove it for the newest features",
        ) from error
    if batches is None:
        return None
    return tuple(
        record.value or b""
        for header, records in batches
        # The header and the footer of the checkpoint stay in the file: they belong to a snapshot.
        if not header.is_control
        for record in records
    )


def _refuse_used(data_dir: Path) -> None:
    """Refuse a directory that has a log without meta.properties: formatting would give the log to
    this node. Raises AlreadyFormatted, DiskFailed.
    """
    used = _used_files(data_dir)
    if used:
        raise AlreadyFormatted(
            f"{data_dir} has no {meta_properties.FILE_NAME}, but a log ({used[0]}): "
            "restore the file from a copy, or remove the whole directory"
        )


def _used_files(data_dir: Path) -> list[Path]:
    """Return files which show that a node has run here."""
    directory = data_dir / PARTITION_DIRECTORY
    with doing("look at", directory):
        # Either is there once a voter has run, also if its log is empty.
        used = [
            path for path in (data_dir / RECOVERY_POINT, directory / QUORUM_STATE) if path.exists()
        ]
        if directory.is_dir():
            listing = list_directory(str(directory))
            logs = [directory / segment_name(base) for base, _ in listing.segments]
            # An empty segment is what a first start leaves that did not get far.
            used += [path for path in logs if path.stat().st_size]
            used += [directory / snapshot.file_name for snapshot in listing.snapshots]
    return used


def _write(data_dir: Path, formatting: Formatting, disk: Disk) -> None:
    now_ms = wall_ms()
    bootstrap = MemorySink()
    file = SnapshotFile(bootstrap, BOOTSTRAP_SNAPSHOT, last_contained_log_timestamp=now_ms)
    levels = [FeatureLevelRecord(name=name, feature_level=one) for name, one in formatting.features]
    for record in (*levels, *formatting.credentials):
        file.append(encode_metadata_record(record, 0))
    file.finish()
    # Encoded in memory and written as a whole, so that a crash leaves no half of it.
    disk.replace(data_dir / BOOTSTRAP_FILE, bytes(bootstrap.data))
    voters = data_dir / PARTITION_DIRECTORY / BOOTSTRAP_SNAPSHOT.file_name
    # Before meta.properties: a start takes a formatted directory for one that has it.
    disk.make_directory(voters.parent)
    if formatting.voters is not None:
        head = MemorySink()
        SnapshotFile(
            head,
            BOOTSTRAP_SNAPSHOT,
            last_contained_log_timestamp=now_ms,
            kraft_version=_KRAFT_VERSION,
            voters=formatting.voters,
        ).finish()
        disk.replace(voters, bytes(head.data))
    else:  # an earlier formatting that was not finished may have left one
        disk.remove(voters)
        disk.sync_directory(voters.parent)
    # Likewise left by a formatting that a crash interrupted.
    disk.remove(voters.with_name(voters.name + TEMPORARY))
    # Last: with it the directory counts as formatted.
    write_meta(
        data_dir,
        MetaProperties(1, formatting.cluster_id, formatting.node_id, formatting.directory_id),
        disk,
    )
