"""Reads messages of formats 0 and 1 (before Kafka 0.11): plain ones, and wrappers around a
compressed message set.

Every outer message is shown as a batch of its own, as ``AbstractLegacyRecordBatch`` does.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final, NamedTuple

from kwire.errors import DecodeError
from kwire.records.compression import decompress
from kwire.records.header import LOG_OVERHEAD, BatchHeader, Buffer, batch_size, corrupt
from kwire.records.record import INT64, TIMESTAMP_TYPE_BIT, Compression, Record

#: Where key length begins, by format: offset, length, CRC, magic, attributes, and in format 1 a
#: timestamp before it.
_KEY_AT: Final = (18, 26)
_HEAD: Final = struct.Struct(">qiIbb")
_LONG: Final = struct.Struct(">q")
_INT: Final = struct.Struct(">i")


class _Message(NamedTuple):
    """One message, its key and value still in their bytes."""

    offset: int
    length: int
    crc: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def read_message(
    data: Buffer, position: int, size: int, *, limit: int, budget: int
) -> tuple[BatchHeader, list[Record]]:
    """The message of ``size`` bytes at ``position`` and the records it stands for: one, or those of
    the set it wraps.

    ``limit`` bounds the bytes a wrapper decompresses to, ``budget`` its messages. Raises
    DecodeError; rules beyond Kafka's are in docs/strictness-records.md.
    """
    with memoryview(data) as view:
        raw = bytes(view[position : position + size])
    outer = _read(raw, position)
    try:
        codec = Compression.of(outer.attributes)
        if codec == Compression.NONE:
            records = [
                Record(
                    offset=outer.offset, timestamp=outer.timestamp, key=outer.key, value=outer.value
                )
            ]
        else:
            records = _unwrap(outer, codec, limit, budget)
    except DecodeError as error:
        reason = f"{error.reason}, in the message at offset {outer.offset}"
        raise DecodeError(reason, path=error.path, offset=position, rule=error.rule) from None
    return _header(outer, records, position), records


def _read(raw: bytes, position: int) -> _Message:
    """Check one message and return its parts (``LegacyRecord.ensureValid``)."""
    offset, length, crc, magic, attributes = _HEAD.unpack_from(raw)
    computed = zlib.crc32(memoryview(raw)[16:])
    if computed != crc:
        raise corrupt(crc, computed, position)
    try:
        timestamp = _LONG.unpack_from(raw, 18)[0] if magic == 1 else -1
        key, at = _sized(raw, _KEY_AT[magic], "Key", position)
        value, _ = _sized(raw, at, "Value", position)
    except struct.error:
        raise DecodeError(
            "the message ends inside its fields", offset=position, rule="truncated"
        ) from None
    return _Message(offset, length, crc, magic, attributes, timestamp, key, value)


def _sized(raw: bytes, at: int, path: str, position: int) -> tuple[bytes | None, int]:
    size = _INT.unpack_from(raw, at)[0]
    at += 4
    if size < 0:
        return None, at
    if at + size > len(raw):
        raise DecodeError(
            f"{size} bytes needed, {len(raw) - at} are left",
            path=path,
            offset=position + at,
            rule="truncated",
        )
    return raw[at : at + size], at + size


def _unwrap(outer: _Message, codec: Compression, limit: int, budget: int) -> list[Record]:
    """The messages inside a compressed one (``DeepRecordsIterator``)."""
    if codec == Compression.ZSTD:
        raise DecodeError("zstd came with format 2: no message holds it", rule="compression-type")
    if outer.value is None:
        raise DecodeError("a compressed message without a value", path="Value", rule="null")
    data = decompress(codec, outer.value, limit, magic=outer.magic)
    inner: list[_Message] = []
    at = 0
    while at < len(data):
        if len(inner) == budget:
            raise DecodeError(f"more than the {budget} messages allowed", rule="element-budget")
        if at + 16 < len(data) and data[at + 16] != outer.magic:
            raise DecodeError(
                f"message of format {data[at + 16]} inside one of format {outer.magic}",
                rule="inner-magic",
            )
        size = batch_size(data, at, len(data))
        if not size:
            raise DecodeError(
                "the message set inside a wrapper ends inside a message", rule="inner-truncated"
            )
        message = _read(data[at : at + size], -1)
        if message.attributes & 0x07:
            raise DecodeError(
                "a compressed message inside a compressed message", rule="inner-compressed"
            )
        inner.append(message)
        at += size
    if not inner:
        raise DecodeError("a compressed message without messages inside", rule="inner-empty")
    return _records(outer, inner)


def _records(outer: _Message, inner: list[_Message]) -> list[Record]:
    """Inner offsets made absolute: those of format 1 count from 0, and the wrapper has the last one
    (KIP-31).
    """
    base = 0
    # A wrapper offset of 0 comes from producers that never set it: then the inner offsets stand as
    # they are.
    if outer.magic == 1 and outer.offset:
        base = outer.offset - inner[-1].offset
        if base < 0:
            raise DecodeError(
                "the wrapper's offset lies below the last one inside it",
                path="Offset",
                rule="wrapper-offset",
            )
        if not all(base + message.offset in INT64 for message in inner):
            raise DecodeError("offset beyond 64 bits", path="Offset", rule="int64-overflow")
    appended = (
        outer.timestamp if outer.magic == 1 and outer.attributes & TIMESTAMP_TYPE_BIT else None
    )
    return [
        Record(
            offset=base + m.offset,
            timestamp=m.timestamp if appended is None else appended,
            key=m.key,
            value=m.value,
        )
        for m in inner
    ]


def _header(outer: _Message, records: list[Record], position: int) -> BatchHeader:
    first = records[0].offset
    stamp = records[0].timestamp if outer.magic == 1 else -1
    return BatchHeader(
        base_offset=first,
        length=outer.length,
        partition_leader_epoch=-1,
        magic=outer.magic,
        crc=outer.crc,
        attributes=outer.attributes,
        last_offset_delta=outer.offset - first,
        base_timestamp=stamp,
        max_timestamp=outer.timestamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=len(records),
        position=position,
    )


assert _HEAD.size == LOG_OVERHEAD + 6
