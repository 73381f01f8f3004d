"""Partitions read in bulk are what the codec reads one by one, and share their lists."""

from __future__ import annotations

import random

import pytest

from kwire.cluster import partition_reader
from kwire.cluster.partition_reader import CHANGE_FRAMES, PARTITION_FRAMES, PartitionReader
from kwire.errors import DecodeError
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.records import Record, decode_metadata_record, encode_batch, encode_metadata_record
from kwire.records.batch import decode_chunks
from kwire.records.uniform_records import UniformRecords
from kwire.uuid import Uuid


def value(number: int, topic: int, version: int = 2, **fields: object) -> bytes:
    replicas = [1, 2, 3]
    record = PartitionRecord(
        partition_id=number,
        topic_id=Uuid(bytes([topic]) * 16),
        replicas=replicas,
        isr=replicas,
        leader=1,
        directories=[Uuid(bytes([one]) * 16) for one in replicas] if version else [],
    )
    for name, given in fields.items():
        setattr(record, name, given)
    return encode_metadata_record(record, version)


def test_random_values_are_read_as_by_the_codec() -> None:
    rng = random.Random(5)
    reader = PartitionReader()
    for _ in range(500):
        version = rng.randrange(3)
        fields: dict[str, object] = {"leader_epoch": rng.randrange(3)}
        if version == 2 and rng.random() < 0.5:
            fields["eligible_leader_replicas"] = [rng.randrange(1, 3)]
        if rng.random() < 0.2:
            fields["unknown_tags"] = [(90, b"x")]
        data = value(rng.choice((0, 7, -1, 2**31 - 1)), rng.randrange(1, 4), version, **fields)
        assert data[:3] in PARTITION_FRAMES
        assert reader.read(data) == decode_metadata_record(data)[2]


def test_equal_lists_and_topic_ids_are_one_object() -> None:
    reader = PartitionReader()
    one, other = reader.read(value(1, 1)), reader.read(value(2, 1, leader_epoch=9))
    assert one.replicas is one.isr is other.replicas and one.topic_id is other.topic_id
    assert one.directories is other.directories
    assert reader.read(value(1, 2)).topic_id != one.topic_id


@pytest.mark.parametrize("cut", [3, 10, 23, 30, -1])
def test_cut_values_raise_as_in_the_codec(cut: int) -> None:
    reader = PartitionReader()
    whole = value(1, 1)
    reader.read(whole)
    for bad in (whole[:cut], whole + b"x"):
        with pytest.raises(DecodeError) as expected:
            decode_metadata_record(bad)
        with pytest.raises(DecodeError) as caught:
            reader.read(bad)
        assert str(caught.value) == str(expected.value)


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_reader, "_KEPT", 10)
    reader = PartitionReader()
    reader.read(value(1, 1, unknown_tags=[(90, b"x" * 10_000)]))
    for epoch in range(95):
        assert reader.read(value(1, 1, leader_epoch=epoch)).leader_epoch == epoch
    [kept] = [known for known in reader._read.values() if known]
    assert len(kept) <= 10 and all(len(rest) < 1_000 for rest in kept)


def run_of(values: list[bytes]) -> UniformRecords:
    records = [Record(offset=n, timestamp=0, value=one) for n, one in enumerate(values)]
    _, [found] = decode_chunks(encode_batch(records, base_timestamp=0))
    assert isinstance(found, UniformRecords)
    return found


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_run_is_read_as_one_by_one(version: int) -> None:
    values = [value(n, n // 5, version, leader_epoch=n % 3) for n in range(30)]
    found = PartitionReader().read_run(run_of(values))
    expected = [decode_metadata_record(one)[2] for one in values]
    assert [record for _, records in found for record in records.values()] == expected
    assert [(topic_id[0], list(records)) for topic_id, records in found] == [
        (topic, list(range(5 * topic, 5 * topic + 5))) for topic in range(6)
    ]
    assert len({id(record.replicas) for _, records in found for record in records.values()}) == 1


def test_a_run_with_a_bad_value_is_refused() -> None:
    values = [value(n, 1) for n in range(30)]
    values[20] = values[20][:-1] + b"\1"
    with pytest.raises(DecodeError):
        PartitionReader().read_run(run_of(values))


def test_random_changes_are_read_as_by_the_codec() -> None:
    rng = random.Random(6)
    reader = PartitionReader()
    for _ in range(500):
        change = PartitionChangeRecord(
            partition_id=rng.choice((0, 7, 2**31 - 1)),
            topic_id=Uuid(bytes([rng.randrange(4)]) * 16),
            isr=rng.choice((None, [1], [1, 2])),
            leader=rng.choice((-2, -1, 3)),
        )
        version = rng.randrange(3)
        if version == 2 and rng.random() < 0.5:
            change.eligible_leader_replicas = [rng.randrange(1, 3)]
        if rng.random() < 0.2:
            change.unknown_tags = [(90, b"x")]
        data = encode_metadata_record(change, version)
        assert data[:3] in CHANGE_FRAMES
        assert reader.read_change(data) == change == decode_metadata_record(data)[2]


@pytest.mark.parametrize("cut", [3, 10, 23, 24, -1])
def test_cut_changes_raise_as_in_the_codec(cut: int) -> None:
    reader = PartitionReader()
    whole = encode_metadata_record(PartitionChangeRecord(isr=[1, 2], leader=2), 2)
    reader.read_change(whole)
    for bad in (whole[:cut], whole + b"x"):
        with pytest.raises(DecodeError) as expected:
            decode_metadata_record(bad)
        with pytest.raises(DecodeError) as caught:
            reader.read_change(bad)
        assert str(caught.value) == str(expected.value)
