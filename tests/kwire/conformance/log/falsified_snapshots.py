"""Falsifies snapshots: their name, their frame, their batches, and the state in them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from kwire.conformance.outcome import Outcome
from kwire.records import decode_metadata_record, encode_metadata_record
from kwire.records.record import Record
from kwire.uuid import Uuid
from tests.kwire.conformance.log.falsification import (
    MANY_SEGMENTS,
    QUORUM,
    SHORT,
    Where,
    told_by,
)
from tests.kwire.conformance.log.log_copy import LogCopy, Place, base_of, end_of, epoch_of

DAMAGED, FAIL = Outcome.DAMAGED, Outcome.FAIL
#: The second batch of a snapshot is the first with metadata.
_DATA: Final = 1


def snapshots(log: LogCopy) -> list[str]:
    return log.snapshots()


def compared(log: LogCopy) -> list[str]:
    """Those that the log below leads to: of a log that begins later, the first is what it begins
    with.
    """
    begins_at_0 = base_of(log.segments()[0]) == 0
    inside = [one for one in log.snapshots() if end_of(one) >= base_of(log.segments()[0])]
    return inside if begins_at_0 else inside[1:]


def _change_records(log: LogCopy, file: str, change: Callable[[list[Record]], None]) -> Where:
    """Change the records of the first batch of metadata; offsets go on without a gap."""
    place = Place(file, _DATA)
    batch = log.batch(place)
    records = list(batch.records)
    change(records)
    batch.records = records
    log.replace(place, batch.encode())
    return file, log.position(place)


def _change_message(log: LogCopy, file: str, name: str, **fields: Any) -> Where:
    """Change fields of the first record of a type."""

    def change(records: list[Record]) -> None:
        for record in records:
            _, version, message = decode_metadata_record(record.value or b"")
            if name == message.NAME:
                record.value = encode_metadata_record(message.copy(**fields), version)
                return
        raise LookupError(f"{file} has no {name}")

    return _change_records(log, file, change)


# --- state ------------------------------------------------------------------------------------


@told_by("snapshot-is-replay", FAIL, compared, MANY_SEGMENTS)
def a_snapshot_that_lacks_a_record(log: LogCopy, file: str) -> Where:
    def change(records: list[Record]) -> None:
        name = "RegisterControllerRecord"
        for number, record in enumerate(records):
            _, _, message = decode_metadata_record(record.value or b"")
            if name == message.NAME:
                # NoOpRecord, so that offsets have no gap.
                records[number].value = b"\x01\x14\x00\x00"
                return
        raise LookupError(f"{file} has no {name}")

    _change_records(log, file, change)
    return file, -1


@told_by("snapshot-is-replay", FAIL, compared, MANY_SEGMENTS)
def a_snapshot_with_another_leader(log: LogCopy, file: str) -> Where:
    _change_message(log, file, "PartitionRecord", leader=55)
    return file, -1


@told_by("snapshot-is-replay", FAIL, compared, MANY_SEGMENTS)
def a_snapshot_with_another_config(log: LogCopy, file: str) -> Where:
    _change_message(log, file, "ConfigRecord", value="falsified")
    return file, -1


@told_by("snapshot-is-replay", FAIL, lambda log: compared(log)[:1], (QUORUM, SHORT))
def a_snapshot_of_an_earlier_state(log: LogCopy, file: str) -> Where:
    """With the name of a snapshot that ends with its epoch."""
    ends = [
        header.next_offset
        for segment in log.segments()
        for header in log.headers(segment)
        if header.partition_leader_epoch == epoch_of(file)
    ]
    renamed = f"{ends[-1]:020d}-{epoch_of(file):010d}.checkpoint"
    log.rename(file, renamed)
    return renamed, -1


@told_by("references", FAIL, snapshots, MANY_SEGMENTS)
def a_snapshot_with_a_partition_of_no_topic(log: LogCopy, file: str) -> Where:
    return _change_message(log, file, "PartitionRecord", topic_id=Uuid(b"\7" * 16))


@told_by("metadata-records", FAIL, snapshots, (QUORUM, SHORT))
def a_snapshot_with_a_record_of_an_unknown_version(log: LogCopy, file: str) -> Where:
    def change(records: list[Record]) -> None:
        records[-1].value = bytes([1, 3, 100, 0, 0])

    return _change_records(log, file, change)


@told_by("record-version", FAIL, snapshots, (QUORUM, SHORT))
def a_snapshot_of_an_older_metadata_version(log: LogCopy, file: str) -> Where:
    return _change_message(log, file, "FeatureLevelRecord", feature_level=7)


# --- names ------------------------------------------------------------------------------------


@told_by("snapshot-epoch", FAIL, snapshots, MANY_SEGMENTS)
def a_snapshot_of_another_epoch(log: LogCopy, file: str) -> Where:
    renamed = f"{end_of(file):020d}-{77:010d}.checkpoint"
    log.rename(file, renamed)
    return renamed, 0


@told_by("snapshot-epoch", FAIL, compared, (QUORUM, SHORT))
def a_snapshot_whose_epoch_differs_from_the_log(log: LogCopy, file: str) -> Where:
    """Its batches have the epoch of its name, and the record before its end has another."""
    renamed = f"{end_of(file):020d}-{77:010d}.checkpoint"
    for number in range(len(log.headers(file))):
        log.patch(Place(file, number), 12, struct.pack(">i", 77), crc=True)
    log.rename(file, renamed)
    return renamed, -1


@told_by("snapshot-at-batch", FAIL, compared, (QUORUM, SHORT))
def a_snapshot_that_ends_within_a_batch(log: LogCopy, file: str) -> Where:
    within = next(
        header.base_offset + 1
        for segment in log.segments()
        for header in log.headers(segment)
        if header.last_offset_delta > 0 and header.partition_leader_epoch == epoch_of(file)
    )
    renamed = f"{within:020d}-{epoch_of(file):010d}.checkpoint"
    log.rename(file, renamed)
    return renamed, -1


# --- frame and batches ------------------------------------------------------------------------


@told_by("snapshot-frame", FAIL, snapshots, MANY_SEGMENTS)
def a_snapshot_without_its_header(log: LogCopy, file: str) -> Where:
    log.replace(Place(file, 0), b"")
    return file, 0


@told_by("snapshot-frame", FAIL, snapshots, MANY_SEGMENTS)
def a_snapshot_without_its_footer(log: LogCopy, file: str) -> Where:
    last = len(log.headers(file)) - 1
    log.replace(Place(file, last), b"")
    return file, log.headers(file)[-1].position


@told_by("offsets-contiguous", FAIL, snapshots, MANY_SEGMENTS)
def a_snapshot_without_its_records(log: LogCopy, file: str) -> Where:
    place = Place(file, _DATA)
    where = file, log.position(place)
    log.replace(place, b"")
    return where


@told_by("batch-crc", DAMAGED, snapshots, MANY_SEGMENTS)
def a_byte_of_a_snapshot(log: LogCopy, file: str) -> Where:
    log.patch(Place(file, _DATA), 90, b"\xff\xfe\xfd", crc=False)
    return file, log.position(Place(file, _DATA))


@told_by("batch-whole", DAMAGED, snapshots, MANY_SEGMENTS)
def a_snapshot_that_is_cut(log: LogCopy, file: str) -> Where:
    position = log.headers(file)[-1].position
    log.write(file, log.read(file)[:-3])
    return file, position
