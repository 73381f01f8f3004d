"""Decides whether a client may end a transaction, by the rules of its protocol.

Up to level 1 of ``transaction.version`` an end keeps the epoch, and ending twice is allowed. From
level 2 on each end bumps the epoch, so that the epoch of a request tells whether it is repeated
(KIP-890). Follows Kafka's ``TransactionCoordinator.endTransaction``.
"""

from __future__ import annotations

from gateway.broker.transactions.events import EndTransaction
from gateway.broker.transactions.transaction import (
    BUMPS_EPOCH,
    LAST_EPOCH,
    Transaction,
    TransactionState,
)
from kwire.protocol import ErrorCode


def decide_end(known: Transaction, event: EndTransaction, *, is_pending: bool) -> ErrorCode | None:
    """Return the answer to a request that changes nothing; None if the transaction ends now."""
    if event.client_version >= BUMPS_EPOCH:
        return _with_bumps(known, event, is_pending=is_pending)
    return _without_bumps(known, event, is_pending=is_pending)


def _without_bumps(
    known: Transaction, event: EndTransaction, *, is_pending: bool
) -> ErrorCode | None:
    if known.producer_id != event.producer.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if known.producer_epoch != event.producer.epoch:
        return ErrorCode.PRODUCER_FENCED
    if is_pending:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if known.state is TransactionState.ONGOING:
        return None
    return _of_an_end(known.state, commits=event.commits)


def _of_an_end(state: TransactionState, *, commits: bool) -> ErrorCode:
    """Return the answer to an end after an end: the outcome may be asked for again."""
    if state is (TransactionState.COMPLETE_COMMIT if commits else TransactionState.COMPLETE_ABORT):
        return ErrorCode.NONE
    if state is (TransactionState.PREPARE_COMMIT if commits else TransactionState.PREPARE_ABORT):
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return ErrorCode.INVALID_TXN_STATE


def _with_bumps(known: Transaction, event: EndTransaction, *, is_pending: bool) -> ErrorCode | None:
    producer, state = event.producer, known.state
    # The end that it repeats has exhausted the epochs of the former id.
    is_after_rotation = (
        known.previous_producer_id == producer.producer_id
        and producer.epoch == LAST_EPOCH
        and known.producer_epoch == 0
    )
    is_repeated = known.producer_epoch == producer.epoch + 1
    is_current = known.producer_epoch == producer.epoch
    if is_pending:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if known.producer_id != producer.producer_id and not is_after_rotation:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if state.is_prepared:
        is_valid = is_repeated
    elif state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT):
        is_valid = is_repeated or is_after_rotation or is_current
    else:
        is_valid = is_current
    if not is_valid:
        return ErrorCode.PRODUCER_FENCED
    if state is TransactionState.ONGOING:
        return None
    if is_repeated or is_after_rotation or state.is_prepared:
        return _of_an_end(state, commits=event.commits)
    # Nothing is open: only an abort is taken, of a producer that does not know whether it has
    # opened a transaction.
    return ErrorCode.INVALID_TXN_STATE if event.commits else None
