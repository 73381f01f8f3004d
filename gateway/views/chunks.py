"""Keeps the newest and the most read batches of the views, up to a number of bytes.

A chunk has all batches of some views in a range of offsets. Reading collects batches over adjacent
chunks. Chunks that are not kept are made again (``gateway.views.cursor``).
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from gateway.base.sizes import KIB
from gateway.views.encode import EncodedBatch

#: Memory of a chunk and of a batch besides the bytes, about.
_CHUNK_BYTES: Final = 1000
_BATCH_BYTES: Final = 150
#: Chunks of a live log are joined up to this size.
_JOINED_MAX: Final = 64 * KIB


@dataclass(slots=True)
class Chunk:
    """The batches of views from ``first`` to ``end`` (exclusive). A view that is not in ``views``
    was not encoded.
    """

    first: int
    end: int
    views: Mapping[str, list[EncodedBatch]]
    size: int = field(init=False)
    used: int = 0

    def __post_init__(self) -> None:
        self.size = _CHUNK_BYTES + sum(
            _BATCH_BYTES + len(batch.data) for batches in self.views.values() for batch in batches
        )

    def join(self, after: Chunk) -> bool:
        """Take over the batches of the chunk behind this one, if both are small; False if not."""
        if (
            after.first != self.end
            or after.views.keys() != self.views.keys()
            or self.size + after.size > _JOINED_MAX
        ):
            return False
        for view, batches in after.views.items():
            self.views[view].extend(batches)
        self.end = after.end
        self.size += after.size - _CHUNK_BYTES
        return True


class Collected(NamedTuple):
    """Batches of a view, and the offset up to which there are no more. ``is_full``: there is a
    batch at ``end``, but not enough space for it.
    """

    batches: list[bytes]
    size: int
    end: int
    is_full: bool


class Chunks:
    """Chunks in offset order, without overlaps. ``size`` is that of all of them in bytes."""

    def __init__(self, bytes_max: int) -> None:
        self.size = 0
        self._bytes_max = bytes_max
        self._chunks: list[Chunk] = []
        self._clock = 0

    def __len__(self) -> int:
        return len(self._chunks)

    def collect(self, view: str, offset: int, bytes_max: int) -> Collected:
        """Return the batches of ``view`` that end at or behind ``offset``: about ``bytes_max``, but
        at least one if there is one. Empty with the end ``offset`` where they are not kept.
        """
        batches, size, end = list[bytes](), 0, offset
        at = self._at(offset)
        self._clock += 1
        while at < len(self._chunks):
            chunk = self._chunks[at]
            known = chunk.views.get(view)
            if known is None or chunk.first > end:
                break
            for batch in known[bisect.bisect_left(known, offset, key=_last_offset) :]:
                if batches and size + len(batch.data) > bytes_max:
                    return Collected(batches, size, end, True)
                chunk.used = self._clock
                batches.append(batch.data)
                size += len(batch.data)
                end = batch.last_offset + 1
            end = chunk.end
            at += 1
        return Collected(batches, size, end, False)

    def add(self, chunk: Chunk) -> None:
        """Keep a chunk; those that overlap it, and the least recently used ones beyond the number
        of bytes, are dropped.
        """
        if chunk.end <= chunk.first:
            return
        self._drop(lambda one: one.first < chunk.end and one.end > chunk.first)
        at = bisect.bisect_left(self._chunks, chunk.first, key=_first)
        chunk.used = self._clock
        before = self._chunks[at - 1].size if at else 0
        if at and self._chunks[at - 1].join(chunk):
            self.size += self._chunks[at - 1].size - before
        else:
            self._chunks.insert(at, chunk)
            self.size += chunk.size
        while self.size > self._bytes_max and len(self._chunks) > 1:
            oldest = min(self._chunks, key=_used)
            self.size -= oldest.size
            self._chunks.remove(oldest)

    def keep(self, first: int) -> None:
        """Drop the chunks that begin below ``first``."""
        self._drop(lambda one: one.first < first)

    def clear(self) -> None:
        """Drop everything."""
        self._chunks, self.size = [], 0

    def _at(self, offset: int) -> int:
        """Return the number of the chunk that holds ``offset``; behind the last one if none
        does.
        """
        at = bisect.bisect_right(self._chunks, offset, key=_first) - 1
        return at if at >= 0 and offset < self._chunks[at].end else len(self._chunks)

    def _drop(self, wanted: Callable[[Chunk], bool]) -> None:
        if any(map(wanted, self._chunks)):
            self._chunks = [one for one in self._chunks if not wanted(one)]
            self.size = sum(one.size for one in self._chunks)


def _first(chunk: Chunk) -> int:
    return chunk.first


def _used(chunk: Chunk) -> int:
    return chunk.used


def _last_offset(batch: EncodedBatch) -> int:
    return batch.last_offset
