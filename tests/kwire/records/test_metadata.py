"""The frame of metadata records, beyond what the shared vectors judge."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kwire
from kwire.errors import DecodeError, EncodeError, UnsupportedVersion
from kwire.messages.topic_record import TopicRecord
from kwire.records import decode_metadata_record, encode_metadata_record, metadata_record_name

#: Kafka 4.4.0's MetadataRecordType: the number of every type, and its name as kafka-dump-log prints
#: it.
TYPES = {
    0: "REGISTER_BROKER_RECORD",
    1: "UNREGISTER_BROKER_RECORD",
    2: "TOPIC_RECORD",
    3: "PARTITION_RECORD",
    4: "CONFIG_RECORD",
    5: "PARTITION_CHANGE_RECORD",
    7: "FENCE_BROKER_RECORD",
    8: "UNFENCE_BROKER_RECORD",
    9: "REMOVE_TOPIC_RECORD",
    10: "DELEGATION_TOKEN_RECORD",
    11: "USER_SCRAM_CREDENTIAL_RECORD",
    12: "FEATURE_LEVEL_RECORD",
    14: "CLIENT_QUOTA_RECORD",
    15: "PRODUCER_IDS_RECORD",
    17: "BROKER_REGISTRATION_CHANGE_RECORD",
    18: "ACCESS_CONTROL_ENTRY_RECORD",
    19: "REMOVE_ACCESS_CONTROL_ENTRY_RECORD",
    20: "NO_OP_RECORD",
    21: "ZK_MIGRATION_STATE_RECORD",
    22: "REMOVE_USER_SCRAM_CREDENTIAL_RECORD",
    23: "BEGIN_TRANSACTION_RECORD",
    24: "END_TRANSACTION_RECORD",
    25: "ABORT_TRANSACTION_RECORD",
    26: "REMOVE_DELEGATION_TOKEN_RECORD",
    27: "REGISTER_CONTROLLER_RECORD",
    28: "CLEAR_ELR_RECORD",
    29: "UNREGISTER_CONTROLLER_RECORD",
}


@pytest.mark.parametrize("key", range(40))
def test_types_are_those_of_kafka(key: int) -> None:
    if key in TYPES:
        assert metadata_record_name(kwire.record_type(key)) == TYPES[key]
    else:
        assert refused(bytes([1, key, 0, 0])) == "record-type"


@pytest.mark.parametrize("key", TYPES)
def test_every_type_and_version_both_ways(key: int) -> None:
    cls = kwire.record_type(key)
    for version in cls.VERSIONS:
        value = encode_metadata_record(cls(), version)
        assert value[:3] == bytes([1, key, version])
        assert decode_metadata_record(value) == (TYPES[key], version, cls())
        assert decode_metadata_record(memoryview(value)) == (TYPES[key], version, cls())  # type: ignore[arg-type]
        for cut in range(len(value)):
            assert refused(value[:cut]) in ("truncated", "null")
        assert refused(value + b"\0") == "trailing-bytes"
    for version in (cls.VERSIONS[-1] + 1, 127):
        assert (
            refused(bytes([1, key, version]) + cls().encode(cls.VERSIONS[-1])) == "record-version"
        )


def refused(value: bytes | None, **limits: Any) -> str:
    with pytest.raises(DecodeError) as caught:
        decode_metadata_record(value, **limits)  # type: ignore[arg-type]
    return caught.value.rule


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (None, "null"),
        (b"", "truncated"),
        (b"\x00\x02\x00", "frame-version"),
        (b"\x02\x02\x00", "frame-version"),
        (b"\xff\xff\xff\xff\x0f\x02\x00", "frame-version"),
        (b"\xff\xff\xff\xff\x1f\x02\x00", "varint-surplus"),
        (b"\x01\x80\x80\x80\x80\x80\x00\x00", "varint-length"),
        (b"\x01\x80\x80\x02\x00", "record-type"),
        (b"\x01\xff\xff\x01\x00", "record-type"),
        (b"\x01\x14\x80\x80\x02", "record-version"),
        (b"\x01\x14\xff\xff\x01", "record-version"),
    ],
)
def test_frames_that_are_refused(value: bytes | None, rule: str) -> None:
    assert refused(value) == rule


def test_padded_numbers_are_read() -> None:
    padded = b"\x81\x00\x94\x80\x00\x80\x00\x00"
    name, version, message = decode_metadata_record(padded)
    assert (name, version) == ("NO_OP_RECORD", 0)
    assert encode_metadata_record(message, 0) == b"\x01\x14\x00\x00"


def test_errors_name_the_field_and_its_byte() -> None:
    value = encode_metadata_record(TopicRecord(name="orders"), 0)
    with pytest.raises(DecodeError, match=r"TopicRecord\.Name: .*at byte 3") as caught:
        decode_metadata_record(value[:6])
    assert caught.value.offset == 3


def test_record_beyond_the_element_budget_is_refused() -> None:
    partition = kwire.message_type("PartitionRecord")
    value = encode_metadata_record(partition(replicas=list(range(100)), isr=list(range(100))), 0)  # type: ignore[call-arg]
    assert decode_metadata_record(value, budget=200)[0] == "PARTITION_RECORD"
    assert refused(value, budget=199) == "element-budget"


def test_only_metadata_records_of_known_versions_are_written() -> None:
    with pytest.raises(EncodeError, match="no metadata record"):
        encode_metadata_record(kwire.message_type("FetchRequest")(), 12)
    with pytest.raises(UnsupportedVersion):
        encode_metadata_record(kwire.message_type("TopicRecord")(), 1)


@given(st.binary(max_size=100), st.sampled_from(sorted(TYPES)), st.integers(0, 4))
def test_any_bytes_are_read_or_refused(body: bytes, key: int, version: int) -> None:
    for value in (body, bytes([1, key, version]) + body):
        try:
            decode_metadata_record(value)
        except DecodeError as error:
            assert error.rule
