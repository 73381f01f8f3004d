"""Folds the committed records of a log directory: the newest snapshot, then the log after it, in
pieces.

Blocking, and for one thread at a time. It knows neither clients nor the event loop:
``gateway.sources.metadata_loader`` runs it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from gateway.base.sizes import MIB
from gateway.log.metadata.listing import list_directory
from gateway.log.reading.log_cursor import Batch, LogCursor
from gateway.log.reading.recent_batches import RecentBatches
from gateway.sources.metadata_batch_loader import MetadataBatchLoader
from kwire.errors import DecodeError
from kwire.metadata_log.reader import read_chunks_of_file
from kwire.metadata_log.snapshot_id import SnapshotId

#: Record bytes that one step folds: some 50 ms of a thread's work, less where there are runs.
PIECE_BYTES: Final = MIB


class NoUsableSnapshot(Exception):
    """No state can be computed: the log begins above offset 0, and no usable snapshot ends where it
    continues.
    """


class MetadataReplayer:
    """One pass from the beginning to the high watermark. ``fold`` has the image and the counts."""

    def __init__(
        self, directory: str | os.PathLike[str], recent: RecentBatches | None = None
    ) -> None:
        """``recent``: as of ``LogCursor``."""
        self.directory = os.fspath(directory)
        self._recent = recent
        self.fold = MetadataBatchLoader()
        #: The snapshot that ``fold`` began with, if it began with one.
        self.snapshot: SnapshotId | None = None
        #: Bytes of the log's batches folded.
        self.log_bytes = 0
        self._cursor: LogCursor | None = None
        self._snapshot_batches: Iterator[Batch] | None = None
        self._unusable: dict[SnapshotId, str] = {}

    def step(self, below: int) -> bool:
        """Fold one piece below offset ``below``. True if there may be more to do at once.

        Raises NoUsableSnapshot; LogGap, after which only a new replay can continue; DecodeError
        with file and position for a damaged batch of the log; OSError. The records folded before
        stay valid, and the step may be repeated after all but LogGap.
        """
        if self._cursor is None:
            self._start(below)
            return True
        batches = self._cursor.read(below, PIECE_BYTES)
        for header, pieces in batches:
            self.fold.take_log(header, pieces)
            self.log_bytes += header.size
        return bool(batches) and self._cursor.next_offset < below

    @property
    def read_offset(self) -> int:
        """The first offset of the log not read yet: beyond the image's while a transaction is
        open.
        """
        return self._cursor.next_offset if self._cursor else 0

    def can_restart(self, below: int) -> bool:
        """Whether a new replay would begin behind everything that this one has read. Raises
        OSError.
        """
        try:
            snapshot = self._choose(below)
        except NoUsableSnapshot:
            return False
        return snapshot is not None and snapshot.end_offset > self.read_offset

    def _start(self, below: int) -> None:
        """Choose the snapshot, fold a piece of it, or begin with the log."""
        if self._snapshot_batches is None:
            self.snapshot = self._choose(below)
            if self.snapshot is None:
                self._cursor = LogCursor(self.directory, 0, self._recent)
                return
            self._snapshot_batches = read_chunks_of_file(
                os.path.join(self.directory, self.snapshot.file_name)
            )
        assert self.snapshot is not None
        try:
            ended = self._fold_snapshot(self.snapshot, self._snapshot_batches)
        except OSError as error:
            self._begin_again()
            # The cleaner may delete a snapshot between the listing and the open: choose again.
            if not isinstance(error, FileNotFoundError):
                raise
        except DecodeError as error:
            self._pass_over(self.snapshot, f"damaged at byte {error.offset}: {error.reason}")
        else:
            if ended and self.fold.last_control != "SNAPSHOT_FOOTER":
                self._pass_over(self.snapshot, "it has no footer: it was never finished")
            elif ended:
                self.fold.finish_snapshot(self.snapshot)
                self._cursor, self._snapshot_batches = (
                    LogCursor(self.directory, self.snapshot.end_offset, self._recent),
                    None,
                )

    def _choose(self, below: int) -> SnapshotId | None:
        """Return the newest snapshot that ends at or below ``below`` and that the log continues;
        None for a log from offset 0.
        """
        listing = list_directory(self.directory)
        base = listing.segments[0][0] if listing.segments else None
        for snapshot in reversed(listing.snapshots):
            continues = base is None or base <= snapshot.end_offset
            if snapshot.end_offset <= below and continues and snapshot not in self._unusable:
                return snapshot
        if base == 0 or (base is None and not listing.snapshots):
            return None
        begin = "there is no log" if base is None else f"the log begins at offset {base}"
        notices = "".join(f"; {reason}" for reason in self._unusable.values())
        raise NoUsableSnapshot(
            f"{begin}, and no usable snapshot that ends at or below the high watermark {below} "
            f"leads there{notices}"
        )

    def _fold_snapshot(self, snapshot: SnapshotId, batches: Iterator[Batch]) -> bool:
        """Fold a piece of the snapshot; True after its last batch. Raises DecodeError, OSError."""
        done = 0
        for header, pieces in batches:
            self.fold.take_snapshot(snapshot.file_name, header, pieces)
            done += header.size
            if done >= PIECE_BYTES:
                return False
        return True

    def _pass_over(self, snapshot: SnapshotId, reason: str) -> None:
        """Drop the state folded from a bad snapshot, and use the snapshot before it."""
        self._unusable[snapshot] = f"{snapshot.file_name} is passed over: {reason}"
        self._begin_again()
        self.fold.add_notice(f"{self.directory}: {self._unusable[snapshot]}")

    def _begin_again(self) -> None:
        notices, self.fold = self.fold.notices, MetadataBatchLoader()
        self.fold.notices = notices
        self.snapshot = self._snapshot_batches = None
