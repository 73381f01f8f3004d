"""Batches of format 2 with any payload and a right checksum: what a hostile peer would send."""

from __future__ import annotations

import struct

import crc32c

from kwire.varint import write_varint, write_varlong


def raw_batch(
    payload: bytes,
    count: int,
    *,
    attributes: int = 0,
    base_offset: int = 0,
    base_timestamp: int = 0,
    max_timestamp: int = 0,
) -> bytes:
    """The batch of ``payload``; nothing of it is checked but the CRC made right."""
    last = max(0, count - 1)
    tail = (
        struct.pack(">hiqqqhii", attributes, last, base_timestamp, max_timestamp, -1, -1, -1, count)
        + payload
    )
    return struct.pack(">qiibI", base_offset, 9 + len(tail), 0, 2, crc32c.crc32c(tail)) + tail


def raw_record(
    *,
    key: bytes | None = None,
    value: bytes | None = b"v",
    headers: bytes = b"\0",
    offset: int = 0,
    timestamp: int = 0,
    length: int | None = None,
) -> bytes:
    """One record; ``headers`` are bytes from their number on, ``length`` a lie if given."""
    body = (
        b"\0"
        + write_varlong(timestamp)
        + write_varint(offset)
        + sized(key)
        + sized(value)
        + headers
    )
    return write_varint(len(body) if length is None else length) + body


def sized(data: bytes | None) -> bytes:
    """A zigzag length and the bytes; -1 for None."""
    return b"\1" if data is None else write_varint(len(data)) + data
