"""Reads one copy of a metadata log without changing it, however damaged it is.

A copy is the data directory of a controller, a broker or a gateway, a ``__cluster_metadata-0``
directory, or a snapshot file. Every fault is kept with its file and position; nothing is raised.
Source: ``KafkaMetadataLog``, ``LogLoader``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from gateway.log.files import (
    high_watermark_file,
    leader_epoch_checkpoint,
    meta_properties,
    partition_metadata,
    quorum_state,
    recovery_point,
)
from gateway.log.files.errors import LogDamaged, LogError
from gateway.log.files.problem import Problem
from gateway.log.metadata.control_records import FORMATTING, read_snapshot_head
from gateway.log.metadata.listing import Listing, list_directory, superseding_snapshot
from gateway.log.metadata.snapshot_writer import snapshot_fault
from gateway.rescue.copies import Contents, Copy, Election, Identity, Marks, Position
from gateway.rescue.segments import read_segments
from kwire.errors import DecodeError
from kwire.metadata_log.at import At
from kwire.metadata_log.errors import MetadataLogError
from kwire.metadata_log.file_names import BOOTSTRAP_SNAPSHOT, parse_snapshot_name
from kwire.metadata_log.open_file import read_regular
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.metadata_log.state import load_state
from kwire.protocol import CLUSTER_METADATA_PARTITION


def read_copy(path: Path) -> Copy:
    """Return the copy at ``path``, with what is damaged in it."""
    copy = Copy(str(path))
    with _kept(copy, path, may_be_missing=False):
        if not path.is_dir():
            _read_snapshot_file(copy, path)
            return copy
        data_dir, directory = _places(path)
        if data_dir is not None:
            _read_identity(copy, data_dir)
        if directory is not None:
            _read_partition(copy, directory)
        else:
            copy.notes.append("has no log: the directory is empty, or formatted and never used")
    return copy


def partition_directory(path: Path) -> Path | None:
    """Return the directory with the log of a copy; None of a snapshot file and without one."""
    return _places(path)[1] if path.is_dir() else None


def _places(path: Path) -> tuple[Path | None, Path | None]:
    """Return the data directory and the partition's, None for one that is not there."""
    inside = path / CLUSTER_METADATA_PARTITION
    if inside.is_dir():
        return path, inside
    if path.name == CLUSTER_METADATA_PARTITION:
        return path.parent, path
    listing = list_directory(str(path))
    if listing.segments or listing.snapshots or (path / quorum_state.FILE_NAME).exists():
        return None, path
    return path, None


@contextlib.contextmanager
def _kept(copy: Copy, path: Path, *, may_be_missing: bool = True) -> Iterator[None]:
    """Keep the fault of a file as damage of the copy; that a file is missing may be none."""
    try:
        yield
    except FileNotFoundError as error:
        if not may_be_missing:
            reason = "gone while it was read; a running node cleans up old files: run this again"
            copy.damage.append(Problem(error.filename or str(path), -1, reason))
    except LogDamaged as error:
        copy.damage.append(Problem(error.file, error.position, error.reason))
    except DecodeError as error:
        copy.damage.append(Problem(str(path), error.offset, error.reason))
    except LogError as error:
        copy.damage.append(Problem(str(path), -1, str(error)))
    except OSError as error:
        copy.damage.append(Problem(error.filename or str(path), -1, error.strerror or str(error)))


# --- whose copy it is
# ---------------------------------------------------------------------------


def _read_identity(copy: Copy, data_dir: Path) -> None:
    path = data_dir / meta_properties.FILE_NAME
    with _kept(copy, path):
        meta = meta_properties.read_meta_properties(path)
        copy.identity = Identity(meta.node_id, meta.directory_id, meta.cluster_id)
    mark = data_dir / high_watermark_file.FILE_NAME
    with _kept(copy, mark):
        data = read_regular(mark, high_watermark_file.SIZE)
        copy.high_watermark = max(0, *high_watermark_file.slots_of(data))
        # A voter of kwire has a recovery point beside it.
        copy.identity.is_gateway = not (data_dir / recovery_point.FILE_NAME).exists()


# --- what is in it
# ---------------------------------------------------------------------------


def _read_snapshot_file(copy: Copy, path: Path) -> None:
    snapshot = parse_snapshot_name(path.name)
    if snapshot is None:
        reason = "is neither a directory nor a snapshot named OFFSET-EPOCH.checkpoint"
        copy.damage.append(Problem(str(path), -1, reason))
        return
    copy.is_snapshot = True
    if (fault := snapshot_fault(path)) is not None:
        copy.damage.append(Problem(str(path), fault.offset, fault.reason))
        return
    _start_at(copy, snapshot)
    copy.snapshots = (snapshot,)
    _read_head(copy, path.parent, snapshot, snapshot.end_offset - 1)
    _read_state(copy, path)


