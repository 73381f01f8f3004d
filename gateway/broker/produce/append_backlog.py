"""Counts the bytes of batches that wait for a disk, and lets producers wait while there are too
many.

A batch is written at once as long as the disk is quick. Behind a disk that stalls batches are kept
in memory, up to a limit for a partition and one for the broker; then requests wait, and their
connections are read no further. Kafka bounds the requests that are queued instead
(``queued.max.request.bytes``), and its handlers wait for the disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

#: The part of the broker's limit that the batches of one partition may take.
_SHARE: Final = 2


class AppendBacklog:
    """The batches of all partitions, or of one (:meth:`part`). Only the event loop uses it."""

    def __init__(self, limit: int, whole: AppendBacklog | None = None) -> None:
        """``limit`` in bytes, which the last batch may exceed. ``whole``: the backlog of all
        partitions, if this is that of one.
        """
        self.bytes = 0
        self._limit = limit
        self._whole = whole
        self._waiting: dict[object, tuple[int, Callable[[], None]]] = {}  # in order

    def part(self) -> AppendBacklog:
        """Return the backlog of one partition, whose bytes count here too."""
        return AppendBacklog(self._limit // _SHARE, self)

    @property
    def is_full(self) -> bool:
        """Whether a request has to :meth:`wait` before it appends."""
        return self.bytes >= self._limit or (self._whole is not None and self._whole.is_full)

    def wait(self, size: int, resume: Callable[[], None]) -> Callable[[], None]:
        """Call ``resume`` once when there is space for ``size`` bytes, unless the function that
        this returns was called before. Others may take the space first.
        """
        if self.bytes < self._limit and self._whole is not None:
            return self._whole.wait(size, resume)
        key = object()
        self._waiting[key] = size, resume
        return lambda: self._give_up(key)

    def _give_up(self, key: object) -> None:
        self._waiting.pop(key, None)

    def add(self, size: int) -> None:
        """A batch waits for the disk."""
        self.bytes += size
        if self._whole is not None:
            self._whole.add(size)

    def remove(self, size: int) -> None:
        """A batch is written or refused."""
        self.bytes -= size
        space = self._limit - self.bytes
        # All of them when nothing is left whose end would resume the others.
        while self._waiting and (space > 0 or not self.bytes):
            size_of_next, resume = self._waiting.pop(next(iter(self._waiting)))
            space -= size_of_next
            resume()
        if self._whole is not None:
            self._whole.remove(size)
