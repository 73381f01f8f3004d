"""Transactions of a log that is cleaned: which records were aborted, which markers stay."""

from __future__ import annotations

from gateway.log.cleaner.cleaned_transactions import CleanedTransactions
from gateway.log.segments.transaction_index import AbortedTxn
from kwire.messages.end_txn_marker import EndTxnMarker
from kwire.records import decode_batch, encode_batch, encode_control_record
from kwire.records.batch import RecordBatch
from kwire.records.record import Record


def data(offset: int, producer: int) -> RecordBatch:
    records = [Record(offset=offset, timestamp=1, key=b"k", value=b"v")]
    return decode_batch(encode_batch(records, is_transactional=True, producer_id=producer))


def marker(offset: int, producer: int, name: str) -> RecordBatch:
    record = encode_control_record(name, EndTxnMarker(coordinator_epoch=1), offset=offset)
    return decode_batch(
        encode_batch([record], is_transactional=True, is_control=True, producer_id=producer)
    )


def test_marker_stays_while_its_transaction_has_batches() -> None:
    aborted = AbortedTxn(7, 0, 2, 0)
    for has_batches in (True, False):
        one = CleanedTransactions()
        one.add_aborted([aborted])
        if has_batches:
            assert one.is_aborted(data(0, 7).header)
            assert not one.is_aborted(data(1, 8).header)
        for offset, producer, name in ((2, 7, "ABORT"), (3, 8, "COMMIT")):
            batch = marker(offset, producer, name)
            assert one.is_marker_of_nothing(batch.header, batch.records) is not has_batches
        assert one.take_retained() == ([aborted] if has_batches else [])
        assert one.take_retained() == []


def test_batch_behind_the_marker_is_of_the_next_transaction() -> None:
    one = CleanedTransactions()
    # Known from two segments, as one that lies in both is.
    one.add_aborted([AbortedTxn(7, 0, 1, 0)] * 2)
    assert one.is_aborted(data(0, 7).header)
    batch = marker(1, 7, "ABORT")
    assert not one.is_marker_of_nothing(batch.header, batch.records)
    assert not one.is_aborted(data(2, 7).header)
