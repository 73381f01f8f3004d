"""Builds the entries of a segment's ``.index`` and ``.timeindex``, one for one as Kafka's
``LogSegment`` does, and finds batches by them.

It touches no file: ``gateway.log.segments.segment`` writes the entries. Equal entries let Kafka
open a directory without rebuilding its indexes. Readers in other threads may look batches up while
entries are added (``segment_slice.SparseIndex``).
"""

from __future__ import annotations

import bisect
import struct
from array import array
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from gateway.log.segments.batch_check import Batch

#: ``OffsetIndex``: offset relative to the segment's base, byte position in the segment.
OFFSET_ENTRY: Final = struct.Struct(">ii")
#: ``TimeIndex``: timestamp in ms, offset relative to the segment's base.
TIME_ENTRY: Final = struct.Struct(">qi")
_NO_TIMESTAMP: Final = -1
#: The largest relative offset and position of an entry, which are int32.
_INT32_MAX: Final = (1 << 31) - 1
_INT64_MAX: Final = (1 << 63) - 1


class SegmentIndex:
    """The entries of both indexes; offsets are those of the log. Each batch is added once, in
    order.

    A batch that begins more than ``interval_bytes`` behind the last one with an entry gets one: its
    last offset and its position. The time index then gets the largest timestamp so far, if that is
    new, with the last offset of its batch.
    """

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self.base_offset = base_offset
        self.first_timestamp: int | None = None  #: the largest timestamp of the first batch (ms)
        self._interval = interval_bytes
        # Absolute offsets in memory: four bytes more, and no addition at each look-up.
        self._offsets = array("q")
        self._positions = array("q")
        self._times = array("q")
        self._time_offsets = array("q")
        # Base offset and position of the first of the batches that were added last: those who read
        # the end of the log begin there.
        self._newest = (_INT64_MAX, 0)
        # ``TimestampOffset.UNKNOWN`` of Kafka: an entry with timestamp -1 is never written.
        self._latest = (_NO_TIMESTAMP, base_offset)

    @property
    def counts(self) -> tuple[int, int]:
        """Number of offset entries and of time entries."""
        return len(self._offsets), len(self._times)

    def add(self, batches: Sequence[Batch], shift: int = 0) -> None:
        """Add batches, whose position in the segment is ``shift`` bytes behind the position they
        carry.
        """
        if not batches:
            return
        if self.first_timestamp is None:
            self.first_timestamp = batches[0].max_timestamp
        self._newest = batches[0].base_offset, shift + batches[0].position
        due = (self._positions[-1] if self._positions else 0) + self._interval - shift
        latest = self._latest[0]
        for position, _, _, last_offset, _, timestamp in batches:
            # The first batch with the largest timestamp stays, as in ``LogSegment.append``.
            if timestamp > latest:
                latest = timestamp
                self._latest = (timestamp, last_offset)
            # More than the interval since the last entry, not at least as much: Kafka's
            # ``bytesSinceLastIndexEntry > indexIntervalBytes``.
            if position > due and self._describes(last_offset, shift + position):
                # The position first: a reader looks it up by the offset.
                self._positions.append(shift + position)
                self._offsets.append(last_offset)
                self.add_latest_time()
                due = position + self._interval

    def _describes(self, offset: int, position: int) -> bool:
        # Only a segment of another writer is larger; its last part is then found without an index.
        return offset - self.base_offset <= _INT32_MAX and position <= _INT32_MAX

    def add_latest_time(self) -> None:
        """Add the largest timestamp, as Kafka does when a segment is rolled or closed
        (``TimeIndex.maybeAppend``).
        """
        timestamp, offset = self._latest
        # ``>``: ``TimeIndex.maybeAppend`` writes no second entry of the same timestamp.
        is_newer = timestamp > (self._times[-1] if self._times else _NO_TIMESTAMP)
        if is_newer and self._describes(offset, 0):
            self._time_offsets.append(offset)
            self._times.append(timestamp)

    @property
    def latest(self) -> tuple[int, int]:
        """The largest timestamp (ms, -1 without one), and the last offset of the first batch that
        has it.
        """
        return self._latest

    @property
    def last_entry(self) -> tuple[int, int] | None:
        """The last offset and the position of the last batch with an offset entry."""
        return (self._offsets[-1], self._positions[-1]) if self._positions else None

    def position_before(self, offset: int) -> int:
        """Return the position of the last batch with an entry that ends before ``offset``, 0 if
        there is none (``OffsetIndex.lookup``).
        """
        # An entry holds the last offset of its batch, so the batch with ``offset`` is behind the
        # entry found.
        at = bisect.bisect_left(self._offsets, offset)
        return self._positions[at - 1] if at else 0

    def position_near(self, offset: int) -> int:
        """As ``SparseIndex.position_near``."""
        newest, position = self._newest
        return position if offset >= newest else self.position_before(offset)

    def position_at(self, position: int) -> int:
        """As ``SparseIndex.position_at``."""
        at = bisect.bisect_right(self._positions, position)
        return self._positions[at - 1] if at else 0

    def position_of_time(self, timestamp: int) -> int:
        """As ``SparseIndex.position_of_time``."""
        at = bisect.bisect_left(self._times, timestamp)
        if at < len(self._times):
            # Its batch is the first with the timestamp of the entry, and an offset entry before it
            # would have come with a time entry for every earlier batch that is late enough.
            return self.position_before(self._time_offsets[at])
        return self._positions[-1] if self._positions else 0

    def latest_before(self, position: int) -> int:
        """As ``SparseIndex.latest_before``."""
        entry = bisect.bisect_right(self._positions, position) - 1
        if entry < 0:
            return _NO_TIMESTAMP
        at = bisect.bisect_right(self._time_offsets, self._offsets[entry])
        return self._times[at - 1] if at else _NO_TIMESTAMP

    def rewound(self, offset: int) -> tuple[SegmentIndex, int]:
        """Return an index without the entries of batches that end at ``offset`` or later, and the
        position of the batch with its last entry: the caller adds the batches from there again.
        """
        kept = bisect.bisect_left(self._offsets, offset)
        # A time entry may stand for a batch behind the last one with an offset entry; those go too.
        times = bisect.bisect_right(self._time_offsets, self._offsets[kept - 1]) if kept else 0
        index = SegmentIndex(self.base_offset, self._interval)
        index._offsets, index._positions = self._offsets[:kept], self._positions[:kept]
        index._times, index._time_offsets = self._times[:times], self._time_offsets[:times]
        if times:
            index._latest = (self._times[times - 1], self._time_offsets[times - 1])
        if kept:
            index.first_timestamp = self.first_timestamp
        return index, index._positions[-1] if kept else 0

    @classmethod
    def of_files(
        cls, base_offset: int, interval_bytes: int, offsets: bytes, times: bytes
    ) -> SegmentIndex | None:
        """Return the index with the content of ``.index`` and ``.timeindex``; None if their entries
        do not ascend (``OffsetIndex.sanityCheck``). Its ``first_timestamp`` is not known.
        """
        if len(offsets) % OFFSET_ENTRY.size or len(times) % TIME_ENTRY.size:
            return None
        index = cls(base_offset, interval_bytes)
        for offset, position in OFFSET_ENTRY.iter_unpack(offsets):
            index._offsets.append(base_offset + offset)
            index._positions.append(position)
        for timestamp, offset in TIME_ENTRY.iter_unpack(times):
            index._times.append(timestamp)
            index._time_offsets.append(base_offset + offset)
        columns = (index._offsets, index._positions, index._times, index._time_offsets)
        if not all(one < next_one for column in columns for one, next_one in pairwise(column)):
            return None
        # The first batch has no entry.
        if index._positions and index._positions[0] <= 0:
            return None
        if index._times:
            index._latest = (index._times[-1], index._time_offsets[-1])
        return index

    def offset_bytes(self, first: int = 0) -> bytes:
        """Return the ``.index`` file from entry ``first`` on."""
        pack, base = OFFSET_ENTRY.pack, self.base_offset
        entries = zip(self._offsets[first:], self._positions[first:], strict=True)
        return b"".join([pack(offset - base, position) for offset, position in entries])

    def time_bytes(self, first: int = 0) -> bytes:
        """Return the ``.timeindex`` file from entry ``first`` on."""
        pack, base = TIME_ENTRY.pack, self.base_offset
        entries = zip(self._times[first:], self._time_offsets[first:], strict=True)
        return b"".join([pack(timestamp, offset - base) for timestamp, offset in entries])
