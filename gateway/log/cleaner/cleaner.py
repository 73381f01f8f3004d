"""Compacts the closed segments of a log into new files beside them: for each key the newest record
stays, and deletions stay for a time.

It runs beside appends: closed segments do not change, and readers keep the files that they have.
Putting the new files in the place of the old ones is the log's work (``segment_swap``). Blocking;
in steps, so that its thread can pause. Source: ``Cleaner``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gateway.log.cleaner.batch_filter import BatchFilter, LastRecord
from gateway.log.cleaner.cleanable import grouped
from gateway.log.cleaner.cleaned_transactions import CleanedTransactions
from gateway.log.cleaner.offset_map import OffsetMap
from gateway.log.files.disk import Disk, doing
from gateway.log.files.errors import LogDamaged
from gateway.log.segments.batch_check import Batch, Tail, check_file
from gateway.log.segments.segment import ReadableSegment
from gateway.log.segments.segment_index import SegmentIndex
from gateway.log.segments.segment_swap import CLEANED, INDEXES, suffixed
from gateway.log.segments.transaction_index import AbortedTxn, encode_index
from kwire.errors import DecodeError
from kwire.records.batch import decode_slices
from kwire.records.header import BatchHeader, read_header

if TYPE_CHECKING:
    from gateway.log.partition.log_settings import LogSettings
    from kwire.records.record import Record

#: Records of a batch that are in memory at once while keys are read.
_SLICE_RECORDS: Final = 1000
_ANY: Final = Tail(-1, -1, gaps=True)
_ADVICE: Final = "the log is not compacted; restore the segment from a copy, or delete the topic"


@dataclass(frozen=True, slots=True)
class Compaction:
    """One round for one log: the closed ``segments`` up to ``end``, of which those below
    ``first_dirty`` are clean. ``aborted`` returns the aborted transactions that have records
    between two offsets.
    """

    directory: Path
    segments: Sequence[ReadableSegment]
    first_dirty: int
    end: int
    settings: LogSettings
    now_ms: int
    producers: Mapping[int, LastRecord]
    aborted: Callable[[int, int], Sequence[AbortedTxn]]


class Cleaner:
    """The work on one log. The steps of :meth:`map_keys` come first, then those of :meth:`clean`
    for each of :attr:`groups`.
    """

    def __init__(self, compaction: Compaction, disk: Disk, memory_bytes: int) -> None:
        self._of = compaction
        self._disk = disk
        self._offsets = OffsetMap(memory_bytes)
        self._transactions = CleanedTransactions()

    @property
    def end(self) -> int:
        """The offset up to which the log is clean after this round; less than all of it where the
        memory for keys was too small.
        """
        return self._offsets.latest_offset + 1

    @property
    def groups(self) -> list[tuple[ReadableSegment, ...]]:
        """The segments to clean, by the new segment that they become."""
        below = [one for one in self._of.segments if one.base_offset < self.end]
        return list(grouped(below, self._of.settings.segment_bytes, self._of.end))

    def map_keys(self) -> Iterator[None]:
        """Find the newest record of each key from ``first_dirty`` on. Raises LogError, OSError."""
        of, offsets, transactions = self._of, self._offsets, CleanedTransactions()
        transactions.add_aborted(of.aborted(of.first_dirty, of.end))
        for segment in of.segments:
            if segment.end_offset <= of.first_dirty:
                continue
            position = segment.index.position_before(of.first_dirty)
            for data, header in _batches(segment, position):
                with _in(segment, header):
                    has_space = self._map_batch(data, header, transactions)
                if not has_space:
                    return
                if header.last_offset >= of.first_dirty:
                    offsets.latest_offset = max(offsets.latest_offset, header.last_offset)
                yield
            # An earlier round removed the batches between the last one and the next segment.
            offsets.latest_offset = max(offsets.latest_offset, segment.end_offset - 1)

    def _map_batch(
        self, data: bytes, header: BatchHeader, transactions: CleanedTransactions
    ) -> bool:
        """Map the keys of a batch; return whether all of them had space. Those of the first batch
        have, so that each round makes progress.
        """
        if header.is_control:
            records = [one for some in _records(data, header) for one in some]
            transactions.is_marker_of_nothing(header, records)
            return True
        if transactions.is_aborted(header):
            return True
        for records in _records(data, header):
            for record in records:
                if record.key is not None and record.offset >= self._of.first_dirty:
                    if self._offsets.is_full and self._offsets.latest_offset >= 0:
                        return False
                    self._offsets.put(record.key, record.offset)
        return True

    def clean(self, group: Sequence[ReadableSegment]) -> Iterator[None]:
        """Write the new segment of a group, durably, under names that end in ``.cleaned``. Raises
        LogError, OSError.
        """
        of, base = self._of, group[0].base_offset
        kept = BatchFilter(
            self._offsets,
            self._transactions,
            of.producers,
            of.end,
            of.now_ms,
            of.settings.cleanup.delete_retention_ms,
        )
        index = SegmentIndex(base, of.settings.index_interval_bytes)
        path = suffixed(of.directory, base, ".log", CLEANED)
        self._disk.remove(path)
        file = self._disk.open(path)
        try:
            size = 0
            for segment in group:
                self._transactions.add_aborted(of.aborted(segment.base_offset, segment.end_offset))
                for data, header in _batches(segment, 0):
                    with _in(segment, header):
                        left = kept.filter(data, header)
                    if left:
                        self._disk.write(file, size, left)
                        index.add([_described(left, size)])
                        size += len(left)
                    yield
            self._disk.sync(file)
        finally:
            file.close()
        self._write_indexes(base, index)
        with doing("change", path):
            # A record without a timestamp is as old as its file.
            changed_ns = group[-1].file.status()[1]
            os.utime(path, ns=(changed_ns, changed_ns))

    def _write_indexes(self, base: int, index: SegmentIndex) -> None:
        index.add_latest_time()
        aborted = encode_index(self._transactions.take_retained())
        contents = (index.offset_bytes(), index.time_bytes(), aborted)
        for kind, content in zip(INDEXES, contents, strict=True):
            path = suffixed(self._of.directory, base, kind, CLEANED)
            self._disk.remove(path)
            # No transaction index where no transaction was aborted, as everywhere.
            if content or kind != INDEXES[-1]:
                file = self._disk.open(path)
                try:
                    self._disk.write(file, 0, content)
                    self._disk.sync(file)
                finally:
                    file.close()


def _described(data: bytes, position: int) -> Batch:
    header = read_header(data)
    return Batch(
        position,
        len(data),
        header.base_offset,
        header.last_offset,
        header.partition_leader_epoch,
        header.max_timestamp,
    )


def _batches(segment: ReadableSegment, position: int) -> Iterator[tuple[bytes, BatchHeader]]:
    """Yield the batches of a segment, their CRC checked. Raises LogDamaged, OSError."""
    for checked in check_file(segment.file, position, segment.size, _ANY):
        start = checked.batches[0].position if checked.batches else 0
        for batch in checked.batches:
            yield checked.data, read_header(checked.data, batch.position - start)
        if checked.fault is not None:
            raise LogDamaged(segment.file.path, checked.end, checked.fault.reason, _ADVICE)


@contextlib.contextmanager
def _in(segment: ReadableSegment, header: BatchHeader) -> Iterator[None]:
    """Name the file and the batch whose records cannot be read."""
    try:
        yield
    except DecodeError as error:
        reason = f"{error.reason}, in the batch at offset {header.base_offset}"
        raise LogDamaged(segment.file.path, -1, reason, _ADVICE) from error


def _records(data: bytes, header: BatchHeader) -> Iterator[list[Record]]:
    return decode_slices(data, header.position, size=_SLICE_RECORDS)
