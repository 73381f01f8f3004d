"""Reads the records of a metadata log directory from its bytes, without kwire's codec; Kafka's
own dump checks the result.

Kafka writes these logs uncompressed, so a record is a few varints. Batches are kept as bytes, too:
a followed log grows by real batches at new offsets, which neither the CRC nor the records depend
on.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.interop.reading import Record

_HEADER = struct.Struct(">qiibIhiqqqhii")  # base offset ... record count, 61 bytes
_LENGTH_AT, _EPOCH_AT = 8, 12
_COMPRESSION_BITS, _CONTROL_BIT = 0x07, 0x20


@dataclass(frozen=True)
class Batch:
    """One batch as it stands in the file."""

    base_offset: int
    last_offset: int
    epoch: int
    control: bool
    data: bytes

    def records(self) -> Iterator[Record]:
        """Its records, control records too."""
        fields = _HEADER.unpack_from(self.data)
        assert not fields[5] & _COMPRESSION_BITS, "the metadata log is not compressed"
        base_timestamp, count, position = fields[7], fields[12], _HEADER.size
        for _ in range(count):
            length, position = _varint(self.data, position)
            record, end = self._record(position + 1, base_timestamp)
            position += length
            # The rest is the header count, 0 in this log.
            assert end + 1 == position, "a record of the metadata log has no headers"
            yield record

    def _record(self, position: int, base_timestamp: int) -> tuple[Record, int]:
        timestamp_delta, position = _varint(self.data, position)
        offset_delta, position = _varint(self.data, position)
        key, position = _bytes(self.data, position)
        value, position = _bytes(self.data, position)
        return Record(
            self.base_offset + offset_delta, base_timestamp + timestamp_delta, key, value
        ), position

    def moved_to(self, base_offset: int, epoch: int) -> bytes:
        """The same batch at another offset: Kafka's leader writes both fields after the CRC is
        made.
        """
        moved = bytearray(self.data)
        struct.pack_into(">q", moved, 0, base_offset)
        struct.pack_into(">i", moved, _EPOCH_AT, epoch)
        return bytes(moved)


def _batch_size(data: bytes, position: int) -> int:
    return int.from_bytes(data[position + _LENGTH_AT : position + _EPOCH_AT], "big") + _EPOCH_AT


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position


def _bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = _varint(data, position)
    return (
        (None, position) if length < 0 else (data[position : position + length], position + length)
    )


def batches(file: Path) -> list[Batch]:
    """Every batch of a segment or snapshot, to the end of the file."""
    return split(file.read_bytes())


def split(data: bytes, *, growing: bool = False) -> list[Batch]:
    """Every batch of ``data``; of a file that is being written (``growing``) without one at its end
    that is not all there.
    """
    position, found = 0, []
    while position < len(data):
        if growing and (
            len(data) - position < _HEADER.size
            or len(data) - position < _batch_size(data, position)
        ):
            break
        fields = _HEADER.unpack_from(data, position)
        base_offset, length, epoch, attributes, last_delta = (
            fields[0],
            fields[1],
            fields[2],
            fields[5],
            fields[6],
        )
        end = position + _LENGTH_AT + 4 + length
        control = bool(attributes & _CONTROL_BIT)
        found.append(
            Batch(base_offset, base_offset + last_delta, epoch, control, data[position:end])
        )
        position = end
    return found


class Log:
    """A ``__cluster_metadata-0`` directory as Kafka left it; ``truth`` holds Kafka's dumps of its
    files, if there are any.
    """

    def __init__(self, directory: Path, truth: Path | None) -> None:
        self.segments = sorted(directory.glob("*.log"))
        self.snapshots = sorted(directory.glob("*.checkpoint"))
        self.batches = [batch for segment in self.segments for batch in batches(segment)]
        if truth is not None:
            for file in (*self.segments, *self.snapshots):
                _check_against_dump(file, truth / f"{file.name}.jsonl")

    @property
    def start_offset(self) -> int:
        """0, or the end of the oldest snapshot where the first segment begins above 0."""
        return (
            0 if int(self.segments[0].stem) == 0 else int(self.snapshots[0].stem.partition("-")[0])
        )

    @property
    def end_offset(self) -> int:
        return self.batches[-1].last_offset + 1

    @property
    def last_epoch(self) -> int:
        return self.batches[-1].epoch

    def data_batches(self) -> list[Batch]:
        return [batch for batch in self.batches if not batch.control]

    def records(self) -> list[Record]:
        """The data records that clients must see from the log start on, in order."""
        start = self.start_offset
        return [
            record
            for batch in self.data_batches()
            for record in batch.records()
            if record.offset >= start
        ]

    def snapshot_values(self) -> list[tuple[bytes | None, bytes | None]]:
        """Keys and values of the snapshot that the log starts at, in its order; nothing for a log
        that starts at 0.
        """
        if self.start_offset == 0:
            return []
        data = (batch for batch in batches(self.snapshots[0]) if not batch.control)
        return [(record.key, record.value) for batch in data for record in batch.records()]


def _check_against_dump(file: Path, dump: Path) -> None:
    """Our reading and kafka-dump-log's name the same offsets, epochs, timestamps and sizes."""
    with dump.open(encoding="utf-8") as lines:
        said = [json.loads(line) for line in lines]
    kwires = [(batch.epoch, record) for batch in batches(file) for record in batch.records()]
    assert [
        (epoch, r.offset, r.timestamp, _size(r.key), _size(r.value)) for epoch, r in kwires
    ] == [(s["epoch"], s["offset"], s["timestamp"], s["keySize"], s["valueSize"]) for s in said], (
        f"{file} and {dump} do not name the same records"
    )


def _size(part: bytes | None) -> int:
    return -1 if part is None else len(part)


@cache
def log_of(directory: Path, truth: Path | None) -> Log:
    """The log of a directory, read once."""
    return Log(directory, truth)
