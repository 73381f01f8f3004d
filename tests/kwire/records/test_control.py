"""Control records beyond what the shared vectors judge."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kwire
from kwire.errors import DecodeError, EncodeError
from kwire.records import (
    CONTROL_TYPES,
    Record,
    decode_batch,
    decode_control_record,
    encode_batch,
    encode_control_record,
)


@pytest.mark.parametrize("row", CONTROL_TYPES.values(), ids=lambda row: row.name)
def test_every_type_both_ways(row: kwire.records.ControlType) -> None:
    message = kwire.message_type(row.schema)()
    record = encode_control_record(row.name, message, offset=7, timestamp=9)
    assert record.key == struct.pack(">hh", 0, row.number)
    batch = decode_batch(encode_batch([record], is_control=True))
    control = decode_control_record(batch.records[0])
    assert (control.version, control.type, control.name, control.dump_name) == (
        0,
        row.number,
        row.name,
        row.dump_name,
    )
    assert control.message == message


@pytest.mark.parametrize("number", [-32768, -1, 7, 99, 32767])
def test_unknown_types_are_passed_on(number: int) -> None:
    control = decode_control_record(Record(key=struct.pack(">hh", 3, number), value=b"whatever"))
    assert control == (3, number, "UNKNOWN", None)
    assert control.dump_name == "UNKNOWN"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        (None, b"", "control-key"),
        (b"", b"", "control-key"),
        (b"\0\0\0", b"", "control-key"),
        (b"\xff\xff\0\2", b"", "control-key"),
        (b"\0\0\0\2", None, "null"),
        (b"\0\0\0\2", b"", "truncated"),
        (b"\0\0\0\0", b"", "truncated"),
        (b"\0\0\0\0", b"\0", "truncated"),
        (b"\0\0\0\1", b"\xff\xff\0\0\0\1", "control-version"),
        (b"\0\0\0\1", b"\0\0\0\0\0", "truncated"),
    ],
)
def test_malformed_control_record_is_refused(
    key: bytes | None, value: bytes | None, rule: str
) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_control_record(Record(key=key, value=value))
    assert caught.value.rule == rule


def test_voters_with_directory_ids_are_not_written_into_a_leader_change() -> None:
    leader_change = kwire.message_type("LeaderChangeMessage")
    voter = leader_change.struct_class("Voter")
    message = leader_change(voters=[voter(voter_id=1, voter_directory_id=kwire.METADATA_TOPIC_ID)])  # type: ignore[call-arg]
    with pytest.raises(EncodeError, match=r"VoterDirectoryId|voter_directory_id"):
        encode_control_record("LEADER_CHANGE", message)


def test_a_type_takes_its_own_message() -> None:
    with pytest.raises(EncodeError, match="takes a SnapshotFooterRecord, not a EndTxnMarker"):
        encode_control_record("SNAPSHOT_FOOTER", kwire.message_type("EndTxnMarker")())
    with pytest.raises(EncodeError, match="LEADER_CHANGE"):
        encode_control_record("LeaderChange", kwire.message_type("LeaderChangeMessage")())


@given(st.binary(max_size=6), st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(key: bytes, value: bytes) -> None:
    for known in (key, b"\0\0\0" + key[:1], b"\0\0\0\6"):
        try:
            decode_control_record(Record(key=known, value=value))
        except DecodeError as error:
            assert error.rule
