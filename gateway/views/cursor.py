"""Reads the served metadata log forward, and cuts its changes into pieces.

It takes the bytes of batches and never reads a file. The caller keeps a cursor only as long as the
log still has the record before ``next_offset`` with the epoch ``epoch``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final, NamedTuple

from gateway.views import offsets
from gateway.views.fold import Change, ViewFold
from kwire.cluster import Image
from kwire.errors import DecodeError
from kwire.records.batch import decode_batch
from kwire.records.header import BATCH_OVERHEAD, read_header

#: Changes of one piece: some 50 ms of a thread's work, encoding included.
PIECE_CHANGES: Final = 2000


class Piece(NamedTuple):
    """All changes from offset ``first`` of the views to ``end`` (exclusive)."""

    first: int
    end: int
    changes: list[Change]


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
        #: The first offset of the views that is in no piece yet.
        self.position = offsets.of_snapshot(snapshot_end)
        self._fold = ViewFold()
        self._data = b""
        self._at = 0
        self._changes: Iterator[Change] = iter(())
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

    def feed(self, data: bytes) -> None:
        """Take whole batches, of which the first holds ``next_offset``."""
        self._data, self._at = data, 0

    def step(self) -> Piece:
        """Fold until there are ``PIECE_CHANGES`` changes, or nothing is left of what was fed.

        Raises ViewOverflow.
        """
        first, found = self.position, list[Change]()
        while True:
            found += itertools.islice(self._changes, PIECE_CHANGES - len(found))
            if len(found) == PIECE_CHANGES:
                self._inside = True
                self.position = found[-1].offset + 1
                return Piece(first, self.position, found)
            self._inside = False
            if not self._fold.in_snapshot:
                self.position = max(self.position, offsets.at(self.next_offset))
            if self.is_hungry:
                return Piece(first, self.position, found)
            self._next_batch()

    def _next_batch(self) -> None:
        header = read_header(self._data, self._at)
        try:
            records = decode_batch(self._data, self._at).records
        except DecodeError:
            records = []  # clients get such a batch as it is; the image of a broker lacks it
        self._at += header.size
        if header.next_offset <= self.next_offset:
            return
        if header.base_offset < self.next_offset:
            records = [record for record in records if record.offset >= self.next_offset]
        self._changes = self._fold.take(header, records)
        self.next_offset, self.epoch = header.next_offset, header.partition_leader_epoch
