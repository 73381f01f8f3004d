"""The records of ``__transaction_state`` have Kafka's bytes, and are read again."""

from __future__ import annotations

import pytest

from gateway.base.slices import run
from gateway.broker.transactions.records import (
    read_key,
    read_value,
    transaction_key,
    transaction_value,
)
from gateway.broker.transactions.transaction import TopicPartition, Transaction, TransactionState
from gateway.broker.transactions.transaction_log import read_transactions
from kwire.errors import DecodeError

ONGOING = Transaction(
    "t",
    producer_id=7,
    producer_epoch=3,
    timeout_ms=60_000,
    updated_ms=1_000,
    state=TransactionState.ONGOING,
    previous_producer_id=6,
    next_producer_id=8,
    partitions=frozenset({TopicPartition("a", 1), TopicPartition("a", 0), TopicPartition("b", 2)}),
    started_ms=900,
    client_version=2,
)
EMPTY = Transaction("t", producer_id=7, producer_epoch=0, timeout_ms=60_000, updated_ms=1_000)


def test_key_has_type_zero_and_the_id() -> None:
    assert transaction_key("t") == bytes.fromhex("0000 0001 74")
    assert read_key(transaction_key("näme")) == "näme"


def test_key_of_an_unknown_type_is_passed_over() -> None:
    assert read_key(b"\0\1anything") is None


@pytest.mark.parametrize("level", [1, 2])
def test_value_of_version_1_has_everything(level: int) -> None:
    value = transaction_value(ONGOING, level)
    assert value[:2] == b"\0\1"
    assert read_value("t", value) == ONGOING


def test_value_of_version_0_has_no_tagged_fields() -> None:
    value = transaction_value(ONGOING, 0)
    assert value[:2] == b"\0\0"
    read = read_value("t", value)
    assert read is not None
    assert (read.partitions, read.producer) == (ONGOING.partitions, ONGOING.producer)
    assert (read.previous_producer_id, read.next_producer_id, read.client_version) == (-1, -1, 0)


def test_empty_transaction_has_null_partitions() -> None:
    # Status 0 and the length -1 of null.
    assert bytes.fromhex("00 ffffffff") in transaction_value(EMPTY, 0)
    assert read_value("t", transaction_value(EMPTY, 0)) == EMPTY


def test_value_of_a_later_version_is_passed_over() -> None:
    assert read_value("t", b"\0\2anything") is None


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\1\0", transaction_value(EMPTY, 0)[:-1]])
def test_damaged_value_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        read_value("t", data)


def test_unknown_status_is_refused() -> None:
    value = bytearray(transaction_value(EMPTY, 0))
    value[2 + 8 + 2 + 4] = 99
    with pytest.raises(DecodeError, match="status 99"):
        read_value("t", bytes(value))


def test_last_record_of_an_id_counts_and_a_tombstone_removes_it() -> None:
    records = [
        (transaction_key("t"), transaction_value(EMPTY, 2)),
        (transaction_key("gone"), transaction_value(EMPTY, 2)),
        (b"\0\7of another kind", b"any"),
        (transaction_key("t"), transaction_value(ONGOING, 2)),
        (transaction_key("gone"), None),
    ]
    assert run(read_transactions(records)) == {"t": ONGOING}


def test_labels_are_those_of_kafka() -> None:
    assert [state.label for state in TransactionState] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]
