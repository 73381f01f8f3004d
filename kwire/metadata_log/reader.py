"""Reads a .log or .checkpoint file from front to back, batch by batch, at any size.

For tools and recovery, not for serving: ``gateway.log.segments.batch_index`` finds a batch by its
offset. Source: ``FileRecords.batches``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from kwire.errors import DecodeError
from kwire.metadata_log.open_file import OpenFile
from kwire.records.batch import decode_batch, decode_chunks
from kwire.records.header import BATCH_OVERHEAD, BatchHeader, read_header
from kwire.records.record import Record
from kwire.records.uniform_records import RecordChunk

_T = TypeVar("_T")

#: Largest batch held in memory where the caller names no limit: KRaft writes at most 8 MiB.
BATCH_BYTES_MAX: Final = 128 * 1024 * 1024
_CHUNK_BYTES: Final = 1024 * 1024


def read_log_file(
    path: str | os.PathLike[str], *, batch_bytes_max: int = BATCH_BYTES_MAX
) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """Yield each batch of the file with its records, in file order. ``header.position`` is the
    batch's position in the file.

    Memory holds one batch and a chunk. The CRC of each batch is checked. Bytes that are not a whole
    batch end the iteration with DecodeError: ``path`` is the file, ``offset`` the position,
    ``rule`` is ``truncated`` if the file ends inside a batch, and another one for damage. Raises
    OSError.
    """
    for header, batch in _batches(path, batch_bytes_max, decode_batch):
        yield header, batch.records


def read_chunks_of_file(
    path: str | os.PathLike[str],
) -> Iterator[tuple[BatchHeader, list[RecordChunk]]]:
    """As :func:`read_log_file`, with runs of records as one chunk each
    (:mod:`kwire.records.uniform_records`).
    """
    for header, batch in _batches(path, BATCH_BYTES_MAX, decode_chunks):
        yield header, batch[1]


def _batches(
    path: str | os.PathLike[str], batch_bytes_max: int, decode: Callable[[bytes, int], _T]
) -> Iterator[tuple[BatchHeader, _T]]:
    file = OpenFile(os.fspath(path))
    # ``data`` was read ahead from position ``start``; the next batch begins at ``data[at]``.
    start, at, data = 0, 0, b""
    while True:
        # A header that reaches over the chunk is read again as a whole.
        if len(data) - at < BATCH_OVERHEAD:
            start, at, data = start + at, 0, file.read(start + at, _CHUNK_BYTES)
            if not data:
                return
        try:
            header = read_header(data, at)
            size = header.size
            # Before the read: a damaged length may claim 2 GiB.
            if size > batch_bytes_max:
                raise DecodeError(
                    f"a batch of {size} bytes, more than the {batch_bytes_max} allowed",
                    rule="batch-length",
                )
            if size > len(data) - at:
                # From the batch's own position, so that its bytes are in one chunk.
                start, at, data = start + at, 0, file.read(start + at, max(size, _CHUNK_BYTES))
            batch = decode(data, at)
        except DecodeError as error:
            raise DecodeError(
                error.reason, path=file.path, offset=start + at, rule=error.rule
            ) from None
        yield header._replace(position=start + at), batch
        at += size
