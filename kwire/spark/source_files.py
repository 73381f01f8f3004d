"""Segments and snapshots read straight from their files, for audits of copies. Knows no server, and serves nobody.

A damaged batch is a row that says where; the rest of the file is read on where it can be found.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final

import pyarrow as pa

from kwire.errors import DecodeError
from kwire.records import BATCH_OVERHEAD, BatchHeader, RecordBatch, decode_batch, read_header
from kwire.spark.source_options import Files, Settings
from kwire.spark.source_rows import Raw, damaged, decoded, wanted

_NAMES: Final[dict[str, str]] = {
    "segments": r"[0-9]{20}\.log",
    "snapshots": r"[0-9]{20}-[0-9]{10}\.checkpoint",
    "all": r"[0-9]{20}\.log|[0-9]{20}-[0-9]{10}\.checkpoint",
}
_PARTITION: Final = "__cluster_metadata-0"
#: Largest batch held in memory: KRaft writes at most 8 MiB.
_BATCH_BYTES_MAX: Final = 128 * 1024 * 1024
_BUFFER_BYTES: Final = 1024 * 1024
#: Records that make one Arrow batch, about.
_ROWS: Final = 10_000


def find_files(paths: Sequence[str], files: Files) -> list[str]:
    """The files that ``paths`` mean: files, log directories, ``__cluster_metadata-0`` directories, and patterns of these.

    Of a directory only names that Kafka gives to complete files count, of the kind that ``files`` names. Raises
    FileNotFoundError when a path means nothing.
    """
    found: dict[str, None] = {}
    for path in paths:
        plain = re.sub(r"^file:(//)?(?=/)", "", path)
        matches = [plain] if os.path.exists(plain) else sorted(glob.glob(plain))
        here = [file for match in matches for file in _files_at(match, files)]
        if not here:
            raise FileNotFoundError(f"path {path}: no {'files' if files == 'all' else files} of a metadata log are there")
        found.update(dict.fromkeys(here))
    return list(found)


def _files_at(path: str, files: Files) -> list[str]:
    if not os.path.isdir(path):
        return [path]
    inner = os.path.join(path, _PARTITION)
    directory = inner if os.path.isdir(inner) else path
    return [os.path.join(directory, name) for name in sorted(os.listdir(directory)) if re.fullmatch(_NAMES[files], name)]


def read_file(path: str, settings: Settings, offsets: range) -> Iterator[pa.RecordBatch]:
    """The data records of one file with an offset in ``offsets``, as columns; memory holds one batch and some rows.

    What is damaged, or cut off at the end as a copy of a running log may be, is a row with an ``error``; with
    ``fail_fast`` it raises DecodeError. Raises OSError.
    """
    rows: list[Raw] = []
    with open(path, "rb", buffering=_BUFFER_BYTES) as file:
        for batch in _batches(file):
            if isinstance(batch, _Damage):
                if settings.fail_fast:
                    raise DecodeError(batch.error.reason, path=path, offset=batch.position, rule=batch.error.rule)
                yield from decoded(rows, settings, path)
                rows = []
                yield damaged(
                    f"{path}: {batch.error.reason} (at byte {batch.position})", settings, offset=batch.offset, file=path
                )
            elif not batch.header.is_control:
                rows += wanted(_raw(batch, offsets), settings)
            if len(rows) >= _ROWS:
                yield from decoded(rows, settings, path)
                rows = []
    yield from decoded(rows, settings, path)


def _raw(batch: RecordBatch, offsets: range) -> Iterator[Raw]:
    epoch = batch.header.partition_leader_epoch
    for record in batch.records:
        if record.offset in offsets:
            yield Raw(record.offset, record.timestamp, epoch, record.key, record.value)


class _Damage:
    """A place in a file where no batch can be read; ``offset`` is Kafka's there, None where not even that is known."""

    def __init__(self, error: DecodeError, position: int, offset: int | None) -> None:
        self.error, self.position, self.offset = error, position, offset


def _batches(file: BinaryIO) -> Iterator[RecordBatch | _Damage]:
    """Each batch in file order. Behind one whose header cannot be trusted nothing can be found, so that it is the last."""
    at, size = 0, os.fstat(file.fileno()).st_size
    while at < size:
        head = file.read(min(BATCH_OVERHEAD, size - at))
        try:
            header = read_header(head)
            _check_size(header, size - at)
        except DecodeError as error:
            yield _Damage(error, at, None)
            return
        try:
            yield decode_batch(head + file.read(header.size - BATCH_OVERHEAD))
        except DecodeError as error:
            yield _Damage(error, at, header.base_offset)
        at += header.size


def _check_size(header: BatchHeader, left: int) -> None:
    if header.size > _BATCH_BYTES_MAX:
        raise DecodeError(f"a batch of {header.size} bytes, more than the {_BATCH_BYTES_MAX} allowed", rule="batch-length")
    if header.size > left:
        raise DecodeError(f"the file ends inside a batch: it takes {header.size} bytes, {left} are left", rule="truncated")
