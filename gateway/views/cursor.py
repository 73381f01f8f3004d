"""Reads the served metadata log forward, and cuts its changes into pieces.

It takes the bytes of batches and never reads a file. The caller keeps a cursor only as long as the
log still has the record before ``next_offset`` with the epoch ``epoch``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from gateway.views.fold import Change, Snapshot, ViewFold
from kwire.cluster import Image
from kwire.cluster import view_offsets as offsets
from kwire.errors import DecodeError
from kwire.records.batch import decode_slices
from kwire.records.header import BATCH_OVERHEAD, BatchHeader, read_header
from kwire.records.record import Record

#: Changes of one piece: some 50 ms of a thread's work, encoding included.
PIECE_CHANGES: Final = 2000
#: Records that are decoded together, and those that are folded for one piece at most: a batch may
#: have a million, most of which change nothing.
SLICE_RECORDS: Final = 500
_PIECE_SLICES: Final = 8


class Piece(NamedTuple):
    """All changes from offset ``first`` of the views to ``end`` (exclusive). ``complete`` is the
    snapshot that ends behind the changes, if one does.
    """

    first: int
    end: int
    changes: list[Change]
    complete: Snapshot | None = None


class ViewCursor:
    """A fold of the log from its start up to ``next_offset``, exclusive."""

    def __init__(self, log_start_offset: int, snapshot_end: int) -> None:
        """``snapshot_end`` is the end of the snapshot whose records the log begins with below its
        start; 0 without.
        """
        #: The start of the log that the cursor began with.
        self.origin: Final = log_start_offset, snapshot_end
        #: The next offset of the metadata log, and the epoch of the batch before it, -1 at first.
        self.next_offset = log_start_offset
        self.epoch = -1
        #: Whether it was at the end of the log once.
        self.has_caught_up = False
        #: The first offset of the views that is in no piece yet.
        self.position = offsets.of_snapshot(snapshot_end)
        self._fold = ViewFold()
        self._data = b""
        self._at = 0
        self._changes: Iterator[Change | Snapshot | None] = iter(())
        self._inside = False  # ``_changes`` has more

    @property
    def image(self) -> Image:
        """The state of the cluster before ``next_offset``."""
        return self._fold.image

    def take_notices(self) -> list[str]:
        """Return a sentence for each record passed over since the last call, some of them if there
        are many.
        """
        notices, self._fold.notices = self._fold.notices, []
        return notices

    @property
    def is_hungry(self) -> bool:
        """Whether ``feed`` has to be called before ``step``."""
        return not self._inside and len(self._data) - self._at < BATCH_OVERHEAD

    def note_end(self, log_end: int) -> None:
        """Learn where the log ends now; ``has_caught_up`` is of that."""
        if self.is_hungry and self.next_offset >= log_end:
            self.has_caught_up = True

    def feed(self, data: bytes) -> None:
        """Take whole batches, of which the first holds ``next_offset``."""
        self._data, self._at = data, 0

    def step(self) -> Piece:
        """Fold until there are ``PIECE_CHANGES`` changes, some slices of records were folded, a
        snapshot ended, or nothing is left of what was fed.

        Raises ViewOverflow.
        """
        first, found, slices = self.position, list[Change](), 0
        while True:
            self._inside = True
            for change in self._changes:
                if change is None:
                    slices += 1
                elif isinstance(change, Snapshot):
                    self.position = offsets.at(change.end_offset)
                    return Piece(first, self.position, found, change)
                else:
                    found.append(change)
                    self.position = change.offset + 1
                if len(found) == PIECE_CHANGES or slices == _PIECE_SLICES:
                    return Piece(first, self.position, found)
            self._inside = False
            if not self._fold.in_snapshot:
                self.position = max(self.position, offsets.at(self.next_offset))
            if self.is_hungry:
                return Piece(first, self.position, found)
            self._next_batch()

    def _next_batch(self) -> None:
        header = read_header(self._data, self._at)
        if header.next_offset > self.next_offset:
            self._changes = self._changes_of(header, self._at, self.next_offset)
            self.next_offset, self.epoch = header.next_offset, header.partition_leader_epoch
        self._at += header.size

    def _changes_of(
        self, header: BatchHeader, at: int, first: int
    ) -> Iterator[Change | Snapshot | None]:
        """Fold the records of a batch from offset ``first`` on, and yield what the fold does, None
        after each slice of records. A long batch is read twice, so that it is never folded in part.
        """
        slices: Iterable[list[Record]] = decode_slices(self._data, at, size=SLICE_RECORDS)
        again = decode_slices(self._data, at, size=SLICE_RECORDS)
        try:
            if header.record_count <= SLICE_RECORDS:
                slices = list(slices)
            else:
                for _ in slices:
                    yield None
                slices = again
        except DecodeError:
            slices = ()  # clients get it as it is; the image of a broker lacks all of it
        wanted = ([record for record in some if record.offset >= first] for some in slices)
        yield from self._fold.take(header, wanted)
