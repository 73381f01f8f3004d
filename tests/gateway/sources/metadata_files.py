"""Small metadata logs and snapshots written record by record, for tests of what reads them."""

from __future__ import annotations

from pathlib import Path

from kwire.message import Message
from kwire.messages.snapshot_footer_record import SnapshotFooterRecord
from kwire.messages.snapshot_header_record import SnapshotHeaderRecord
from kwire.messages.topic_record import TopicRecord
from kwire.metadata_log.file_names import segment_name
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.records import Record, encode_batch, encode_control_record, encode_metadata_record
from kwire.uuid import Uuid

#: A record of a type, and a TopicRecord of a version, that a later release may have.
UNKNOWN_TYPE = b"\x01\x46\x00\x00"
UNKNOWN_VERSION = b"\x01\x02\x09\x02x" + bytes(17)


def topic(number: int) -> Message:
    """The record of topic ``t<number>``."""
    return TopicRecord(name=f"t{number}", topic_id=Uuid(number.to_bytes(16, "big")))


def values_batch(offset: int, *values: bytes, epoch: int = 1, timestamp: int = 1000) -> bytes:
    """A data batch whose records have ``values``."""
    records = [
        Record(offset=offset + i, timestamp=timestamp, value=value)
        for i, value in enumerate(values)
    ]
    return encode_batch(records, base_offset=offset, partition_leader_epoch=epoch)


def batch(offset: int, *messages: Message, epoch: int = 1, timestamp: int = 1000) -> bytes:
    """A data batch of ``messages``, each at version 0."""
    return values_batch(
        offset,
        *(encode_metadata_record(one, 0) for one in messages),
        epoch=epoch,
        timestamp=timestamp,
    )


def control(
    offset: int, name: str, message: Message, *, epoch: int = 1, timestamp: int = 1000
) -> bytes:
    """A control batch with one record."""
    record = encode_control_record(name, message, offset=offset, timestamp=timestamp)
    return encode_batch([record], base_offset=offset, partition_leader_epoch=epoch, is_control=True)


def write_segment(directory: Path, base_offset: int, *batches: bytes) -> Path:
    """The segment that begins at ``base_offset``, anew."""
    path = directory / segment_name(base_offset)
    path.write_bytes(b"".join(batches))
    return path


def write_snapshot(
    directory: Path, end_offset: int, epoch: int, *messages: Message, footer: bool = True
) -> Path:
    """A snapshot of ``messages``."""
    header = SnapshotHeaderRecord(last_contained_log_timestamp=900)
    batches = [control(0, "SNAPSHOT_HEADER", header, epoch=epoch), batch(1, *messages, epoch=epoch)]
    if footer:
        batches.append(
            control(1 + len(messages), "SNAPSHOT_FOOTER", SnapshotFooterRecord(), epoch=epoch)
        )
    path = directory / SnapshotId(end_offset, epoch).file_name
    path.write_bytes(b"".join(batches))
    return path
