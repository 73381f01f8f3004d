"""Shows a log that this process writes to its readers, from what the writer has in memory.

It lists, scans and checks nothing again that was written: views are made of the segments and epochs
of a ``UnifiedLog``, and where that reads no file, not before a reader wants one. A change of the
files by another program is found where bytes are read, and by :meth:`OwnLog.fault`. Logs of other
processes are followed (``follower``).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from gateway.base.open_files import make_room
from gateway.base.sizes import MIB
from gateway.log.files.problem import Problem
from gateway.log.partition.unified_log import UnifiedLog
from gateway.log.reading.log_view import LogView, Moment, merged_epochs
from gateway.log.reading.snapshot_prefix import Prefix, SnapshotPrefix
from gateway.log.segments.batch_check import Tail, check_batches
from gateway.log.segments.segment import ReadableSegment
from gateway.log.segments.segment_slice import SegmentSlice, Slot
from kwire.metadata_log.snapshot_id import SnapshotId

_SCAN_BYTES: Final = 8 * MIB
_LOWEST: Final = -(1 << 63)
_NO_PREFIX: Final = Prefix()


class _First(NamedTuple):
    """The first batch at or above the log start, which lies inside its segment: position and base
    offset. ``latest`` is the largest timestamp from it up to ``end``.
    """

    log_start: int
    position: int
    offset: int
    end: int
    latest: int


class _Parts(NamedTuple):
    """The things that a view is made of. ``before`` and ``last`` are slices: all before the active
    segment, and what is in this one if it could not be taken as it is.
    """

    start_offset: int
    before: tuple[SegmentSlice, ...]
    active: ReadableSegment
    last: tuple[SegmentSlice, ...] | None
    epochs: tuple[tuple[int, int], ...]
    epoch: int
    notices: tuple[Problem, ...]
    is_compacted: bool

    def view(self) -> LogView:
        """Return the view, which reads no file."""
        last = self.last
        if last is None:
            last = (_whole(self.active),) if self.active.size else ()
        return LogView(
            (*self.before, *last),
            self.start_offset,
            self.active.end_offset,
            self.epochs,
            self.epoch,
            notices=self.notices,
            is_compacted=self.is_compacted,
        )


class OwnLog:
    """The views of ``log``. :meth:`refresh` and :meth:`fault` are for the thread that changes the
    log; ``moment`` and ``view`` are for any thread and never change. ``snapshot_prefix`` as in
    ``DirectoryFollower``.
    """

    def __init__(
        self, log: UnifiedLog, *, snapshot_prefix: bool, is_compacted: bool = False
    ) -> None:
        """Open every segment. ``is_compacted``: batches may be missing between others. Raises
        OSError.
        """
        self._log = log
        self._is_compacted = is_compacted
        self._prefix = SnapshotPrefix(str(log.directory), enabled=True) if snapshot_prefix else None
        self._first: _First | None = None
        self._closed: tuple[ReadableSegment, ...] = ()  # what ``_closed_slices`` are of
        self._closed_slices: tuple[SegmentSlice, ...] = ()
        self._start = 0  # the log start that they have
        make_room(len(log.bases), "segments", str(log.directory))
        #: The log as of the last :meth:`refresh`.
        self.moment = self._now()

    @property
    def view(self) -> LogView:
        """The log as of the last :meth:`refresh`."""
        return self.moment.view

    def refresh(self) -> None:
        """Make ``moment`` what the log is now. Raises OSError; it is then as before."""
        self.moment = self._now()

    def _now(self) -> Moment:
        log = self._log
        start = log.start_offset
        prefix = _NO_PREFIX if self._prefix is None else self._read_prefix(self._prefix)
        closed = log.closed_segments()
        # Most writes change the active segment alone.
        if closed is not self._closed or start != self._start:
            self._closed_slices = self._slices(closed, start)
            self._closed, self._start = closed, start
        before, active, epochs = self._closed_slices, log.active_segment(), log.epochs
        piece = prefix.piece
        parts = _Parts(
            piece.start_offset if piece else start,
            (piece, *before) if piece else before,
            active,
            # Now, by a thread that may read files. Most logs begin before the active segment.
            self._slices((active,), start) if start > active.base_offset else None,
            merged_epochs(prefix.epochs, epochs) if prefix.epochs else epochs,
            log.last_epoch,
            prefix.notices,
            self._is_compacted,
        )
        return Moment(parts.start_offset, active.end_offset, parts.view)

    def _read_prefix(self, prefix: SnapshotPrefix) -> Prefix:
        start = self._log.start_offset
        snapshot = SnapshotId(start, self._log.start_epoch) if start else None
        while prefix.scan(snapshot, _SCAN_BYTES):
            pass
        return prefix.get(snapshot)

    def fault(self, end_offset: int, suspects: Iterable[int] = ()) -> Problem | None:
        """Return how the files below ``end_offset`` were changed: one is gone or shorter, or
        the last batch, or one that holds an offset in ``suspects``, is damaged. None if there is
        nothing. Raises OSError.
        """
        view = self.view
        for piece in view.slices:
            if problem := _changed(piece):
                return problem
        for offset in sorted({*suspects, end_offset - 1}):
            if view.slices and view.slices[0].start_offset <= offset < view.end_offset:
                piece = view.slices[view.slice_at(offset)]
                slot = piece.slot_of(offset)
                problem = self.missing(offset) if slot is None else _damaged(piece, slot)
                if problem is not None:
                    return problem
        return None

    def missing(self, offset: int) -> Problem:
        """Return that the batch that holds ``offset``, which was written, is not there any more."""
        piece = self.view.slices[self.view.slice_at(offset)]
        reason = f"the batch that holds offset {offset} is not there any more"
        return Problem(piece.file.path, piece.index.position_before(offset - piece.shift), reason)

    def _slices(
        self, segments: Iterable[ReadableSegment], log_start: int
    ) -> tuple[SegmentSlice, ...]:
        slices = (
            self._slice(one, log_start)
            for one in segments
            if one.size and one.end_offset > log_start
        )
        return tuple(one for one in slices if one is not None)

    def _slice(self, segment: ReadableSegment, log_start: int) -> SegmentSlice | None:
        """Return all batches of a segment that end above ``log_start``; None if it was compacted
        and has none.
        """
        whole = _whole(segment)
        if log_start <= segment.base_offset:
            return whole
        whole, first = replace(whole, start_offset=log_start), self._first
        if first is None or first.log_start != log_start or first.end > segment.size:
            slot = whole.slot_of(log_start)
            if slot is None and self._is_compacted:
                return None
            if slot is None:
                reason = f"the batch at offset {log_start} is not there any more"
                raise OSError(errno.EIO, reason, segment.file.path)
            first = _First(log_start, slot.position, slot.offset, slot.position, slot.max_timestamp)
        latest = segment.max_timestamp
        if segment.max_timestamp_at < log_start:
            # The clock was set back, and the largest timestamp is in a batch that is not served.
            later = whole.slots(first.end)
            latest = max((slot.max_timestamp for slot in later), default=first.latest)
            latest = max(latest, first.latest)
        self._first = first._replace(end=segment.size, latest=latest)
        return replace(whole, start=first.position, first_offset=first.offset, max_timestamp=latest)


def _whole(segment: ReadableSegment) -> SegmentSlice:
    """Return all batches of a segment."""
    return SegmentSlice(
        file=segment.file,
        index=segment.index,
        shift=0,
        start_offset=segment.base_offset,
        end_offset=segment.end_offset,
        first_offset=segment.base_offset,
        start=0,
        end=segment.size,
        max_timestamp=segment.max_timestamp,
    )


def _changed(piece: SegmentSlice) -> Problem | None:
    """Return how a file differs from what was written, by its status alone."""
    status = os.fstat(piece.file.fd)
    if status.st_nlink == 0:
        return Problem(piece.file.path, -1, "was removed or replaced while the server runs")
    if status.st_size < piece.end:
        reason = f"has {status.st_size} bytes, and {piece.end} were written"
        return Problem(piece.file.path, status.st_size, reason)
    return None


def _damaged(piece: SegmentSlice, slot: Slot) -> Problem | None:
    """Return the fault of a batch, None if it is what was written."""
    data = piece.file.read(slot.position, slot.size)
    fault = check_batches(data, Tail(slot.offset, _LOWEST), slot.position).fault
    return Problem(piece.file.path, slot.position, fault.reason) if fault else None
