"""A copy of a metadata log that a test may change: its files, batches and records."""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import crc32c

from kwire.message import Message
from kwire.records import (
    BatchHeader,
    RecordBatch,
    decode_batch,
    decode_metadata_record,
    encode_metadata_record,
    iter_batches,
)

_CRC_AT = 17
_CRC_FROM = 21


class Place(NamedTuple):
    """A batch, by the name of its file and its number in it."""

    file: str
    batch: int


class RecordPlace(NamedTuple):
    """A metadata record of a segment. ``in_transaction``: of a transaction, its end included.
    ``is_replayed``: the state before it is known, from the begin of the log or from a snapshot.
    """

    file: str
    batch: int
    record: int
    name: str
    version: int
    in_transaction: bool
    is_replayed: bool


@dataclass(frozen=True)
class LogCopy:
    """The files of one log. Names are those of files in ``directory``."""

    directory: Path

    def segments(self) -> list[str]:
        """Names of the segments, in the order of their offsets."""
        return sorted(path.name for path in self.directory.glob("*.log"))

    def snapshots(self) -> list[str]:
        """Names of the snapshots, in the order of their ends, without that of the formatting."""
        names = sorted(path.name for path in self.directory.glob("*.checkpoint"))
        return [name for name in names if end_of(name) > 0]

    def read(self, name: str) -> bytes:
        return (self.directory / name).read_bytes()

    def write(self, name: str, data: bytes) -> None:
        (self.directory / name).write_bytes(data)

    def remove(self, name: str) -> None:
        (self.directory / name).unlink()

    def rename(self, name: str, to: str) -> None:
        (self.directory / name).rename(self.directory / to)

    # --- batches ------------------------------------------------------------------------------

    def headers(self, name: str) -> list[BatchHeader]:
        return list(iter_batches(self.read(name)))

    def batch(self, place: Place | RecordPlace) -> RecordBatch:
        data = self.read(place.file)
        return decode_batch(data, self.headers(place.file)[place.batch].position)

    def position(self, place: Place | RecordPlace) -> int:
        """The byte of the file at which the batch begins."""
        return self.headers(place.file)[place.batch].position

    def replace(self, place: Place | RecordPlace, data: bytes) -> None:
        """Put ``data`` in the place of one batch."""
        content, header = self.read(place.file), self.headers(place.file)[place.batch]
        self.write(place.file, content[: header.position] + data + content[header.end :])

    def patch(self, place: Place, at: int, data: bytes, *, crc: bool) -> None:
        """Overwrite bytes of a batch, ``at`` bytes behind its begin. ``crc``: it fits again."""
        header = self.headers(place.file)[place.batch]
        content = bytearray(self.read(place.file)[header.position : header.end])
        content[at : at + len(data)] = data
        if crc:
            content[_CRC_AT:_CRC_FROM] = struct.pack(">I", crc32c.crc32c(content[_CRC_FROM:]))
        self.replace(place, bytes(content))

    # --- records ------------------------------------------------------------------------------

    @functools.cached_property
    def records(self) -> list[RecordPlace]:
        """All metadata records of the segments, as they were when this was first asked."""
        return [place for name in self.segments() for place in _records_of(self, name)]

    def set_value(self, place: RecordPlace, value: bytes | None, key: bytes | None = None) -> None:
        """Give a record another value or key; length and CRC of its batch fit."""
        batch = self.batch(place)
        batch.records[place.record].value = value
        batch.records[place.record].key = key
        self.replace(place, batch.encode())

    def value(self, place: RecordPlace) -> bytes:
        return bytes(self.batch(place).records[place.record].value or b"")

    def message(self, place: RecordPlace) -> Message:
        return decode_metadata_record(self.value(place))[2]

    def set_message(self, place: RecordPlace, message: Message, version: int | None = None) -> None:
        """Put another message in the place of a record, in its version by default."""
        version = place.version if version is None else version
        self.set_value(place, encode_metadata_record(message, version))


def _records_of(log: LogCopy, name: str) -> Iterable[RecordPlace]:
    data, in_transaction = log.read(name), False
    begin = base_of(log.segments()[0])
    state_from = 0 if begin == 0 else min(filter(begin.__le__, map(end_of, log.snapshots())))
    for number, header in enumerate(log.headers(name)):
        if header.is_control:
            continue
        for index, record in enumerate(decode_batch(data, header.position).records):
            _, version, message = decode_metadata_record(record.value or b"")
            in_transaction = in_transaction or message.NAME == "BeginTransactionRecord"
            yield RecordPlace(
                name, number, index, message.NAME, version, in_transaction,
                header.base_offset >= state_from,
            )  # fmt: skip
            if message.NAME in ("EndTransactionRecord", "AbortTransactionRecord"):
                in_transaction = False


def end_of(snapshot: str) -> int:
    """The end offset in the name of a snapshot."""
    return int(snapshot.partition("-")[0])


def epoch_of(snapshot: str) -> int:
    """The epoch in the name of a snapshot."""
    return int(snapshot.partition("-")[2].partition(".")[0])


def base_of(segment: str) -> int:
    """The base offset in the name of a segment."""
    return int(segment.partition(".")[0])
