"""Batches as the checker takes them: numbers, leaders and a digest of all their bytes."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kwire import DecodeError
from kwire.messages.config_record import ConfigRecord
from kwire.messages.leader_change_message import LeaderChangeMessage
from kwire.records import Record, encode_batch, encode_control_record, encode_metadata_record
from tools.consistency_checker.reading import read_files, seen


def control(offset: int, epoch: int, leader: int) -> bytes:
    record = encode_control_record(
        "LEADER_CHANGE", LeaderChangeMessage(leader_id=leader), offset=offset, timestamp=7
    )
    return encode_batch([record], base_offset=offset, partition_leader_epoch=epoch, is_control=True)


def appended(offset: int, epoch: int, *ids: int) -> bytes:
    values = [
        ConfigRecord(
            resource_type=4, resource_name="", name="log.cleaner.backoff.ms", value=str(number)
        )
        for number in ids
    ]
    records = [
        Record(offset=offset + number, timestamp=7, value=encode_metadata_record(value, 0))
        for number, value in enumerate(values)
    ]
    return encode_batch(records, base_offset=offset, partition_leader_epoch=epoch)


def test_numbers_and_leaders_are_found() -> None:
    first, second = seen(control(0, 4, leader=2) + appended(1, 4, 11, 12))
    assert (first.base_offset, first.last_offset, first.epoch, first.leader, first.ids) == (
        0,
        0,
        4,
        2,
        (),
    )
    assert (second.base_offset, second.last_offset, second.leader, second.ids) == (
        1,
        2,
        None,
        ((1, 11), (2, 12)),
    )


def test_digest_covers_the_bytes_outside_the_crc() -> None:
    """The epoch lies outside of Kafka's CRC: two nodes may have batches that differ in it alone."""
    one, other = seen(appended(0, 4, 11)), seen(appended(0, 5, 11))
    assert one[0].digest != other[0].digest


def test_a_changed_byte_is_no_batch() -> None:
    data = bytearray(appended(0, 4, 11))
    data[-2] ^= 1
    with pytest.raises(DecodeError):
        seen(bytes(data))


def test_files_are_read_to_the_committed_end_although_they_grow(tmp_path: Path) -> None:
    (tmp_path / f"{0:020d}.log").write_bytes(control(0, 1, leader=1) + appended(1, 1, 11))
    (tmp_path / f"{2:020d}.log").write_bytes(
        appended(2, 1, 12) + appended(3, 1, 13) + struct.pack(">q", 4)
    )
    assert [batch.base_offset for batch in read_files(tmp_path, 3)] == [0, 1, 2]
