"""Holds a log as readers see it at one moment: slices of segment files in offset order, immutable.

It reads no file: ``gateway.log.follower`` makes the views, ``gateway.sources.log_reader`` reads by
them. Kafka's counterpart is ``LogSegments``, which changes in place under a lock.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.leader_epochs import end_offset_for
from gateway.log.batch_index import BatchIndex
from gateway.log.problem import Problem


@dataclass(frozen=True, slots=True)
class SegmentSlice:
    """The batches of one file up to a position. ``start_offset`` and ``end_offset`` (exclusive) are
    offsets of the log.
    """

    index: BatchIndex
    shift: int  #: added to an offset in the file gives that in the log; 0 but for a snapshot
    start_offset: int
    end_offset: int
    end: int  #: position behind the last batch
    blocks: int  #: entries of the index that belong to the slice
    max_timestamp: int

    @property
    def start(self) -> int:
        """Position of the first batch."""
        return self.index.positions[0]


@dataclass(frozen=True, slots=True)
class LogView:
    """The records served from ``start_offset`` to ``end_offset`` (exclusive), and the faults that
    end them.
    """

    slices: tuple[SegmentSlice, ...]
    start_offset: int  #: with the snapshot's records below the log start, where they are served
    end_offset: int
    epochs: tuple[tuple[int, int], ...]  #: (epoch, start offset), oldest first
    epoch: int  #: of the last batch, or of the snapshot that an empty log starts at
    broken: Problem | None = None  #: the fault that ends the log although more follows
    notices: tuple[Problem, ...] = ()  #: a torn tail, a snapshot that cannot be used

    def slice_at(self, offset: int) -> int:
        """Return the number of the slice that holds ``offset``, which must lie within the log."""
        return bisect.bisect_right(self.slices, offset, key=lambda piece: piece.start_offset) - 1

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """As ``gateway.leader_epochs.end_offset_for``, for the served records."""
        return end_offset_for(self.epochs, epoch, self.end_offset)

    def epoch_at(self, offset: int) -> int:
        """Return the epoch of the batch that holds ``offset``, -1 outside the log."""
        if not self.start_offset <= offset < self.end_offset:
            return -1
        at = bisect.bisect_right(self.epochs, offset, key=lambda entry: entry[1])
        return self.epochs[at - 1][0] if at else -1


def slice_of(index: BatchIndex, shift: int, log_start: int) -> SegmentSlice | None:
    """Return the slice of everything indexed so far; None without a batch."""
    if not index.positions:
        return None
    return SegmentSlice(
        index=index,
        shift=shift,
        start_offset=max(index.offsets[0] + shift, log_start),
        end_offset=index.next_offset + shift,
        end=index.end,
        blocks=len(index.positions),
        max_timestamp=index.running_max[-1],
    )


def epochs_of(slices: Sequence[SegmentSlice]) -> tuple[tuple[int, int], ...]:
    """Return (epoch, start offset) of each epoch in the slices; the first begins with the first
    slice.
    """
    found: list[tuple[int, int]] = []
    for piece in slices:
        for epoch, offset in piece.index.epochs:
            if not found or epoch > found[-1][0]:
                found.append((epoch, max(offset + piece.shift, piece.start_offset)))
    return tuple(found)
