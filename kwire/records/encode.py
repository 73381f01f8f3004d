"""Writes batches of format 2 as Kafka's ``MemoryRecordsBuilder`` does, byte for byte if nothing is
compressed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NoReturn

import crc32c

from kwire.errors import EncodeError
from kwire.records.compression import compress
from kwire.records.record import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    Compression,
    Record,
    TimestampType,
)
from kwire.varint import write_varint, write_varlong

_BEFORE_CRC: Final = struct.Struct(">qiibI")
_AFTER_CRC: Final = struct.Struct(">hiqqqhii")
#: Zigzag varints of 0 to 4095: deltas and lengths of nearly every record.
_VARINTS: Final = tuple(write_varint(n) for n in range(4096))


def encode_batch(
    records: Iterable[Record],
    *,
    base_offset: int | None = None,
    last_offset: int | None = None,
    partition_leader_epoch: int = -1,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    is_transactional: bool = False,
    is_control: bool = False,
    delete_horizon: bool = False,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """One batch of ``records``, whose offsets and timestamps are absolute (ms); offsets rise,
    timestamps are -1 or more.

    ``base_offset`` and ``base_timestamp`` are those of the first record unless given,
    ``last_offset`` that of the last, and ``max_timestamp`` the largest. A batch without records,
    which compaction can leave, needs both offsets. With LOG_APPEND_TIME ``max_timestamp`` is the
    time of the append, which readers then see on every record. ``level`` is the codec's. Raises
    EncodeError (``path`` names the record or field).
    """
    listed = records if isinstance(records, Sequence) else list(records)
    if base_offset is None:
        base_offset = listed[0].offset if listed else _missing("base_offset")
    if last_offset is None:
        last_offset = listed[-1].offset if listed else _missing("last_offset")
    if base_timestamp is None:
        base_timestamp = listed[0].timestamp if listed else -1
    if base_timestamp < -1:
        raise EncodeError("-1 (none) or milliseconds since the epoch", path="base_timestamp")
    payload, largest = _write(listed, base_offset, base_timestamp)
    if compression:
        payload = compress(compression, payload, level)
    attributes = (
        compression
        | TIMESTAMP_TYPE_BIT * (timestamp_type == TimestampType.LOG_APPEND_TIME)
        | TRANSACTIONAL_BIT * is_transactional
        | CONTROL_BIT * is_control
        | DELETE_HORIZON_BIT * delete_horizon
    )
    if max_timestamp is None:
        max_timestamp = largest
    try:
        tail = _AFTER_CRC.pack(
            attributes, last_offset - base_offset, base_timestamp, max_timestamp,
            producer_id, producer_epoch, base_sequence, len(listed),
        )  # fmt: skip
        crc = crc32c.crc32c(payload, crc32c.crc32c(tail))
        head = _BEFORE_CRC.pack(
            base_offset, 9 + len(tail) + len(payload), partition_leader_epoch, 2, crc
        )
    except struct.error as error:
        raise EncodeError(f"a batch header cannot hold its values: {error}") from None
    return b"".join((head, tail, payload))


def _write(records: Sequence[Record], base_offset: int, base_timestamp: int) -> tuple[bytes, int]:
    """The records section, and the largest timestamp (-1 without records)."""
    parts: list[bytes] = []
    append = parts.append
    varints = _VARINTS
    before = top = -1
    if records:
        top = records[0].timestamp - base_timestamp
    for record in records:
        try:
            key, value = record.key, record.value
            n = record.timestamp - base_timestamp
            if n > top:
                top = n
            timestamp = varints[n] if 0 <= n < 4096 else _timestamp_delta(n, base_timestamp)
            n = record.offset - base_offset
            if n <= before:
                _not_rising(record.offset)
            before = n
            offset = varints[n] if n < 4096 else write_varint(n)
            if value is None or record.headers:
                body = _slow_body(timestamp, offset, record)
            else:
                n = len(value)
                size = varints[n] if n < 4096 else write_varint(n)
                if key is None:
                    body = b"\0%b%b\1%b%b\0" % (timestamp, offset, size, value)
                else:
                    n = len(key)
                    body = b"\0%b%b%b%b%b%b\0" % (
                        timestamp,
                        offset,
                        varints[n] if n < 4096 else write_varint(n),
                        key,
                        size,
                        value,
                    )
            n = len(body)
            append(varints[n] if n < 4096 else write_varint(n))
            append(body)
        except (TypeError, AttributeError, EncodeError) as error:
            reason = error.reason if isinstance(error, EncodeError) else str(error)
            raise EncodeError(reason, path=f"records[{len(parts) // 2}]") from None
    return b"".join(parts), base_timestamp + top if records else -1


def _timestamp_delta(delta: int, base: int) -> bytes:
    if base + delta < -1:
        raise EncodeError(f"timestamp {base + delta}: -1 (none) or milliseconds since the epoch")
    return write_varlong(delta)


def _not_rising(offset: int) -> NoReturn:
    raise EncodeError(
        f"offset {offset} does not rise above the one before it, or lies below the base offset"
    )


def _slow_body(timestamp: bytes, offset: bytes, record: Record) -> bytes:
    """A record with headers or without a value, its length not yet in front."""
    parts = [
        b"\0",
        timestamp,
        offset,
        *_sized(record.key),
        *_sized(record.value),
        write_varint(len(record.headers)),
    ]
    for key, value in record.headers:
        parts += (*_sized(_header_key(key)), *_sized(value))
    return b"".join(parts)


def _header_key(key: str) -> bytes:
    try:
        return key.encode()
    except UnicodeEncodeError as error:
        raise EncodeError(f"header key is not text that UTF-8 can hold: {error.reason}") from None


def _sized(data: bytes | None) -> tuple[bytes, ...]:
    return (b"\1",) if data is None else (write_varint(len(data)), data)


def _missing(name: str) -> NoReturn:
    raise EncodeError("a batch without records needs it", path=name)
