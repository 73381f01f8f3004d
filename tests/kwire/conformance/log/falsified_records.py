"""Falsifies metadata records, transactions and control records of segments."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from kwire.conformance.outcome import Outcome
from kwire.messages.abort_transaction_record import AbortTransactionRecord
from kwire.messages.begin_transaction_record import BeginTransactionRecord
from kwire.messages.end_transaction_record import EndTransactionRecord
from kwire.messages.no_op_record import NoOpRecord
from kwire.records import decode_control_record
from kwire.uuid import Uuid
from tests.kwire.conformance.log.falsification import (
    ABORT,
    BASIC,
    EVERY_LOG,
    OLD,
    QUORUM,
    SAMPLE,
    SHORT,
    UPGRADE,
    Where,
    told_by,
)
from tests.kwire.conformance.log.log_copy import LogCopy, Place, RecordPlace

FAIL: Final = Outcome.FAIL
_NOBODY: Final = Uuid(b"\7" * 16)
#: The newest versions of records whose version follows from metadata.version.
_NEWEST: Final = {
    "PartitionRecord": 2,
    "PartitionChangeRecord": 2,
    "RegisterBrokerRecord": 4,
    "BrokerRegistrationChangeRecord": 3,
}

Places = Callable[[LogCopy], list[RecordPlace]]


def plain(log: LogCopy) -> list[RecordPlace]:
    """Records outside of transactions: what is wrong within one is told at its end."""
    return [one for one in log.records if not one.in_transaction]


def replayed(log: LogCopy) -> list[RecordPlace]:
    """Those of them before which the state is known."""
    return [one for one in plain(log) if one.is_replayed]


def of(*names: str) -> Places:
    """Those of some types."""
    return lambda log: [one for one in replayed(log) if one.name in names]


def at(log: LogCopy, place: Place | RecordPlace) -> Where:
    return place.file, log.position(place)


# --- values -----------------------------------------------------------------------------------


@told_by("no-keys", FAIL, plain, EVERY_LOG)
def a_record_with_a_key(log: LogCopy, place: RecordPlace) -> Where:
    log.set_value(place, log.value(place), key=b"k")
    return at(log, place)


@told_by("metadata-records", FAIL, plain, EVERY_LOG)
def a_record_without_a_value(log: LogCopy, place: RecordPlace) -> Where:
    log.set_value(place, None)
    return at(log, place)


@told_by("metadata-records", FAIL, plain, EVERY_LOG)
def a_record_of_an_unknown_type(log: LogCopy, place: RecordPlace) -> Where:
    log.set_value(place, b"\x01\xc8\x01\x00\x00")
    return at(log, place)


@told_by("metadata-records", FAIL, plain, EVERY_LOG)
def a_record_of_an_unknown_version(log: LogCopy, place: RecordPlace) -> Where:
    frame, api_key, _, *body = log.value(place)
    log.set_value(place, bytes([frame, api_key, 100, *body]))
    return at(log, place)


@told_by("metadata-records", FAIL, plain, EVERY_LOG)
def a_value_that_is_cut(log: LogCopy, place: RecordPlace) -> Where:
    log.set_value(place, log.value(place)[:-1])
    return at(log, place)


# --- versions ---------------------------------------------------------------------------------


def _raisable(log: LogCopy) -> list[RecordPlace]:
    """Records of an old version: Kafka writes the newest that metadata.version allows."""
    return [one for one in replayed(log) if one.version < _NEWEST.get(one.name, 0)]


@told_by("record-version", FAIL, _raisable, (OLD, UPGRADE), 5)
def a_record_of_a_later_version(log: LogCopy, place: RecordPlace) -> Where:
    log.set_message(place, log.message(place), place.version + 1)
    return at(log, place)


# --- references -------------------------------------------------------------------------------


def _changed(log: LogCopy, place: RecordPlace, **fields: object) -> Where:
    log.set_message(place, log.message(place).copy(**fields))
    return at(log, place)


_TOPICS_GONE: Final = of("RemoveTopicRecord")
_WITH_REMOVED_TOPICS: Final = (OLD, BASIC, QUORUM, UPGRADE)


@told_by("references", FAIL, of("PartitionRecord", "PartitionChangeRecord"), EVERY_LOG, 2)
def a_partition_of_no_topic(log: LogCopy, place: RecordPlace) -> Where:
    return _changed(log, place, topic_id=_NOBODY)


@told_by("references", FAIL, of("PartitionChangeRecord"), (OLD, BASIC, QUORUM, SHORT, UPGRADE))
def a_change_of_no_partition(log: LogCopy, place: RecordPlace) -> Where:
    return _changed(log, place, partition_id=9999)


@told_by("references", FAIL, _TOPICS_GONE, _WITH_REMOVED_TOPICS)
def a_topic_that_is_removed_twice(log: LogCopy, place: RecordPlace) -> Where:
    return _changed(log, place, topic_id=_NOBODY)


@told_by("references", FAIL, of("BrokerRegistrationChangeRecord"), (OLD, BASIC, QUORUM, UPGRADE))
def a_change_of_no_broker(log: LogCopy, place: RecordPlace) -> Where:
    return _changed(log, place, broker_id=9999)


@told_by("references", FAIL, of("BrokerRegistrationChangeRecord"), (OLD, BASIC, QUORUM, UPGRADE))
def a_change_of_a_broker_that_registered_again(log: LogCopy, place: RecordPlace) -> Where:
    return _changed(log, place, broker_epoch=1 << 40)


@told_by("references", FAIL, of("RemoveAccessControlEntryRecord"), (OLD, BASIC, QUORUM, UPGRADE))
def an_acl_that_is_removed_twice(log: LogCopy, place: RecordPlace) -> Where:
    return _changed(log, place, id=_NOBODY)


# --- transactions -----------------------------------------------------------------------------

_WITH_TRANSACTION: Final = (BASIC, QUORUM, ABORT)


def _transaction_ends(log: LogCopy) -> list[RecordPlace]:
    return [one for one in log.records if one.name == "EndTransactionRecord"]


def _within(log: LogCopy) -> list[RecordPlace]:
    return [
        one
        for one in log.records
        if one.in_transaction and not one.name.endswith("TransactionRecord")
    ]


def _next_epoch(log: LogCopy, place: RecordPlace) -> Where:
    """The first batch of metadata of the next epoch, behind ``place``."""
    epoch = log.batch(place).header.partition_leader_epoch
    for file in log.segments()[log.segments().index(place.file) :]:
        for number, header in enumerate(log.headers(file)):
            if header.partition_leader_epoch > epoch and not header.is_control:
                return at(log, Place(file, number))
    raise LookupError(f"no epoch follows {place}")


@told_by("transactions", FAIL, _transaction_ends, (BASIC, QUORUM))
def a_transaction_that_is_not_closed(log: LogCopy, place: RecordPlace) -> Where:
    log.set_message(place, NoOpRecord(), 0)
    return _next_epoch(log, place)


@told_by(
    "transactions", FAIL,
    lambda log: [one for one in log.records if one.name == "AbortTransactionRecord"], (ABORT,),
)  # fmt: skip
def a_transaction_of_the_leader_before_that_is_not_aborted(
    log: LogCopy, place: RecordPlace
) -> Where:
    log.set_message(place, NoOpRecord(), 0)
    return at(log, place)


@told_by("transactions", FAIL, _within, _WITH_TRANSACTION)
def a_transaction_that_begins_in_another(log: LogCopy, place: RecordPlace) -> Where:
    log.set_message(place, BeginTransactionRecord(), 0)
    return at(log, place)


@told_by("transactions", FAIL, of("NoOpRecord"), EVERY_LOG)
def a_transaction_that_ends_and_never_began(log: LogCopy, place: RecordPlace) -> Where:
    log.set_message(place, EndTransactionRecord(), 0)
    return at(log, place)


@told_by("transactions", FAIL, of("NoOpRecord"), (BASIC, QUORUM))
def a_transaction_that_is_aborted_and_never_began(log: LogCopy, place: RecordPlace) -> Where:
    log.set_message(place, AbortTransactionRecord(), 0)
    return at(log, place)


# --- control records --------------------------------------------------------------------------


_WITH_LEADER_CHANGES: Final = (SAMPLE, OLD, BASIC, SHORT, UPGRADE)


def leader_changes(log: LogCopy) -> list[Place]:
    """Control batches that begin with LEADER_CHANGE, behind the first segment's begin."""
    found = []
    for file in log.segments():
        for number, header in enumerate(log.headers(file)):
            place = Place(file, number)
            if header.is_control and (number > 0 or header.base_offset == 0):
                first = decode_control_record(log.batch(place).records[0])
                if first.name == "LEADER_CHANGE":
                    found.append(place)
    return found


