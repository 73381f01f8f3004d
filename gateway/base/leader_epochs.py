"""Finds the leader epochs of a log: where each begins and ends, and what truncation leaves of them.

Follows Kafka's ``LeaderEpochFileCache`` (KIP-101). Holds the entries only: it reads no file and
knows no batch; the log's end belongs to the caller.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final

#: Epochs above that of the last record of a log that no election can have reached: with one each
#: second it takes half a year, and an elected leader writes a record at once.
OUT_OF_REACH: Final = 1 << 24
#: (epoch, offset of its first record), both ascending.
Entries = Sequence[tuple[int, int]]


def end_offset_for(entries: Entries, epoch: int, log_end_offset: int) -> tuple[int, int]:
    """Return the largest epoch not above ``epoch`` and the offset at which it ends
    (``LeaderEpochFileCache.endOffsetFor``).

    (-1, -1) for an epoch newer than all entries, and for a log without records. For an epoch older
    than all entries: that epoch itself, with the first offset of the log, because a log that was
    cleaned no longer knows where it ended.
    """
    if epoch < 0 or not entries or epoch > entries[-1][0]:
        return -1, -1
    at = bisect_right(entries, epoch, key=lambda entry: entry[0])
    if at == 0:
        return epoch, entries[0][1]
    return entries[at - 1][0], entries[at][1] if at < len(entries) else log_end_offset


class LeaderEpochs:
    """The epochs of a log that changes."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        # Replaced with each change, of which there are few: readers keep what they got.
        self._entries = tuple(entries)

    @property
    def entries(self) -> tuple[tuple[int, int], ...]:
        """(epoch, offset of its first record) of every known epoch, ascending: the same object
        until they change.
        """
        return self._entries

    @property
    def latest(self) -> int | None:
        """The newest epoch; None when the log holds no record."""
        return self._entries[-1][0] if self._entries else None

    def assign(self, epoch: int, offset: int) -> None:
        """Note a batch of ``epoch`` at ``offset``. Only the first batch of an epoch changes
        anything.
        """
        if not self._entries or epoch > self._entries[-1][0]:
            # An epoch whose last record the log start has passed.
            self.truncate_from_end(offset)
            self._entries = (*self._entries, (epoch, offset))

    def epoch_before(self, offset: int) -> int | None:
        """The epoch of the record before ``offset``; None when no known epoch begins before it."""
        before = bisect_right(self._entries, offset - 1, key=lambda entry: entry[1])
        return self._entries[before - 1][0] if before else None

    def truncate_from_end(self, offset: int) -> None:
        """The log now ends at ``offset``: forget the epochs that began there or later."""
        kept = len(self._entries)
        while kept and self._entries[kept - 1][1] >= offset:
            kept -= 1
        self._entries = self._entries[:kept]

    def truncate_from_start(self, offset: int) -> None:
        """The log now starts at ``offset``: the epoch that holds it begins there."""
        at = bisect_right(self._entries, offset, key=lambda entry: entry[1])
        if at:
            self._entries = ((self._entries[at - 1][0], offset), *self._entries[at:])

    def clear(self) -> None:
        """The log is empty."""
        self._entries = ()

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """As :func:`end_offset_for`, for these entries."""
        return end_offset_for(self._entries, epoch, log_end_offset)
