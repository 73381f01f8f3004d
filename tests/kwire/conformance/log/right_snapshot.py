"""Writes the snapshot that the log below its end leads to, as a controller does."""

from __future__ import annotations

from pathlib import Path

from kwire.cluster.loader import Loader
from kwire.cluster.snapshot import image_records
from kwire.message import Message
from kwire.messages.snapshot_footer_record import SnapshotFooterRecord
from kwire.messages.snapshot_header_record import SnapshotHeaderRecord
from kwire.records import (
    decode_batches,
    decode_metadata_record,
    encode_batch,
    encode_control_record,
    encode_metadata_record,
)
from kwire.records.record import Record


def write_snapshot(segment: Path, end: int) -> None:
    """Write the snapshot of the state before offset ``end`` beside the only segment of a log."""
    loader, epoch = Loader(), 0
    for batch in decode_batches(segment.read_bytes()):
        if batch.header.base_offset >= end:
            break
        epoch = batch.header.partition_leader_epoch
        if not batch.header.is_control:
            for record in batch.records:
                _, _, message = decode_metadata_record(record.value or b"")
                loader.load(message, record.offset, epoch)
    values = [
        Record(offset=1 + number, timestamp=1, value=encode_metadata_record(*one))
        for number, one in enumerate(image_records(loader.image))
    ]
    parts = [
        _control(0, "SNAPSHOT_HEADER", SnapshotHeaderRecord(), epoch),
        encode_batch(values, partition_leader_epoch=epoch),
        _control(1 + len(values), "SNAPSHOT_FOOTER", SnapshotFooterRecord(), epoch),
    ]
    (segment.parent / f"{end:020d}-{epoch:010d}.checkpoint").write_bytes(b"".join(parts))


def _control(offset: int, name: str, message: Message, epoch: int) -> bytes:
    record = encode_control_record(name, message, offset=offset, timestamp=1)
    return encode_batch([record], partition_leader_epoch=epoch, is_control=True)
