"""Follows the transactions of a log while its batches are cleaned in order: which records were
aborted, and which markers stand for no record any more.

It decodes markers and no other record. Source: ``CleanedTransactionMetadata``.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kwire.errors import DecodeError
from kwire.records.control import decode_control_record

if TYPE_CHECKING:
    from gateway.log.segments.transaction_index import AbortedTxn
    from kwire.records.header import BatchHeader
    from kwire.records.record import Record


class CleanedTransactions:
    """The transactions up to the batch that was read last."""

    def __init__(self) -> None:
        self._committed: set[int] = set()  # producers with batches and no marker yet
        self._ahead: list[tuple[int, int, AbortedTxn]] = []  # a heap, by first offset
        self._aborted: dict[int, AbortedTxn] = {}  # by producer, those that began and did not end
        self._with_batches: set[int] = set()  # producers in ``_aborted`` that have batches left
        self._retained: list[AbortedTxn] = []

    def add_aborted(self, transactions: Iterable[AbortedTxn]) -> None:
        """Tell of aborted transactions that are in the batches that come next."""
        for one in transactions:
            # The number in the middle: transactions themselves have no order.
            heapq.heappush(self._ahead, (one.first_offset, len(self._ahead), one))

    def take_retained(self) -> list[AbortedTxn]:
        """Return, once, the aborted transactions whose markers stay."""
        found, self._retained = self._retained, []
        return found

    def is_aborted(self, header: BatchHeader) -> bool:
        """Read a batch of records; return whether its transaction was aborted."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._with_batches.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def is_marker_of_nothing(self, header: BatchHeader, records: Sequence[Record]) -> bool:
        """Read a control batch; return whether its transaction has no batch any more."""
        self._begin_up_to(header.last_offset)
        # One that was emptied before, to remember its producer.
        if not records:
            return True
        kind, producer_id = _kind(records[0]), header.producer_id
        if kind == "ABORT":
            aborted = self._aborted.pop(producer_id, None)
            if aborted is None or producer_id not in self._with_batches:
                return True
            self._with_batches.discard(producer_id)
            self._retained.append(aborted)
            return False
        if kind == "COMMIT":
            has_batches = producer_id in self._committed
            self._committed.discard(producer_id)
            return not has_batches
        return False

    def _begin_up_to(self, offset: int) -> None:
        while self._ahead and self._ahead[0][0] <= offset:
            *_, one = heapq.heappop(self._ahead)
            self._aborted.setdefault(one.producer_id, one)


def _kind(record: Record) -> str:
    """Return the type of a control record, empty for one that is not known: it stays."""
    try:
        return decode_control_record(record).name
    except DecodeError:
        return ""