def _set_control(log: LogCopy, place: Place, key: bytes | None, value: bytes | None) -> Where:
    batch = log.batch(place)
    batch.records[0].key = key
    batch.records[0].value = value
    log.replace(place, batch.encode())
    return at(log, place)


@told_by("leader-is-voter", FAIL, leader_changes, _WITH_LEADER_CHANGES)
def a_leader_that_is_no_voter(log: LogCopy, place: Place) -> Where:
    value = bytearray(log.batch(place).records[0].value or b"")
    value[2:6] = struct.pack(">i", 77)
    return _set_control(log, place, log.batch(place).records[0].key, bytes(value))


@told_by("leader-change-first", FAIL, leader_changes, _WITH_LEADER_CHANGES)
def an_epoch_without_leader_change(log: LogCopy, place: Place) -> Where:
    batch = log.batch(place)
    batch.header = batch.header._replace(attributes=0)
    for record in batch.records:
        record.key, record.value = None, b"\x01\x14\x00\x00"
    log.replace(place, batch.encode())
    return at(log, place)


@told_by("control-records", FAIL, leader_changes, _WITH_LEADER_CHANGES)
def a_control_record_of_snapshots(log: LogCopy, place: Place) -> Where:
    return _set_control(log, place, b"\0\0\0\3", bytes(11))


@told_by("control-records", FAIL, leader_changes, _WITH_LEADER_CHANGES)
def a_control_record_that_is_cut(log: LogCopy, place: Place) -> Where:
    value = log.batch(place).records[0].value or b""
    return _set_control(log, place, log.batch(place).records[0].key, value[:-1])


@told_by("control-records", FAIL, leader_changes, (SAMPLE, BASIC, UPGRADE))
def a_control_record_without_a_type(log: LogCopy, place: Place) -> Where:
    return _set_control(log, place, None, log.batch(place).records[0].value)
