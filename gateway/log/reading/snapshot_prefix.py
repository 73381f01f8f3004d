"""Reads the snapshot at the log start, whose records are served as the offsets below that start.

The file is checked while it is scanned, and decoded no further than its footer. Kafka serves no
such records: its clients cannot see what was before the log start.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from gateway.log.files.problem import Problem
from gateway.log.metadata.snapshot import has_footer
from gateway.log.reading.log_view import Epochs, epochs_in
from gateway.log.segments.batch_index import BatchIndex, Status
from gateway.log.segments.segment_slice import SegmentSlice
from kwire.metadata_log.open_file import OpenFile
from kwire.metadata_log.snapshot_id import SnapshotId


class Prefix(NamedTuple):
    """The records of a snapshot with their offsets in the log, or why they are not served."""

    piece: SegmentSlice | None = None
    epochs: Epochs = ()
    notices: tuple[Problem, ...] = ()


class SnapshotPrefix:
    """The snapshot at the start of the log in ``directory``. Not ``enabled``: there is never
    one.
    """

    def __init__(self, directory: str, *, enabled: bool) -> None:
        self._directory = directory
        self._enabled = enabled
        self._snapshot: SnapshotId | None = None
        self._index: BatchIndex | None = None

    def scan(self, snapshot: SnapshotId | None, budget: int) -> bool:
        """Scan about ``budget`` bytes of ``snapshot``, the one that the log starts at. True if
        there is more of it. Raises OSError.
        """
        if snapshot != self._snapshot:
            # The index of another snapshot holds its file open.
            self._snapshot, self._index = snapshot, None
        if not self._enabled or snapshot is None:
            return False
        if self._index is None:
            self._index = BatchIndex(OpenFile(os.path.join(self._directory, snapshot.file_name)), 0)
        index = self._index
        if index.status is not Status.BEHIND:
            return False
        # At least one chunk, or a large segment before it would keep the snapshot from being
        # scanned at all.
        index.scan(max(budget, 1))
        if index.end >= index.file.status()[0] and not has_footer(index):
            index.problem = Problem(
                index.file.path, index.end, "no SNAPSHOT_FOOTER: the snapshot is not complete"
            )
        return index.status is Status.BEHIND

    @property
    def end(self) -> int:
        """How far the snapshot was scanned, bytes; -1 before the first scan."""
        return -1 if self._index is None else self._index.end

    def get(self, snapshot: SnapshotId | None) -> Prefix:
        """Return ``snapshot`` as the part of the log that ends at its start, if it was scanned."""
        index = self._index
        if snapshot is None or snapshot != self._snapshot:
            return Prefix()
        if index is None or index.status is Status.BEHIND:
            return Prefix()
        if index.problem:
            return Prefix(notices=(index.problem,))
        count = index.next_offset
        # The records get the offsets just below the log start, and there is none below 0.
        if count > snapshot.end_offset:
            reason = (
                f"{count} records do not fit below its end offset {snapshot.end_offset}; "
                "not served as a prefix"
            )
            return Prefix(notices=(Problem(index.file.path, -1, reason),))
        piece = index.slice(shift=snapshot.end_offset - count)
        return Prefix(piece, epochs_in(piece, index))
