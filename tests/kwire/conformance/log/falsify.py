"""Falsifies copies of a log: batches with other fields and a right CRC, other files."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import crc32c

from kwire.cluster.loader import Loader
from kwire.cluster.snapshot import image_records
from kwire.message import Message
from kwire.messages.snapshot_footer_record import SnapshotFooterRecord
from kwire.messages.snapshot_header_record import SnapshotHeaderRecord
from kwire.records import (
    RecordBatch,
    decode_batches,
    decode_metadata_record,
    encode_batch,
    encode_control_record,
    encode_metadata_record,
    iter_batches,
)
from kwire.records.record import Record

SEGMENT = "00000000000000000000.log"


def segment(directory: Path) -> Path:
    """The only segment of the sample."""
    return directory / SEGMENT


def batches(directory: Path) -> list[RecordBatch]:
    """Its batches."""
    return list(decode_batches(segment(directory).read_bytes()))


def write(directory: Path, found: list[RecordBatch]) -> None:
    """Write batches as its content, with right lengths and CRCs."""
    segment(directory).write_bytes(b"".join(batch.encode() for batch in found))


def patch(directory: Path, number: int, at: int, data: bytes, *, crc: bool = True) -> None:
    """Overwrite bytes of batch ``number``, ``at`` bytes behind its begin; the CRC fits again."""
    content = bytearray(segment(directory).read_bytes())
    header = list(iter_batches(bytes(content)))[number]
    begin = header.position
    content[begin + at : begin + at + len(data)] = data
    if crc:
        value = crc32c.crc32c(bytes(content[begin + 21 : header.end]))
        content[begin + 17 : begin + 21] = struct.pack(">I", value)
    segment(directory).write_bytes(content)


def change_record(
    directory: Path, name: str, change: Callable[[Any, int], tuple[Message, int]], which: int = 0
) -> None:
    """Replace record number ``which`` of type ``name``: ``change`` returns message and version."""
    found = batches(directory)
    seen = 0
    for batch in found:
        for record in () if batch.header.is_control else batch.records:
            _, version, message = decode_metadata_record(record.value or b"")
            if name == message.NAME:
                if seen == which:
                    record.value = encode_metadata_record(*change(message, version))
                    write(directory, found)
                    return
                seen += 1
    raise LookupError(f"there is no {name} number {which}")


def snapshot(
    directory: Path,
    end: int,
    change: Callable[[list[tuple[Message, int]]], None] = lambda records: None,
    *,
    epoch: int | None = None,
    footer: bool = True,
) -> Path:
    """Write the snapshot of the state before ``end``, with ``change`` made to its records."""
    loader, last_epoch = Loader(), 0
    for batch in batches(directory):
        if batch.header.base_offset >= end:
            break
        last_epoch = batch.header.partition_leader_epoch
        if not batch.header.is_control:
            for record in batch.records:
                _, _, message = decode_metadata_record(record.value or b"")
                loader.load(message, record.offset, last_epoch)
    records = list(image_records(loader.image))
    change(records)
    named = last_epoch if epoch is None else epoch
    parts = [_control(0, "SNAPSHOT_HEADER", SnapshotHeaderRecord(), last_epoch)]
    values = [
        Record(offset=1 + number, timestamp=1, value=encode_metadata_record(*one))
        for number, one in enumerate(records)
    ]
    parts.append(encode_batch(values, partition_leader_epoch=last_epoch))
    if footer:
        end_offset = 1 + len(values)
        parts.append(_control(end_offset, "SNAPSHOT_FOOTER", SnapshotFooterRecord(), last_epoch))
    path = directory / f"{end:020d}-{named:010d}.checkpoint"
    path.write_bytes(b"".join(parts))
    return path


def _control(offset: int, name: str, message: Message, epoch: int) -> bytes:
    record = encode_control_record(name, message, offset=offset, timestamp=1)
    return encode_batch([record], partition_leader_epoch=epoch, is_control=True)
