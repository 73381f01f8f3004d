"""Folds the batches of a metadata log to the state before an offset."""

from __future__ import annotations

from gateway.sources.metadata_batch_loader import MetadataBatchLoader
from kwire.cluster import Image
from kwire.errors import DecodeError
from kwire.records.batch import decode_batch
from kwire.records.header import BATCH_OVERHEAD, read_header


class StateFold:
    """A fold from the start of the log. ``next_offset`` is the offset that is folded next."""

    def __init__(self, start_offset: int, end: int) -> None:
        """``end`` is the offset before which the state is."""
        self.next_offset = start_offset
        #: The epoch of the last batch that was folded.
        self.epoch = -1
        self._end = end
        self._fold = MetadataBatchLoader()

    @property
    def image(self) -> Image:
        """The state, once ``next_offset`` is the end; without a transaction that is open there."""
        return self._fold.image

    def take(self, data: bytes) -> None:
        """Fold whole batches, of which the first holds ``next_offset``. As in a broker a record
        that cannot be decoded or applied is passed over.
        """
        at = 0
        while len(data) - at >= BATCH_OVERHEAD and self.next_offset < self._end:
            header = read_header(data, at)
            try:
                records = decode_batch(data, at).records
            except DecodeError:
                records = []
            at += header.size
            if header.next_offset <= self.next_offset:
                continue
            wanted = [one for one in records if self.next_offset <= one.offset < self._end]
            if header.next_offset > self._end:
                header = header._replace(last_offset_delta=self._end - 1 - header.base_offset)
            self._fold.take_log(header, wanted)
            self.next_offset, self.epoch = header.next_offset, header.partition_leader_epoch
