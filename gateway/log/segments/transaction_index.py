"""Keeps the aborted transactions of a segment in its ``.txnindex``, byte for byte as Kafka: those
whose marker is in the segment, by the offset of the marker.

A segment without one has no file. The entries follow from the batches, so a start writes them
anew for the segments that it reads. Source: ``TransactionIndex``, ``AbortedTxn``.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from gateway.log.files.disk import Disk, DiskFile
from kwire.metadata_log.open_file import OpenFile, read_regular

TXN_INDEX_SUFFIX: Final = ".txnindex"
_VERSION: Final = 0
_ENTRY: Final = struct.Struct(">hqqqq")
#: Entries in one read of a search.
_RUN: Final = 256


class AbortedTxn(NamedTuple):
    """An aborted transaction: its first offset, that of its marker, and the offset below which no
    transaction of another producer was open then.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The file ``path``, which need not exist."""

    def __init__(self, path: Path, size: int = 0) -> None:
        """``size``: bytes of whole entries in the file."""
        self.path = path
        self._size = size
        self._writing: DiskFile | None = None
        self._reading: OpenFile | None = None

    def append(self, disk: Disk, aborted: AbortedTxn) -> None:
        """Add a transaction whose marker is behind those of the others. Raises DiskFailed."""
        if self._writing is None:
            self._writing = disk.open(self.path)
        disk.write(self._writing, self._size, _ENTRY.pack(_VERSION, *aborted))
        # After the write: readers look no further.
        self._size += _ENTRY.size

    def seal(self, disk: Disk) -> None:
        """Return once everything is on disk; nothing is added any more. Raises DiskFailed."""
        if self._writing is not None:
            disk.sync(self._writing)
            self.close()

    def close(self) -> None:
        """Close the file for writing. Idempotent."""
        file, self._writing = self._writing, None
        if file is not None:
            file.close()

    def collect(self, start: int, end: int) -> tuple[list[AbortedTxn], bool]:
        """Return the transactions that have records between ``start`` and ``end``, perhaps, and
        whether later segments have no more of them (``TransactionIndex.collectAbortedTxns``).
        Raises OSError.
        """
        found: list[AbortedTxn] = []
        count = self._size // _ENTRY.size
        if count and self._reading is None:
            self._reading = OpenFile(str(self.path))
        first = self._first_behind(start, count)
        while first < count:
            for aborted in self._read(first, min(_RUN, count - first)):
                if aborted.first_offset < end:
                    found.append(aborted)
                if aborted.last_stable_offset >= end:
                    return found, True
            first += _RUN
        return found, False

    def _first_behind(self, start: int, count: int) -> int:
        """Return the number of the first entry whose marker is at ``start`` or behind it."""
        low, high = 0, count
        while low < high:
            middle = (low + high) // 2
            if self._read(middle, 1)[0].last_offset < start:
                low = middle + 1
            else:
                high = middle
        return low

    def _read(self, first: int, count: int) -> list[AbortedTxn]:
        assert self._reading is not None, "it was opened before"
        data = self._reading.read(first * _ENTRY.size, count * _ENTRY.size)
        return [AbortedTxn(*fields[1:]) for fields in _ENTRY.iter_unpack(data)]


def read_index(path: Path, base_offset: int) -> list[AbortedTxn] | None:
    """Return all entries of a file, none without it; None if they cannot be those of a segment that
    begins at ``base_offset`` (``TransactionIndex.sanityCheck``). Raises OSError.
    """
    try:
        data = read_regular(path)
    except FileNotFoundError:
        return []
    if len(data) % _ENTRY.size:
        return None
    entries = [AbortedTxn(*fields[1:]) for fields in _ENTRY.iter_unpack(data)]
    markers = [base_offset - 1, *(one.last_offset for one in entries)]
    ascend = all(one < following for one, following in itertools.pairwise(markers))
    return entries if ascend else None


def encode_index(entries: Iterable[AbortedTxn]) -> bytes:
    """Return the content of a file with these entries."""
    return b"".join(_ENTRY.pack(_VERSION, *one) for one in entries)
