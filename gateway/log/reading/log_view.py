"""Holds a log as readers see it at one moment: slices of segment files in offset order, immutable.

It reads no file: ``gateway.log.reading.follower`` makes the views, ``gateway.sources.log_reader``
reads by them. Kafka's counterpart is ``LogSegments``, which changes in place under a lock.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.base.leader_epochs import end_offset_for
from gateway.log.files.problem import Problem
from gateway.log.segments.batch_index import BatchIndex, Status


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
        """As ``gateway.base.leader_epochs.end_offset_for``, for the served records."""
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


def joined(
    segments: Sequence[BatchIndex], start: int
) -> tuple[list[SegmentSlice], Problem | None, list[Problem]]:
    """Return (parts, the fault that ends the log early or None, notices) for ``segments``.

    The parts end at the first segment that is not whole or does not continue the one before it.
    """
    slices: list[SegmentSlice] = []
    expected, epoch = None, -1
    for at, index in enumerate(segments):
        if expected is not None and index.base_offset != expected:
            reason = (
                f"the log before it ends at offset {expected}: "
                "what is between is missing or twice there"
            )
            return slices, Problem(index.file.path, 0, reason), []
        # ``BatchIndex`` has checked the epochs within each segment; this compares two segments.
        if index.epochs and index.epochs[0][0] < epoch:
            return (
                slices,
                Problem(index.file.path, 0, f"epoch {index.epochs[0][0]} follows epoch {epoch}"),
                [],
            )
        if piece := slice_of(index, 0, start):
            slices.append(piece)
        # Where this segment ends is not known yet, so the next one cannot be compared with it.
        if index.status is Status.BEHIND:
            return slices, None, []
        if index.problem:
            # In the last segment the writer may be about to finish it; before another segment it is
            # damage.
            torn = index.status is Status.TORN and at + 1 == len(segments)
            return (slices, None, [index.problem]) if torn else (slices, index.problem, [])
        expected = index.next_offset
        epoch = index.epochs[-1][0] if index.epochs else epoch
    return slices, None, []
