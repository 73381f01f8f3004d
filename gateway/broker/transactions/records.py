"""Encodes transactions as the records of ``__transaction_state``, and reads such records.

A key is an int16 of its type and a ``TransactionLogKey``; a value is an int16 of its version and a
``TransactionLogValue``, null for a transactional id that has expired. ``kafka-dump-log.sh
--transaction-log-decoder`` reads them. Follows Kafka's ``TransactionLog``.
"""

from __future__ import annotations

import struct
from itertools import groupby
from typing import Final

from gateway.broker.transactions.transaction import TopicPartition, Transaction, TransactionState
from kwire.errors import DecodeError
from kwire.messages.transaction_log_key import TransactionLogKey
from kwire.messages.transaction_log_value import PartitionsSchema, TransactionLogValue

_INT16: Final = struct.Struct(">h")
#: ``CoordinatorRecordType.TRANSACTION_LOG``
_TRANSACTION: Final = 0
#: The first version with tagged fields: the previous and the next producer id, and the version of
#: the client.
_FLEXIBLE: Final = 1


def transaction_key(transactional_id: str) -> bytes:
    """Return the key of the record of a transactional id."""
    key = TransactionLogKey(transactional_id=transactional_id)
    return _INT16.pack(_TRANSACTION) + key.encode(0)


def transaction_value(transaction: Transaction, transaction_version: int) -> bytes:
    """Return the value of the record. ``transaction_version``: the level of the feature."""
    version = _FLEXIBLE if transaction_version >= 1 else 0
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=(
            None if transaction.state is TransactionState.EMPTY else _topics(transaction)
        ),
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
    )
    if version >= _FLEXIBLE:
        value.previous_producer_id = transaction.previous_producer_id
        value.next_producer_id = transaction.next_producer_id
        value.client_transaction_version = transaction.client_version
    return _INT16.pack(version) + value.encode(version)


def _topics(transaction: Transaction) -> list[PartitionsSchema]:
    by_topic = groupby(sorted(transaction.partitions), lambda one: one.topic)
    return [
        PartitionsSchema(topic=topic, partition_ids=[one.partition for one in some])
        for topic, some in by_topic
    ]


def read_key(key: bytes) -> str | None:
    """Return the transactional id of a record's key, None for a type that is not known. Raises
    DecodeError.
    """
    if _prefix(key) != _TRANSACTION:
        return None
    return TransactionLogKey.decode(key[_INT16.size :], 0).transactional_id


def read_value(transactional_id: str, data: bytes) -> Transaction | None:
    """Return the transaction of a record's value, None for a version that is not known. Raises
    DecodeError.
    """
    version = _prefix(data)
    if version not in TransactionLogValue.VERSIONS:
        return None
    value = TransactionLogValue.decode(data[_INT16.size :], version)
    try:
        state = TransactionState(value.transaction_status)
    except ValueError:
        raise DecodeError(f"unknown transaction status {value.transaction_status}") from None
    return Transaction(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
        state=state,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        partitions=frozenset(
            TopicPartition(topic.topic, partition)
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        started_ms=value.transaction_start_timestamp_ms,
        client_version=value.client_transaction_version,
    )


def _prefix(data: bytes) -> int:
    if len(data) < _INT16.size:
        raise DecodeError("a record of the transaction log has no version")
    version: int = _INT16.unpack_from(data)[0]
    return version
