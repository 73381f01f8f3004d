"""Reads a partition as a connection and a client would: chunks to bytes, bytes to batches, offset
by offset.
"""

from __future__ import annotations

import os

from gateway.ports.services import FileRange, Read, State
from gateway.sources.log_directory import LogDirectory
from gateway.sources.log_partition import LogPartition
from kwire.records.batch import decode_batch
from kwire.records.header import iter_batches


def caught_up(source: LogDirectory) -> LogDirectory:
    """Refresh until there is nothing more to do at once."""
    source.refresh()
    while source.refresh_delay_s == 0:
        source.refresh()
    assert source.state is not State.LOADING
    return source


def joined(read: Read) -> bytes:
    """The bytes of an answer; its files are let go."""
    data = b"".join(
        os.pread(chunk.fd, chunk.length, chunk.position)
        if isinstance(chunk, FileRange)
        else bytes(chunk)
        for chunk in read.chunks
    )
    assert len(data) == read.size
    read.release()
    return data


def batches_from(
    source: LogPartition, offset: int, max_bytes: int = 1 << 20
) -> list[tuple[int, int, bytes]]:
    """Every batch from ``offset`` to the end as (base offset, next offset, bytes), each with the
    right CRC.
    """
    found: list[tuple[int, int, bytes]] = []
    while offset < source.high_watermark:
        data = joined(source.read(offset, max_bytes))
        headers = list(iter_batches(data, check_crc=True))
        assert headers and headers[-1].end == len(data), (
            "an answer holds whole batches, at least one"
        )
        assert headers[0].base_offset <= offset < headers[0].next_offset
        found += [
            (header.base_offset, header.next_offset, data[header.position : header.end])
            for header in headers
        ]
        offset = headers[-1].next_offset
    assert joined(source.read(offset, max_bytes)) == b""
    return found


def records_of(batches: list[tuple[int, int, bytes]]) -> list[tuple[int, int, int]]:
    """(offset, timestamp, epoch) of every record."""
    out = []
    for _, _, data in batches:
        decoded = decode_batch(data)
        out += [
            (record.offset, record.timestamp, decoded.header.partition_leader_epoch)
            for record in decoded.records
        ]
    return out
