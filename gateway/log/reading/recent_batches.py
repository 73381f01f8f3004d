"""Keeps the batches that this process appended last in memory, for its own reader of committed
records: that reader then need not read them back from the disk.

The writer says what it appended and truncated. The reader stops at the high watermark by itself,
and reads the files where this memory does not reach: behind a restart, a truncation or a backlog.
Source: ``MemoryBatchReader`` of ``KafkaRaftClient``, which ``BatchAccumulator`` feeds.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

from gateway.base.sizes import MIB

#: Bytes kept at most: the oldest batches go first.
_KEPT_BYTES: Final = 4 * MIB
#: Bytes that the objects around the batches of one append take, about.
_OBJECT_BYTES: Final = 300


class AppendedBatches:
    """The whole batches of one append, which are read as a file is."""

    __slots__ = ("_data", "base_offset", "end_offset")
    path: Final = "(batches in memory)"

    def __init__(self, base_offset: int, end_offset: int, data: bytes) -> None:
        self.base_offset = base_offset
        self.end_offset = end_offset
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def read(self, position: int, length: int) -> bytes:
        """As ``OpenFile.read``."""
        return self._data[position : position + length]


class RecentBatches:
    """For one writer and one reader, each in a thread of its own. The appends kept have no gap
    between them; what the reader has passed is released.
    """

    def __init__(self, max_bytes: int = _KEPT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._appends: deque[AppendedBatches] = deque()
        self._bytes = 0
        self._lock = threading.Lock()

    def append(self, base_offset: int, end_offset: int, data: bytes | memoryview) -> None:
        """Keep whole batches that are in the log from ``base_offset`` to ``end_offset``
        (exclusive).
        """
        assert base_offset < end_offset, "an append has a record"
        # A view would keep the whole response alive that it is a part of.
        kept = AppendedBatches(base_offset, end_offset, bytes(data))
        with self._lock:
            known_end = self._appends[-1].end_offset if self._appends else base_offset
            assert known_end <= base_offset, "a truncation was told before"
            # A gap: the truncation was inside an append, which went as a whole.
            if known_end < base_offset:
                self._release(len(self._appends))
            self._appends.append(kept)
            self._bytes += _OBJECT_BYTES + len(kept)
            while self._bytes > self._max_bytes:
                self._release(1)

    def truncate_to(self, offset: int) -> None:
        """Drop the records from ``offset`` on, before others take their offsets. An append goes as
        a whole.
        """
        with self._lock:
            while self._appends and self._appends[-1].end_offset > offset:
                self._bytes -= _OBJECT_BYTES + len(self._appends.pop())

    def clear(self) -> None:
        """Drop everything: the end of the log is unknown, or the log begins anew."""
        self.truncate_to(-1)

    def at(self, offset: int) -> AppendedBatches | None:
        """Return the append that holds ``offset``, if it is kept, and release those before it."""
        with self._lock:
            while self._appends and self._appends[0].end_offset <= offset:
                self._release(1)
            first = self._appends[0] if self._appends else None
        return first if first is not None and first.base_offset <= offset else None

    def _release(self, count: int) -> None:
        """Release so many of the oldest appends; the caller holds the lock."""
        for _ in range(count):
            self._bytes -= _OBJECT_BYTES + len(self._appends.popleft())
