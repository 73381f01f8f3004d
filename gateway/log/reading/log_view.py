"""Holds a log as readers see it at one moment: slices of segment files in offset order, immutable.

It reads no file: ``own_log`` makes the views of a log that this process writes, ``follower`` those
of one that another process writes, and ``gateway.sources.log_reader`` reads by them. Kafka's
counterpart is ``LogSegments``, which changes in place under a lock.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gateway.base.leader_epochs import end_offset_for
from gateway.log.files.problem import Problem
from gateway.log.segments.batch_index import BatchIndex, Status
from gateway.log.segments.segment_slice import SegmentSlice

#: (epoch, start offset) of each epoch, oldest first.
Epochs = Sequence[tuple[int, int]]


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
    is_compacted: bool = False  #: a slice may have no batch at or behind an offset in it

    def slice_at(self, offset: int) -> int:
        """Return the number of the slice that holds ``offset``, which must lie within the log; in a
        compacted one it may hold what is behind the offset alone.
        """
        at = bisect.bisect_right(self.slices, offset, key=lambda piece: piece.start_offset)
        return max(0, at - 1)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """As ``gateway.base.leader_epochs.end_offset_for``, for the served records."""
        return end_offset_for(self.epochs, epoch, self.end_offset)

    def epoch_at(self, offset: int) -> int:
        """Return the epoch of the batch that holds ``offset``, -1 outside the log."""
        if not self.start_offset <= offset < self.end_offset:
            return -1
        at = bisect.bisect_right(self.epochs, offset, key=lambda entry: entry[1])
        return self.epochs[at - 1][0] if at else -1


class Moment:
    """The log as it was at one moment, for any thread: where it began and ended, and its view. That
    is made when it is first read: most appends come while no client reads the one before.
    """

    __slots__ = ("_make", "_view", "end_offset", "start_offset")

    def __init__(self, start_offset: int, end_offset: int, make: Callable[[], LogView]) -> None:
        """``make`` returns the view, at any later time."""
        self.start_offset = start_offset
        self.end_offset = end_offset
        self._make = make
        self._view: LogView | None = None

    @classmethod
    def of(cls, view: LogView) -> Moment:
        """Return the moment of a view that is made already."""
        return cls(view.start_offset, view.end_offset, lambda: view)

    @property
    def view(self) -> LogView:
        """The slices of all segments: the same object each time, or equal ones where two threads
        are the first.
        """
        view = self._view
        if view is None:
            view = self._view = self._make()
        return view


class Joined(NamedTuple):
    """Segments as a log: the slices up to the first fault, the epochs in them, the fault that ends
    the log early, and other faults.
    """

    slices: list[SegmentSlice]
    epochs: list[tuple[int, int]]
    broken: Problem | None = None
    notices: tuple[Problem, ...] = ()


def epochs_in(piece: SegmentSlice | None, index: BatchIndex) -> list[tuple[int, int]]:
    """Return the epochs of an indexed file as those of the log; the first begins with the slice."""
    if piece is None:
        return []
    return [
        (epoch, max(offset + piece.shift, piece.start_offset)) for epoch, offset in index.epochs
    ]


def merged_epochs(*parts: Epochs) -> tuple[tuple[int, int], ...]:
    """Return the epochs of parts that follow each other."""
    found: list[tuple[int, int]] = []
    for epoch, offset in itertools.chain(*parts):
        if not found or epoch > found[-1][0]:
            found.append((epoch, offset))
    return tuple(found)


def joined(segments: Sequence[BatchIndex], start: int) -> Joined:
    """Return ``segments`` as a log that starts at ``start``.

    The slices end at the first segment that is not whole or does not continue the one before it.
    """
    slices: list[SegmentSlice] = []
    epochs: list[tuple[int, int]] = []
    expected, epoch = None, -1
    for at, index in enumerate(segments):
        if expected is not None and index.base_offset != expected:
            reason = (
                f"the log before it ends at offset {expected}: "
                "what is between is missing or twice there"
            )
            return Joined(slices, epochs, Problem(index.file.path, 0, reason))
        # ``BatchIndex`` has checked the epochs within each segment; this compares two segments.
        if index.epochs and index.epochs[0][0] < epoch:
            reason = f"epoch {index.epochs[0][0]} follows epoch {epoch}"
            return Joined(slices, epochs, Problem(index.file.path, 0, reason))
        if piece := index.slice(log_start=start):
            slices.append(piece)
            epochs += epochs_in(piece, index)
        # Where this segment ends is not known yet, so the next one cannot be compared with it.
        if index.status is Status.BEHIND:
            return Joined(slices, epochs)
        if index.problem:
            # In the last segment the writer may be about to finish it; before another segment it is
            # damage.
            torn = index.status is Status.TORN and at + 1 == len(segments)
            return Joined(
                slices,
                epochs,
                broken=None if torn else index.problem,
                notices=(index.problem,) if torn else (),
            )
        expected = index.next_offset
        epoch = index.epochs[-1][0] if index.epochs else epoch
    return Joined(slices, epochs)
