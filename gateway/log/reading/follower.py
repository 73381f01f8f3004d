"""Follows a metadata log that another process or thread writes, in bounded steps, without a lock.

A step lists the directory if it changed, scans what is new, and publishes the result as ``view``.
Steps may run in any thread, one at a time: a published chain never changes. Every file is opened
for reading only. It knows neither clients nor high watermarks.

It polls instead of using inotify, which does not see changes on network file systems and tells too
little: a rename still needs a listing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Final

from gateway.base.open_files import make_room
from gateway.base.sizes import MIB
from gateway.log.files.problem import Problem
from gateway.log.metadata.listing import (
    Listing,
    LogStart,
    list_directory,
    log_start,
    superseding_snapshot,
)
from gateway.log.reading.log_view import LogView, joined, merged_epochs
from gateway.log.reading.snapshot_prefix import SnapshotPrefix
from gateway.log.segments.batch_index import TICK_NS, BatchIndex, Status
from kwire.metadata_log.file_names import segment_name
from kwire.metadata_log.open_file import OpenFile

#: Work of one step, in bytes checked (``BatchIndex.scan``): a few milliseconds with warm files.
STEP_BYTES: Final = 8 * MIB
#: The directory is listed and its files are checked at least this often: some file systems (NFS)
#: cache the times of directories.
_RESCAN_INTERVAL_NS: Final = 1_000_000_000


class DirectoryFollower:
    """Follows a ``__cluster_metadata-0`` directory.

    ``view`` is the newest complete view, None until the first scan has finished. ``unreachable``
    says why the last step could not read, None if it could. ``snapshot_prefix``: serve the records
    of the snapshot at the log start as offsets below it.
    """

    def __init__(self, directory: str, *, snapshot_prefix: bool) -> None:
        self.view: LogView | None = None
        self.unreachable: Problem | None = None
        self._directory = directory
        self._prefix = SnapshotPrefix(directory, enabled=snapshot_prefix)
        self._listing = Listing()
        self._log_start = LogStart(0)
        self._segments: list[BatchIndex] = []
        # Change time of the directory, and monotonic time of the listing.
        self._listed: tuple[int, int] | None = None
        self._dirty = True  # something changed since ``view`` was made
        self._raced = False  # a listed file was gone when it was opened
        self._truncated = False  # ``view`` has batches that are no longer in the files

    def rescan(self) -> None:
        """List the directory, and open the files of the log. Raises OSError."""
        # The time is read before the listing: a change during the listing then leads to another
        # one.
        changed = os.stat(self._directory).st_mtime_ns
        # A directory that changed within the last tick may change again without a new time.
        listed = (changed, time.monotonic_ns()) if time.time_ns() - changed > TICK_NS else None
        listing = list_directory(self._directory)
        # Most rescans are due by the clock and find the same names.
        if listing != self._listing:
            self._reconcile(listing)
        # Only now: after a failed open the next step must list the directory again at once.
        self._listed = listed

    def maybe_changed(self) -> bool:
        """Whether a step may find something: a change, or a rescan that is due whatever the times
        of the files say.
        """
        try:
            return (
                bool(self.unreachable)
                or self._rescan_due()
                or any(one.maybe_changed() for one in self._segments[-1:])
            )
        except OSError:
            # The step finds out, and reports it.
            return True

    def step(self, budget: int = STEP_BYTES) -> bool:
        """Rescan if due, and scan about ``budget`` bytes of work. True if there is more to do at
        once.
        """
        try:
            again = self._rescan_due()
            if again:
                self.rescan()
            behind = self._scan(budget, everything=again)
            self.unreachable, self._raced = None, False
        except OSError as error:
            return self._failed(error)
        # After the scan, so that one publication covers all that it found.
        if self._dirty:
            self._publish(behind)
        return behind

    def _failed(self, error: OSError) -> bool:
        """Handle an OSError. A file may go between the listing and the open, so the first failure
        is tried again at once; a lasting one is reported.
        """
        # The directory may have changed since it was listed.
        self._listed = None
        if (
            isinstance(error, FileNotFoundError)
            and error.filename != self._directory
            and not self._raced
        ):
            self._raced = True
            return True
        self.unreachable = Problem(
            str(error.filename or self._directory), -1, error.strerror or str(error)
        )
        return False

    def _rescan_due(self) -> bool:
        if self._listed is None:
            return True
        changed, at = self._listed
        return (
            time.monotonic_ns() - at >= _RESCAN_INTERVAL_NS
            or os.stat(self._directory).st_mtime_ns != changed
        )

    def _reconcile(self, listing: Listing) -> None:
        """Keep the index of every unchanged file, open the new files, drop the others."""
        start = log_start(listing)
        known = {index.base_offset: index for index in self._segments}
        segments = []
        listed = _segments_from(listing.segments, start.offset)
        # Each stays open, so that a reader can finish when it was deleted.
        make_room(len(listed) - len(self._segments), "segments", self._directory)
        for base_offset, inode in listed:
            index = known.get(base_offset)
            if (
                index is None
                # A segment of the same name and another inode: the log was replaced, or restored
                # from a copy.
                or index.file.identity[1] != inode
                or index.floor > max(start.offset, base_offset)
            ):
                path = os.path.join(self._directory, segment_name(base_offset))
                index = BatchIndex(OpenFile(path), base_offset, start.offset)
            # Without a new scan: the batches are the same, and fewer of them are served.
            elif index.floor != start.offset and base_offset < start.offset:
                index = index.with_floor(start.offset)
            segments.append(index)
        self._segments, self._listing, self._log_start, self._dirty = segments, listing, start, True

    # --- scanning
    # ---------------------------------------------------------------------------------------------

    def _scan(self, budget: int, *, everything: bool) -> bool:
        """Scan in log order while the budget lasts. True if it did not last.

        Only the last segment grows, so the others are scanned again only with ``everything``.
        """
        for at, index in enumerate(self._segments):
            settled = index.status is not Status.BEHIND
            # A segment before the last one is finished: Kafka seals it at the roll.
            if settled and not everything and at + 1 < len(self._segments):
                continue
            if settled and not index.maybe_changed() and not (everything and _bytes_changed(index)):
                continue
            before = index.end, index.status
            # A truncation and an append may leave the file as long as it was: only the last batch
            # tells.
            if not index.intact():
                self._segments[at] = index = index.rewound()
                self._truncated = True
            budget -= index.scan(budget)
            self._dirty = self._dirty or self._truncated or (index.end, index.status) != before
            if index.status is Status.BEHIND:
                return True
        before_prefix = self._prefix.end
        behind = self._prefix.scan(self._start().snapshot, budget)
        self._dirty = self._dirty or self._prefix.end != before_prefix
        return behind

    def _start(self) -> LogStart:
        """Return the log start, moved to a later snapshot if that supersedes the whole log."""
        last = self._segments[-1] if self._segments else None
        # The end of the log is not known yet, so no snapshot can be said to lie beyond it.
        if any(index.status in (Status.BEHIND, Status.CORRUPT) for index in self._segments):
            return self._log_start
        epoch = max((index.epochs[-1][0] for index in self._segments if index.epochs), default=-1)
        latest = superseding_snapshot(self._listing, epoch, last.next_offset if last else 0)
        return LogStart(latest.end_offset, latest) if latest else self._log_start

    # --- the view
    # ---------------------------------------------------------------------------------------------

    def _publish(self, behind: bool) -> None:
        """Replace ``view``. During a scan only by growth or a truncation, so that clients never
        see less without cause.
        """
        view = self._compose()
        old = self.view
        grown = (
            old is not None
            and view.end_offset >= old.end_offset
            and view.start_offset == old.start_offset
        )
        # A truncation is shown at once, because the records are no longer in the files.
        if not behind or grown or (old is not None and self._truncated):
            self.view, self._truncated = view, False
        # A view that was held back is composed again by the next step.
        self._dirty = behind

    def _compose(self) -> LogView:
        start = self._start()
        # A snapshot that supersedes the log ends behind all of them.
        segments = self._segments if start == self._log_start else []
        log = joined(segments, start.offset)
        prefix = self._prefix.get(start.snapshot)
        slices = (*([prefix.piece] if prefix.piece else []), *log.slices)
        epochs = merged_epochs(prefix.epochs, log.epochs)
        return LogView(
            slices,
            prefix.piece.start_offset if prefix.piece else start.offset,
            max(start.offset, log.slices[-1].end_offset if log.slices else 0),
            epochs,
            epochs[-1][0] if epochs else start.epoch,
            log.broken,
            (*log.notices, *prefix.notices),
        )


class FileFollower:
    """Follows one segment or snapshot file, as :class:`DirectoryFollower` does, with the offsets in
    the file.
    """

    def __init__(self, path: str) -> None:
        self.view: LogView | None = None
        self.unreachable: Problem | None = None
        self._path = path
        self._index: BatchIndex | None = None

    def rescan(self) -> None:
        """Open the file; again if another file has its name now. Raises OSError."""
        status = os.stat(self._path)
        # Another file of this name, such as a newer copy, is read from its beginning.
        if self._index is None or self._index.file.identity != (status.st_dev, status.st_ino):
            self._index = BatchIndex(OpenFile(self._path), None)

    def maybe_changed(self) -> bool:
        """As :meth:`DirectoryFollower.maybe_changed`."""
        try:
            self.rescan()
            return bool(self.unreachable) or self._index is None or self._index.maybe_changed()
        except OSError:
            return True

    def step(self, budget: int = STEP_BYTES) -> bool:
        """As :meth:`DirectoryFollower.step`."""
        try:
            self.rescan()
            assert self._index is not None
            behind, cut = self._scan(self._index, budget)
            self.unreachable = None
        except OSError as error:
            self.unreachable = Problem(self._path, -1, error.strerror or str(error))
            return False
        view = self._compose()
        grown = self.view is not None and view.end_offset >= self.view.end_offset
        if not behind or grown or (cut and self.view is not None):
            self.view = self.view if view == self.view else view
        return behind

    def _scan(self, index: BatchIndex, budget: int) -> tuple[bool, bool]:
        """Return whether there is more to do, and whether the file was truncated."""
        if index.status is not Status.BEHIND and not index.maybe_changed():
            return False, False
        cut = not index.intact()
        if cut:
            self._index = index = index.rewound()
        index.scan(budget)
        return index.status is Status.BEHIND, cut

    def _compose(self) -> LogView:
        segments = [self._index] if self._index else []
        # As in the file: the offsets in a snapshot begin at 0, whatever its name says.
        start = segments[0].offsets[0] if segments and segments[0].offsets else 0
        log = joined(segments, start)
        return LogView(
            tuple(log.slices),
            start,
            log.slices[-1].end_offset if log.slices else start,
            tuple(log.epochs),
            log.epochs[-1][0] if log.epochs else 0,
            log.broken,
            log.notices,
        )


def _segments_from(segments: Sequence[tuple[int, int]], offset: int) -> list[tuple[int, int]]:
    """Return the segments that hold records at or above ``offset``; always the last one."""
    ends = [base for base, _ in segments[1:]]
    return [one for at, one in enumerate(segments) if at == len(ends) or ends[at] > offset]


def _bytes_changed(index: BatchIndex) -> bool:
    """Whether the last batch differs. Two changes within one tick of the clock have the same time:
    only the bytes tell.
    """
    return index.status is not Status.AT_END or not index.intact()
