"""Reads segments and snapshots straight from their files, for audits of copies. It needs no server.

A damaged batch becomes a row with its place in the file; reading continues at the next batch that
can be found.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final

import pyarrow as pa

from kwire.errors import DecodeError
from kwire.protocol import CLUSTER_METADATA_PARTITION
from kwire.records import BATCH_OVERHEAD, BatchHeader, read_header, verify_crc
from kwire.spark.record_columns import Columns, columns_of
from kwire.spark.source.options import Files, Settings
from kwire.spark.source.rows import Rows, damaged

_NAMES: Final[dict[str, str]] = {
    "segments": r"[0-9]{20}\.log",
    "snapshots": r"[0-9]{20}-[0-9]{10}\.checkpoint",
    "all": r"[0-9]{20}\.log|[0-9]{20}-[0-9]{10}\.checkpoint",
}
_PARTITION: Final = CLUSTER_METADATA_PARTITION
#: Largest batch held in memory: KRaft writes at most 8 MiB.
_BATCH_BYTES_MAX: Final = 128 * 1024 * 1024
#: Bytes of batches that are read together, about.
_BLOCK_BYTES: Final = 1024 * 1024


def find_files(paths: Sequence[str], files: Files) -> list[str]:
    """Return the files that ``paths`` name: files, log directories, ``__cluster_metadata-0``
    directories, and patterns of these.

    Of a directory it returns files of the kind ``files`` with the names that Kafka gives to
    complete files. Raises FileNotFoundError for a path without such files.
    """
    found: dict[str, None] = {}
    for path in paths:
        plain = re.sub(r"^file:(//)?(?=/)", "", path)
        matches = [plain] if os.path.exists(plain) else sorted(glob.glob(plain))
        here = [file for match in matches for file in _files_at(match, files)]
        if not here:
            raise FileNotFoundError(
                f"path {path}: no {'files' if files == 'all' else files} of a metadata log are"
                " there"
            )
        found.update(dict.fromkeys(here))
    return list(found)


def _files_at(path: str, files: Files) -> list[str]:
    if not os.path.isdir(path):
        return [path]
    inner = os.path.join(path, _PARTITION)
    directory = inner if os.path.isdir(inner) else path
    return [
        os.path.join(directory, name)
        for name in sorted(os.listdir(directory))
        if re.fullmatch(_NAMES[files], name)
    ]


def read_file(path: str, settings: Settings, offsets: range) -> Iterator[pa.RecordBatch]:
    """The data records of one file with an offset in ``offsets``, as columns; memory holds some
    megabytes, or one batch.

    A damaged place, or an end that is cut off, as in a copy of a running log, is a row with an
    ``error``; with ``fail_fast`` it raises DecodeError. Raises OSError.
    """
    rows = Rows(settings)
    for found in read_columns(path):
        if isinstance(found, Damage):
            if settings.fail_fast:
                raise DecodeError(
                    found.error.reason, path=path, offset=found.position, rule=found.error.rule
                )
            yield damaged(found.sentence(path), settings, offset=found.offset, file=path)
        else:
            yield from rows.of(found.within(offsets.start, offsets.stop), path)


class Damage:
    """A place in a file where no batch can be read; ``offset`` is the expected offset there, None
    if it is not known.
    """

    def __init__(self, error: DecodeError, position: int, offset: int | None) -> None:
        self.error, self.position, self.offset = error, position, offset

    def sentence(self, path: str) -> str:
        """The file, the reason and the byte."""
        return f"{path}: {self.error.reason} (at byte {self.position})"


def read_columns(path: str, since: int = 0) -> Iterator[Columns | Damage]:
    """The data records of one file in file order, some thousands at a time, and its damaged places.
    Batches at the beginning of the file that end below offset ``since`` are left out.

    A batch with a damaged header is the last one, because the position of the next one is not
    known. Raises OSError.
    """
    with open(path, "rb") as file:
        yield from _parts(file, since)


def _parts(file: BinaryIO, since: int) -> Iterator[Columns | Damage]:
    size, broken = os.fstat(file.fileno()).st_size, None
    at = _behind(file, since)
    while at < size and broken is None:
        data, headers, broken = _block(file, at, size)
        yield from _records(data, headers, at)
        at += len(data)
    if broken is not None:
        yield broken


def _behind(file: BinaryIO, since: int) -> int:
    """Go to the first batch that does not end below offset ``since``, or to a damaged one before
    that, and return its position.
    """
    at = 0
    for header in whole_batches(file) if since else ():
        if header.next_offset > since:
            break
        at = header.position + header.size
    file.seek(at)
    return at


def whole_batches(file: BinaryIO) -> Iterator[BatchHeader]:
    """The headers of a file's batches up to the first one that is damaged or cut off. Nothing else
    is read.
    """
    at, size = 0, os.fstat(file.fileno()).st_size
    while at < size:
        file.seek(at)
        try:
            header = read_header(file.read(BATCH_OVERHEAD))
            _check_size(header, size - at)
        except DecodeError:
            return
        yield header._replace(position=at)
        at += header.size


def _block(file: BinaryIO, at: int, size: int) -> tuple[bytes, list[BatchHeader], Damage | None]:
    """Whole batches from ``at`` on, about as many bytes as a block has, and the damage that follows
    them, if any.
    """
    data, headers = bytearray(), list[BatchHeader]()
    while at + len(data) < size and len(data) < _BLOCK_BYTES:
        left = size - at - len(data)
        head = file.read(min(BATCH_OVERHEAD, left))
        try:
            header = read_header(head)
            _check_size(header, left)
        except DecodeError as error:
            return bytes(data), headers, Damage(error, at + len(data), None)
        headers.append(header._replace(position=len(data)))
        data += head + file.read(header.size - BATCH_OVERHEAD)
    return bytes(data), headers, None


def _records(data: bytes, headers: Sequence[BatchHeader], at: int) -> Iterator[Columns | Damage]:
    """Decode all batches at once, or each by itself if one of them is damaged."""
    try:
        yield from _checked(data, headers)
    except DecodeError as error:
        if len(headers) == 1:
            yield Damage(error, at + headers[0].position, headers[0].base_offset)
            return
        for header in headers:
            yield from _records(data, [header], at)


def _checked(data: bytes, headers: Sequence[BatchHeader]) -> list[Columns]:
    for header in headers:
        verify_crc(data, header)
    return list(columns_of(data, headers))


def _check_size(header: BatchHeader, left: int) -> None:
    if header.size > _BATCH_BYTES_MAX:
        raise DecodeError(
            f"a batch of {header.size} bytes, more than the {_BATCH_BYTES_MAX} allowed",
            rule="batch-length",
        )
    if header.size > left:
        raise DecodeError(
            f"the file ends inside a batch: it takes {header.size} bytes, {left} are left",
            rule="truncated",
        )
