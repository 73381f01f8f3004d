"""The log as a reader sees it at one moment: parts of files in offset order, never changed once
made. Reads no file.
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
    """The batches of one file up to a position. ``start_offset`` to ``end_offset`` are offsets of
    the log.
    """

    index: BatchIndex
    shift: int  #: what turns an offset in the file into one of the log; not 0 only in a snapshot
    start_offset: int
    end_offset: int
    end: int  #: position behind the last batch
    blocks: int  #: entries of the index that belong to the part
    max_timestamp: int

    @property
    def start(self) -> int:
        """Position of the first batch."""
        return self.index.positions[0]


@dataclass(frozen=True, slots=True)
class LogView:
    """Everything served from ``start_offset`` (inclusive) to ``end_offset`` (exclusive), and what
    keeps it from being more.
    """

    slices: tuple[SegmentSlice, ...]
    start_offset: int  #: with the snapshot's records below the log start, where they are served
    end_offset: int
    epochs: tuple[tuple[int, int], ...]  #: (epoch, start offset), oldest first
    epoch: int  #: of the last batch, or of the snapshot that an empty log starts at
    broken: Problem | None = None  #: what ends the log although more follows
    notices: tuple[Problem, ...] = ()  #: a torn tail, a snapshot that cannot be used

    def slice_at(self, offset: int) -> int:
        """Which part holds ``offset``, which must lie within the log."""
        return bisect.bisect_right(self.slices, offset, key=lambda piece: piece.start_offset) - 1

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """As ``gateway.leader_epochs.end_offset_for``, for what is served."""
        return end_offset_for(self.epochs, epoch, self.end_offset)

    def epoch_at(self, offset: int) -> int:
        """Epoch of the batch that holds ``offset``, -1 outside the log."""
        if not self.start_offset <= offset < self.end_offset:
            return -1
        at = bisect.bisect_right(self.epochs, offset, key=lambda entry: entry[1])
        return self.epochs[at - 1][0] if at else -1


def slice_of(index: BatchIndex, shift: int, log_start: int) -> SegmentSlice | None:
    """The part that everything indexed so far makes; None if that is no batch."""
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
    """The epochs of all parts, each once, where it begins; the first begins with the first part."""
    found: list[tuple[int, int]] = []
    for piece in slices:
        for epoch, offset in piece.index.epochs:
            if not found or epoch > found[-1][0]:
                found.append((epoch, max(offset + piece.shift, piece.start_offset)))
    return tuple(found)
