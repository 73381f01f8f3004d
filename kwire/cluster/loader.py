"""Loads committed records into an image that never shows half of a metadata transaction (KIP-868,
``MetadataBatchLoader``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kwire.cluster.entities.partitions import add_partitions
from kwire.cluster.fold import apply
from kwire.cluster.image import Image
from kwire.cluster.kind import FoldError
from kwire.message import Message
from kwire.messages.partition_record import PartitionRecord
from kwire.uuid import Uuid

#: Records that begin or end a transaction.
_MARKERS: Final = frozenset(
    {"BeginTransactionRecord", "EndTransactionRecord", "AbortTransactionRecord"}
)


class Loader:
    """Folds records in offset order. It keeps those of a transaction back until its end, and drops
    them if it is aborted.

    ``image`` is the state before the transaction that is open, if one is.
    """

    # ``load`` is given its functions at every call. They are methods of the object that owns the
    # loader, and a loader that kept them would be in a reference cycle around the whole image.

    def __init__(self, image: Image | None = None) -> None:
        self.image = image or Image()
        self._held: list[Message] | None = None

    @property
    def in_transaction(self) -> bool:
        """True within a metadata transaction."""
        return self._held is not None

    def load(
        self,
        record: Message,
        offset: int,
        epoch: int,
        *,
        refused: Callable[[FoldError], None] | None = None,
        change: Callable[[Image, Message], None] = apply,
    ) -> None:
        """Load the record at ``offset``. Raises FoldError for one that does not fit.

        ``refused``, where given, is called with that error instead, and loading continues with the
        next record, as in a broker (``metadata-load-error-count``). ``change`` applies one record;
        a caller that wants to see each change passes its own.
        """
        try:
            # Whole logs come by here, and nearly no record is in a transaction.
            if self._held is None and record.NAME not in _MARKERS:
                change(self.image, record)
            else:
                self._take(record, offset, refused, change)
        except FoldError as error:
            if refused is None:
                raise
            refused(error)
        self.skip_to(offset + 1, epoch)

    def load_partitions(
        self,
        found: Sequence[tuple[Uuid, dict[int, PartitionRecord]]],
        next_offset: int,
        epoch: int,
    ) -> bool:
        """Load the PartitionRecords that end before ``next_offset``: those of each topic by number.
        False, and nothing is loaded, if they have to be loaded one by one.
        """
        if self._held is not None:
            return False
        if not add_partitions(self.image, found):
            return False
        self.skip_to(next_offset, epoch)
        return True

    def _take(
        self,
        record: Message,
        offset: int,
        refused: Callable[[FoldError], None] | None,
        change: Callable[[Image, Message], None],
    ) -> None:
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
                self._apply_all(held, refused, change)
        else:
            assert self._held is not None, "other records come here within a transaction only"
            self._held.append(record)

    def _apply_all(
        self,
        records: list[Message],
        refused: Callable[[FoldError], None] | None,
        change: Callable[[Image, Message], None],
    ) -> None:
        for record in records:
            try:
                change(self.image, record)
            except FoldError as error:
                if refused is None:
                    raise
                refused(error)

    def skip_to(self, next_offset: int, epoch: int) -> None:
        """Skip to ``next_offset``, past control records, which are not part of the state."""
        if self._held is None:
            self.image.next_offset = next_offset
            self.image.epoch = epoch