def _read_partition(copy: Copy, directory: Path) -> None:
    _read_small_files(copy, directory)
    listing = list_directory(str(directory))
    for snapshot in listing.snapshots:
        copy.see_epoch(snapshot.epoch)
    whole = _whole_snapshots(copy, directory, listing)
    copy.snapshots = tuple(whole)
    _read_head(copy, directory, BOOTSTRAP_SNAPSHOT, FORMATTING)
    if whole:
        newest = max(whole, key=lambda one: (one.epoch, one.end_offset))
        copy.snapshot = newest
        _read_head(copy, directory, newest, newest.end_offset - 1)
    read_segments(copy, directory, listing)
    _begin(copy, Listing(listing.segments, tuple(whole)))
    _check_epochs(copy, directory)
    if not copy.is_empty:
        _read_state(copy, directory)


def _read_small_files(copy: Copy, directory: Path) -> None:
    path = directory / quorum_state.FILE_NAME
    with _kept(copy, path):
        version, state = quorum_state.read_quorum_state(path)
        voters = tuple(one.voter_id for one in state.current_voters or ())
        copy.election = Election(
            version, state.leader_epoch, state.leader_id, state.voted_id, voters
        )
        copy.see_epoch(state.leader_epoch)
    path = directory / partition_metadata.FILE_NAME
    with _kept(copy, path):
        copy.identity.topic_id = partition_metadata.read_topic_id(path)


def _whole_snapshots(copy: Copy, directory: Path, listing: Listing) -> list[SnapshotId]:
    whole = []
    for snapshot in listing.snapshots:
        path = directory / snapshot.file_name
        with _kept(copy, path):
            fault = snapshot_fault(path)
            if fault is None:
                whole.append(snapshot)
            else:
                copy.damage.append(Problem(str(path), fault.offset, fault.reason))
    return whole


def _read_head(copy: Copy, directory: Path, snapshot: SnapshotId, offset: int) -> None:
    """Read kraft.version and voters of a snapshot as records at ``offset``."""
    path = directory / snapshot.file_name
    with _kept(copy, path):
        version, voters = read_snapshot_head(directory, snapshot)
        if version:
            copy.kraft_versions += ((offset, version),)
        if voters is not None:
            copy.add_voters(offset, voters, str(path))


def _begin(copy: Copy, listing: Listing) -> None:
    """Let the copy begin at the snapshot that the log needs, or that replaces the log."""
    newer = superseding_snapshot(listing, copy.end.epoch, copy.end.end_offset)
    if newer is not None or not listing.segments:
        if newer is not None:
            if len(copy.marks):
                reason = f"replaces the log, which ends at offset {copy.end.end_offset}"
                copy.notes.append(f"the snapshot {newer.file_name} {reason}")
            _start_at(copy, newer)
        return
    first = listing.segments[0][0]
    if first == 0:
        return
    start = next((one for one in listing.snapshots if one.end_offset >= first), None)
    if start is not None:
        copy.start_offset = start.end_offset
        return
    copy.start_offset = first
    reason = f"the log begins at offset {first}, and no whole snapshot has what was before"
    copy.damage.append(Problem(copy.where, -1, reason))


def _start_at(copy: Copy, snapshot: SnapshotId) -> None:
    copy.snapshot = snapshot
    copy.start_offset = snapshot.end_offset
    copy.end = Position(snapshot.epoch, snapshot.end_offset)
    copy.see_epoch(snapshot.epoch)
    # The records behind the snapshot belong to a log that it replaces.
    copy.voters = tuple(one for one in copy.voters if one[0] < snapshot.end_offset)
    copy.kraft_versions = tuple(one for one in copy.kraft_versions if one[0] < snapshot.end_offset)
    copy.marks = Marks()
    copy.segments = ()


def _check_epochs(copy: Copy, directory: Path) -> None:
    """Compare the end with what ``leader-epoch-checkpoint`` and ``quorum-state`` remember of it."""
    path = directory / leader_epoch_checkpoint.FILE_NAME
    with _kept(copy, path):
        for epoch, offset in leader_epoch_checkpoint.read_leader_epochs(path)[-1:]:
            copy.see_epoch(epoch)
            # Kafka writes an epoch before its first record, so the end itself is fine.
            if offset > copy.end.end_offset and copy.is_whole:
                reason = (
                    f"epoch {epoch} began at offset {offset}, and the log ends at"
                    f" {copy.end.end_offset}: its end is missing"
                )
                copy.damage.append(Problem(str(path), -1, reason))
    if copy.election is not None and copy.election.epoch < copy.end.epoch:
        copy.notes.append(
            f"quorum-state is of epoch {copy.election.epoch} and the log of epoch"
            f" {copy.end.epoch}: it is an older copy of the file"
        )


def _read_state(copy: Copy, path: Path) -> None:
    """Read what the state at the end says of the cluster."""
    try:
        state = load_state([path], At(offset=copy.end.end_offset))
    except MetadataLogError as error:
        # A record that this release does not know is no damage of the log.
        copy.notes.append(f"the state at its end cannot be built: {error.reason}")
        return
    image = state.image
    copy.notes += [one for one in state.notes if "transaction" in one]
    copy.contents = Contents(
        image.metadata_version, tuple(sorted(image.brokers)), tuple(sorted(image.controllers))
    )
    if copy.last_timestamp is None:
        copy.last_timestamp = state.timestamp
