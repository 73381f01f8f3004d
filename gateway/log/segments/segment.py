"""Writes one segment: ``.log``, ``.index`` and ``.timeindex``, byte for byte as Kafka's
``LogSegment``.

It knows no other segments, epochs or high watermarks, and checks nothing:
``gateway.log.segments.batch_check`` has checked the batches. Readers in this process use the same
index (:class:`ReadableSegment`); those of other processes make their own
(``gateway.log.segments.batch_index``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.log.files.disk import Disk, DiskFile
from gateway.log.files.errors import DiskFailed
from gateway.log.segments.batch_check import Batch, Tail, check_file
from gateway.log.segments.segment_index import OFFSET_ENTRY, TIME_ENTRY, SegmentIndex
from gateway.log.segments.segment_scan import (
    ANY,
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    SegmentScan,
    find_batch,
    read_index,
    scan_segment,
)
from kwire.metadata_log.file_names import segment_name
from kwire.metadata_log.open_file import OpenFile

#: The other files that follow from the batches of a segment, where there are producers
#: (``gateway.sources.producer_log``).
_OF_PRODUCERS: Final = (".txnindex", ".snapshot")
#: Entries of the offset index that wait in memory until they are written together: a batch of
#: 64 KiB has one each. Until the segment is sealed only a start reads them, and it finds what is
#: missing at their end in the batches.
_WAITING_MAX: Final = 64
#: Positions and relative offsets in the indexes are int32.
_INT32_MAX: Final = (1 << 31) - 1


# Not frozen, which takes three times as long to make: each append makes one.
@dataclass(slots=True)
class ReadableSegment:
    """A segment for readers in this process: its open file and its index, and how far both go at
    this moment. It never changes.
    """

    base_offset: int
    end_offset: int
    size: int
    file: OpenFile
    index: SegmentIndex
    max_timestamp: int  #: the largest of its batches, ms, -1 without one
    max_timestamp_at: int  #: the last offset of the first batch that has it


def open_closed(
    directory: Path, base_offset: int, end_offset: int, interval_bytes: int
) -> ReadableSegment:
    """Open a closed segment for reading, by its index files; the batches themselves are read only
    where these are of no use. Raises OSError.
    """
    file = OpenFile(str(directory / segment_name(base_offset)))
    index = read_index(file, base_offset, interval_bytes)
    if index is None:
        index = scan_segment(directory, base_offset, interval_bytes, 0, gaps=True).index
    return ReadableSegment(base_offset, end_offset, file.status()[0], file, index, *index.latest)


def delete_segments(
    directory: Path, disk: Disk, bases: Sequence[int], delay_ms: int = 0
) -> list[str]:
    """Delete segments one by one, each durably, in the order given; return their names. Their files
    stay under other names for ``delay_ms`` (``LocalLog.deleteSegmentFiles``). Raises DiskFailed.
    """
    names = []
    for base_offset in bases:
        path = directory / segment_name(base_offset)
        # The .log file first: recovery deletes an index without its segment.
        disk.discard(path, delay_ms)
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, *_OF_PRODUCERS):
            disk.discard(path.with_suffix(suffix), delay_ms)
        # Unlinks may reach the disk in any order: without this a crash could leave a gap between
        # two segments.
        disk.sync_directory(directory)
        names.append(path.name)
    return names


def replace_segment(
    directory: Path, disk: Disk, base_offset: int, pieces: Iterable[bytes], interval_bytes: int
) -> None:
    """Replace the batches of a segment that is not open, and its indexes. After a crash it has
    the old batches or the new ones. Raises DiskFailed, OSError.
    """
    path = directory / segment_name(base_offset)
    # The batches first: an index that describes the old ones is worse than none, and a crash before
    # its removal is found, because recovery compares indexes with the batches.
    disk.replace_in_pieces(path, pieces)
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        disk.remove(path.with_suffix(suffix))
    rebuilt = Segment(disk, directory, scan_segment(directory, base_offset, interval_bytes, 0))
    try:
        rebuilt.seal()
    finally:
        rebuilt.close()


class Segment:
    """An open segment. ``size`` and ``end_offset`` count what was written, ``flushed_size`` the
    bytes known to be on disk.

    After DiskFailed from ``append`` it is as before the call, unless ``torn`` is set.
    """

    def __init__(self, disk: Disk, directory: Path, scan: SegmentScan) -> None:
        """Open or create the files of the segment that was scanned: truncate bad bytes, rewrite
        wrong indexes. Raises DiskFailed.
        """
        self.base_offset = scan.base_offset
        self.size = scan.size
        self.end_offset = scan.tail.next_offset
        # Nothing is known to be on disk before the first sync, not even what was read.
        self.flushed_size = 0
        self.flushed_offset = scan.base_offset  #: end offset of the batches in these bytes
        self.torn = False
        self._disk = disk
        self._index = scan.index
        self._path = directory / segment_name(scan.base_offset)
        self._reading: OpenFile | None = None
        self._files: list[DiskFile] = []
        try:
            # The .log file last: recovery removes an index without a .log file, and rebuilds the
            # indexes of a .log file without them.
            self._offsets_file = self._open(directory, INDEX_SUFFIX)
            self._times_file = self._open(directory, TIME_INDEX_SUFFIX)
            self._log = self._open(directory, ".log")
            if scan.file_size > scan.size:
                # Synced at once: the next append could otherwise be on disk before the truncation,
                # and a crash would leave the old bad bytes behind a good batch.
                disk.truncate(self._log, scan.size)
                disk.sync(self._log)
            self._set_indexes(scan.index.offset_bytes(), scan.index.time_bytes())
            self._written = scan.index.counts
        except BaseException:
            self.close()
            raise

    @classmethod
    def create(cls, disk: Disk, directory: Path, base_offset: int, interval_bytes: int) -> Segment:
        """Create an empty segment; its names are on disk when this returns. Raises DiskFailed."""
        segment = cls(
            disk,
            directory,
            SegmentScan(SegmentIndex(base_offset, interval_bytes), Tail(base_offset, 0)),
        )
        # Once for the three files.
        disk.sync_directory(directory)
        return segment

    @property
    def first_timestamp(self) -> int | None:
        """Largest timestamp of the first batch (ms), None without a batch."""
        return self._index.first_timestamp

    def readable(self) -> ReadableSegment:
        """Return the segment as it is now, for readers. Raises OSError."""
        if self._reading is None:
            # A descriptor of their own: a read may last longer than the segment is written.
            self._reading = OpenFile(str(self._path))
        index = self._index
        return ReadableSegment(
            self.base_offset, self.end_offset, self.size, self._reading, index, *index.latest
        )

    def has_room_for(self, batch: Batch, size: int) -> bool:
        """Return whether the indexes can describe ``batch`` at position ``size``."""
        return (
            batch.last_offset - self.base_offset <= _INT32_MAX and size + batch.size <= _INT32_MAX
        )

    def append(self, data: memoryview, batches: Sequence[Batch]) -> None:
        """Write ``batches``, which are consecutive in ``data`` at their positions. Raises
        DiskFailed.
        """
        start, end = batches[0].position, batches[-1].position + batches[-1].size
        try:
            # At the known size and not at the end of the file: bytes of a failed write may lie
            # behind it.
            self._disk.write(self._log, self.size, data[start:end])
            self._index.add(batches, self.size - start)
            if self._index.counts[0] - self._written[0] >= _WAITING_MAX:
                self.write_entries()
        except BaseException:
            # Until ``_undo`` has worked: the caller asks for it when that failed, too.
            self.torn = True
            with contextlib.suppress(DiskFailed):
                self._undo()
            raise
        # Batches are appended without a gap: recovery takes any other offset for damage.
        assert batches[0].base_offset >= self.end_offset, "offsets continue"
        self.size += end - start
        self.end_offset = batches[-1].last_offset + 1
        assert self.flushed_size <= self.size and self.flushed_offset <= self.end_offset

    def locate(self, offset: int) -> tuple[int, int]:
        """Return size and end offset of what precedes the batch that holds ``offset``; of
        everything if no batch does. Raises DiskFailed.
        """
        found = find_batch(self._log, self._index, offset, self.size)
        # The start of the batch, not ``offset``: a batch is cut as a whole, as in
        # ``FileRecords.truncateTo``.
        # In a gap of a compacted log the next batch begins behind it.
        return (
            (found.position, min(found.base_offset, offset))
            if found
            else (self.size, self.end_offset)
        )

    def truncate_to(self, offset: int) -> None:
        """Drop the batch that holds ``offset`` and everything behind it, durably. Raises
        DiskFailed.
        """
        size, end_offset = self.locate(offset)
        if size == self.size:
            return
        # The log before its indexes: an index entry behind the end is found at start (Kafka's
        # sanityCheck), a batch without entry would be too. Neither loses a record.
        self._disk.truncate(self._log, size)
        # Before the epochs are cut: ``UnifiedLog.truncate_to`` relies on this order.
        self._disk.sync(self._log)
        self.size = self.flushed_size = size
        self.end_offset = self.flushed_offset = end_offset
        assert self.base_offset <= self.end_offset and self.size >= 0
        self._rewind_index()

    def truncate_unflushed(self) -> None:
        """Cut off the bytes that a failed sync left in doubt, for the next process that opens the
        segment. Raises DiskFailed.
        """
        self._disk.truncate(self._log, self.flushed_size)

    def flush(self) -> None:
        """Sync the batches. Raises SyncFailed.

        The indexes are not synced: recovery rebuilds them from the batches behind its point.
        """
        if self.flushed_size < self.size:
            self._disk.sync(self._log)
            self.flushed_size, self.flushed_offset = self.size, self.end_offset
        assert self.base_offset <= self.flushed_offset

    def seal(self) -> None:
        """Complete and sync the segment, which gets no more batches. Raises DiskFailed."""
        # ``LogSegment.onBecomeInactiveSegment`` does so: look-ups by time rely on the last entry.
        self.add_latest_time()
        self.flush()
        # A closed segment is trusted by its last index entries, so these must be on disk before the
        # next segment appears.
        self.flush_indexes()

    def flush_indexes(self) -> None:
        """Write and sync the indexes. Raises DiskFailed."""
        self.write_entries()
        self._disk.sync(self._offsets_file)
        self._disk.sync(self._times_file)

    def add_latest_time(self) -> None:
        """Complete the time index, as Kafka does at a roll and at a close. Raises DiskFailed."""
        self._index.add_latest_time()
        self.write_entries()

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()

    def _open(self, directory: Path, suffix: str) -> DiskFile:
        file = self._disk.open((directory / segment_name(self.base_offset)).with_suffix(suffix))
        self._files.append(file)
        return file

    def _set_indexes(self, offsets: bytes, times: bytes) -> None:
        """Make the files hold these entries. An index that is right already is not written: Kafka's
        preallocated one is longer, and is trimmed.
        """
        size = self._times_file.size
        if size < len(times) or self._times_file.read(0, len(times)) != times:
            # ``scan_from`` trusts offset entries that agree with the batches, and the time entries
            # with them: after a crash in between there must be none of the first.
            self._disk.truncate(self._offsets_file, 0)
            self._disk.sync(self._offsets_file)
            self._disk.truncate(self._times_file, 0)
            self._disk.write(self._times_file, 0, times)
            self._disk.sync(self._times_file)
        elif size > len(times):
            self._disk.truncate(self._times_file, len(times))
        size = min(self._offsets_file.size, len(offsets))
        if self._offsets_file.read(0, size) != offsets[:size]:
            size = 0
        if self._offsets_file.size != size:
            self._disk.truncate(self._offsets_file, size)
        if size < len(offsets):
            self._disk.write(self._offsets_file, size, offsets[size:])

    def write_entries(self) -> None:
        """Write the entries of the indexes that wait in memory. Raises DiskFailed."""
        # Behind those that the files have.
        offsets, times = self._written
        if self._index.counts != self._written:
            self._disk.write(
                self._offsets_file, offsets * OFFSET_ENTRY.size, self._index.offset_bytes(offsets)
            )
            self._disk.write(
                self._times_file, times * TIME_ENTRY.size, self._index.time_bytes(times)
            )
            self._written = self._index.counts

    def _undo(self) -> None:
        """Restore the state before an append that failed."""
        self._disk.truncate(self._log, self.size)
        self._rewind_index()
        self.torn = False

    def _rewind_index(self) -> None:
        """Truncate the indexes to what the segment holds."""
        # A new index: readers keep the old one.
        self._index, position = self._index.rewound(self.end_offset)
        for checked in check_file(self._log, position, self.size, ANY):
            self._index.add(checked.batches)
        # Some of what it has may not be in the files yet.
        offsets, times = map(min, self._index.counts, self._written)
        self._disk.truncate(self._offsets_file, offsets * OFFSET_ENTRY.size)
        self._disk.truncate(self._times_file, times * TIME_ENTRY.size)
        self._written = offsets, times
