"""Answers what ListTransactions and DescribeTransactions ask (KIP-664, KIP-994)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from gateway.base.slices import Slices, pieces
from gateway.broker.transactions.transaction import Transaction, TransactionState
from gateway.broker.transactions.transaction_log import TransactionLog
from kwire.protocol import ErrorCode

#: Transactional ids that are looked at between two slices: less than 1 ms.
_IDS_PER_SLICE: Final = 300


@dataclass(frozen=True, slots=True)
class Filter:
    """The transactions that a client asks for. An empty list, and a negative duration (ms), leave
    none out.
    """

    states: Collection[TransactionState] | None = None
    producer_ids: Collection[int] = ()
    longer_than_ms: int = -1

    def takes(self, one: Transaction, now_ms: int) -> bool:
        """Whether the transaction is one of them."""
        return (
            (not self.producer_ids or one.producer_id in self.producer_ids)
            and (self.states is None or one.state in self.states)
            and (self.longer_than_ms < 0 or now_ms - one.started_ms > self.longer_than_ms)
        )


def describe(log: TransactionLog, transactional_id: str) -> Transaction | ErrorCode:
    """Return the transaction, without the partitions that have its marker."""
    entry = log.find(transactional_id)
    if entry is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
        return ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    if isinstance(entry, ErrorCode):
        return entry
    known = entry.transaction
    if entry.pending is not None and known.state.is_prepared:
        return replace(known, partitions=frozenset(entry.unmarked))
    return known


def matching(
    log: TransactionLog, wanted: Filter, now_ms: int
) -> Slices[list[Transaction] | ErrorCode]:
    """Return the transactions that ``wanted`` takes."""
    if log.is_loading:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    found = []
    for some in pieces(log.entries(), _IDS_PER_SLICE):
        found += [one.transaction for one in some if wanted.takes(one.transaction, now_ms)]
        yield
    return found
