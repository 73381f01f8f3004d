"""A .log or .checkpoint file read from front to back, batch by batch, at any size: for tools, not for serving."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from gateway.log.open_file import OpenFile
from kwire.errors import DecodeError
from kwire.records.batch import decode_batch
from kwire.records.header import BATCH_OVERHEAD, BatchHeader, read_header
from kwire.records.record import Record

#: Largest batch held in memory where the caller names no limit: KRaft writes at most 8 MiB.
BATCH_BYTES_MAX: Final = 128 * 1024 * 1024
_CHUNK_BYTES: Final = 1024 * 1024


def read_log_file(
    path: str | os.PathLike[str], *, batch_bytes_max: int = BATCH_BYTES_MAX
) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """Each batch of the file with its records, in file order; ``header.position`` is the batch's place in the file.

    Memory holds one batch and a chunk. The checksum of each batch is checked. What is not a whole batch ends it with
    DecodeError: ``path`` is the file, ``offset`` the byte position, rule ``truncated`` where the file ends inside a batch
    (the rest of what it held was given out before), another one for damage. Raises OSError.
    """
    file = OpenFile(os.fspath(path))
    start, at, data = 0, 0, b""  # ``data`` is what was read ahead, from ``start`` in the file; the next batch is ``at`` in it
    while True:
        if len(data) - at < BATCH_OVERHEAD:
            start, at, data = start + at, 0, file.read(start + at, _CHUNK_BYTES)
            if not data:
                return
        try:
            size = read_header(data, at).size
            if size > batch_bytes_max:
                raise DecodeError(f"a batch of {size} bytes, more than the {batch_bytes_max} allowed", rule="batch-length")
            if size > len(data) - at:
                start, at, data = start + at, 0, file.read(start + at, max(size, _CHUNK_BYTES))
            batch = decode_batch(data, at)
        except DecodeError as error:
            raise DecodeError(error.reason, path=file.path, offset=start + at, rule=error.rule) from None
        yield batch.header._replace(position=start + at), batch.records
        at += size
