"""Reads the voter sets of a log: KRAFT_VERSION and KRAFT_VOTERS records, by offset (KIP-853).

It reads the segments, the newest snapshot and the snapshot of formatting (0-0). Only control
batches are decoded; every other batch is skipped by its header. It does not decide which voter set
is in force: ``gateway.quorum`` does. Source: ``KRaftControlRecordStateMachine``.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from gateway.base.sizes import MIB
from gateway.log.files.errors import LogDamaged
from gateway.log.metadata.listing import list_directory
from gateway.log.segments.offset_index import position_near
from kwire.errors import DecodeError
from kwire.messages.k_raft_version_record import KRaftVersionRecord
from kwire.messages.voters_record import VotersRecord
from kwire.metadata_log.file_names import BOOTSTRAP_SNAPSHOT, segment_name
from kwire.metadata_log.open_file import OpenFile
from kwire.metadata_log.reader import read_log_file
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.records import CONTROL_TYPES, Record, decode_batch, decode_control_record
from kwire.records.header import BATCH_OVERHEAD, read_header

#: The offset of the records in the snapshot of formatting: before every record of the log.
FORMATTING: Final = -1
#: The key of a control record: version and type; of the types these two.
_KEY: Final = struct.Struct(">hh")
_TYPES: Final = frozenset(
    number for number, row in CONTROL_TYPES.items() if row.name in ("KRAFT_VERSION", "KRAFT_VOTERS")
)
_CHUNK_BYTES: Final = MIB
_ADVICE: Final = "restore it from a copy"


class ControlRecords(NamedTuple):
    """(offset, value) pairs, ascending. Those of a snapshot have the offset of the last record that
    the snapshot replaces.
    """

    voters: tuple[tuple[int, VotersRecord], ...] = ()
    kraft_versions: tuple[tuple[int, int], ...] = ()


def read_control_records(directory: Path) -> ControlRecords:
    """Read every control record that still counts in a partition's directory. Raises LogDamaged,
    OSError.
    """
    listing = list_directory(str(directory))
    # Kafka reads it as the first snapshot, too, until the log has the voters (KIP-853).
    found = _snapshot_records(directory, BOOTSTRAP_SNAPSHOT, FORMATTING)
    start = listing.segments[0][0] if listing.segments else 0
    if listing.snapshots:
        # The older ones cannot count again: a snapshot has committed records only, which no
        # truncation takes back (KIP-630).
        latest = max(listing.snapshots, key=lambda snapshot: (snapshot.epoch, snapshot.end_offset))
        of_snapshot = _snapshot_records(directory, latest, latest.end_offset - 1)
        # A snapshot of a static quorum has no such records. The segments are then read from their
        # beginning.
        if of_snapshot:
            found += of_snapshot
            start = latest.end_offset
    bases = [base for base, _ in listing.segments]
    for base, following in itertools.zip_longest(bases, bases[1:]):
        if following is None or following > start:
            found += _segment_records(directory / segment_name(base), base, start)
    return ControlRecords(
        tuple((offset, message) for offset, message in found if isinstance(message, VotersRecord)),
        tuple(
            (offset, message.k_raft_version)
            for offset, message in found
            if isinstance(message, KRaftVersionRecord)
        ),
    )


def read_snapshot_head(directory: Path, snapshot_id: SnapshotId) -> tuple[int, VotersRecord | None]:
    """Return kraft.version and voters from the first batch of a snapshot; 0 and None where they are
    absent. Raises LogDamaged, OSError.
    """
    version, voters = 0, None
    for _, message in _snapshot_records(directory, snapshot_id, 0):
        if isinstance(message, VotersRecord):
            voters = message
        else:
            version = message.k_raft_version
    return version, voters


_Found = list[tuple[int, KRaftVersionRecord | VotersRecord]]


def _snapshot_records(directory: Path, snapshot_id: SnapshotId, offset: int) -> _Found:
    """Return the control records in the first batch of a snapshot; none if there is no such
    file.
    """
    path = directory / snapshot_id.file_name
    try:
        # The first batch alone: ``RecordsSnapshotWriter`` puts header, version and voters into one.
        for header, records in read_log_file(path):
            return [(offset, one) for _, one in _messages(records, 0)] if header.is_control else []
    # A static quorum has no snapshot of formatting, nor has a node that was formatted to join a
    # quorum (KIP-853).
    except FileNotFoundError:
        return []
    except DecodeError as error:
        raise LogDamaged(str(path), error.offset, error.reason, _ADVICE) from error
    # A snapshot without a batch has no header: it was cut after it got its name.
    raise LogDamaged(str(path), 0, "is empty", _ADVICE)


def _segment_records(path: Path, base: int, start: int) -> _Found:
    """Return the control records of a segment from offset ``start`` on."""
    found: _Found = []
    try:
        for data, at, position in _control_batches(path, base, start):
            found += [
                one
                for one in _messages(decode_batch(data, at).records, position)
                if one[0] >= start
            ]
    except DecodeError as error:
        raise LogDamaged(str(path), error.offset, error.reason, _ADVICE) from error
    return found


def _control_batches(path: Path, base: int, offset: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield the control batches of a segment from ``offset`` on, and perhaps some before: (bytes
    that contain it, its index in them, its position in the file). Raises DecodeError, OSError.
    """
    file = OpenFile(str(path))
    size = file.status()[0]
    start, at, data = position_near(file, base, offset), 0, b""
    while size - start - at >= BATCH_OVERHEAD:
        # Chunk by chunk: a segment may have a GiB, and one batch in thousands is a control batch.
        if len(data) - at < BATCH_OVERHEAD:
            start, at, data = start + at, 0, file.read(start + at, _CHUNK_BYTES)
        header = read_header(data, at)
        # Recovery has checked where each segment ends.
        if header.size > size - start - at:
            reason = f"a batch of {header.size} bytes, and {size - start - at} are left"
            raise DecodeError(reason, offset=start + at, rule="batch-length")
        # Whole batches only: a control batch that reaches over the chunk is read again from its
        # start.
        if header.is_control:
            # ``decode_batch`` needs the batch in one piece; of other batches the header is enough.
            if header.size > len(data) - at:
                start, at, data = start + at, 0, file.read(start + at, header.size)
            yield data, at, start + at
        at += header.size
        if at > len(data):
            start, at, data = start + at, 0, b""


def _messages(records: list[Record], position: int) -> _Found:
    """Return the records of the two types in a control batch at ``position`` of its file, with
    offsets. Raises DecodeError.
    """
    found: _Found = []
    for record in records:
        if (
            record.key is None
            or len(record.key) < _KEY.size
            or _KEY.unpack_from(record.key)[1] not in _TYPES
        ):
            continue
        try:
            message = decode_control_record(record).message
        except DecodeError as error:
            raise DecodeError(
                f"record at offset {record.offset}: {error.reason}",
                offset=position,
                rule=error.rule,
            ) from error
        # Not the leader changes: they name ids alone, which the configuration of a static quorum
        # has.
        if isinstance(message, KRaftVersionRecord | VotersRecord):
            found.append((record.offset, message))
    return found
