"""Committed records in, an image that is never halfway through a metadata transaction (KIP-868, ``MetadataBatchLoader``)."""

from __future__ import annotations

from gateway.cluster.fold import FoldError, apply
from gateway.cluster.image import Image
from kwire.message import Message


class Loader:
    """Folds records in offset order. Those of a transaction are held back until its end, and dropped when it is aborted.

    ``image`` is the state before the transaction that is open, if one is.
    """

    def __init__(self, image: Image | None = None) -> None:
        self.image = image or Image()
        self._held: list[Message] | None = None

    @property
    def in_transaction(self) -> bool:
        """Is a metadata transaction open?"""
        return self._held is not None

    def load(self, record: Message, offset: int, epoch: int) -> None:
        """Take the record at ``offset``. Raises FoldError for one that does not fit."""
        name = record.NAME
        if name == "BeginTransactionRecord":
            if self._held is not None:
                raise FoldError(f"a transaction begins at offset {offset} inside another")
            self._held = []
        elif name in ("EndTransactionRecord", "AbortTransactionRecord"):
            held = self._held
            if held is None:
                raise FoldError(f"{name} at offset {offset}, but no transaction is open")
            self._held = None
            if name == "EndTransactionRecord":
                for one in held:
                    apply(self.image, one)
        elif self._held is not None:
            self._held.append(record)
        else:
            apply(self.image, record)
        self.skip_to(offset + 1, epoch)

    def skip_to(self, next_offset: int, epoch: int) -> None:
        """Offsets below ``next_offset`` are dealt with: for control records, which are no part of the state."""
        if self._held is None:
            self.image.next_offset = next_offset
            self.image.epoch = epoch
