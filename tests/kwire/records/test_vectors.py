"""Every batch, control batch and metadata frame that Kafka's own classes wrote or judged, of both
releases.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kwire.errors import DecodeError
from kwire.records import (
    Compression,
    decode_batches,
    decode_control_record,
    decode_metadata_record,
    encode_control_record,
    encode_metadata_record,
)
from tests.kwire.records.view import batch_view, vector_view
from tests.shared import needs_shared, vectors

pytestmark = needs_shared

RELEASES = ("4.4.0", "4.3.1")

#: Vectors that Kafka takes and we refuse, by rule (docs/strictness-records.md): none more, none
#: fewer.
STRICTER = {
    "batches-variants": {"bad-utf8": 1, "empty-batch-bytes": 1},
    "batches-mutants": {"bad-utf8": 3},
}
STRICTER_FRAMES = {
    ("frames-negative", "4.4.0"): {"record-version": 35},
    ("frames-negative", "4.3.1"): {"record-version": 34},
    ("frames-mutants", "4.4.0"): {"bad-utf8": 10, "tag-size": 3, "record-version": 1},
    ("frames-mutants", "4.3.1"): {"bad-utf8": 10, "tag-size": 3, "record-version": 2},
}


@pytest.mark.parametrize("kafka", RELEASES)
@pytest.mark.parametrize(("name", "count"), [("batches", 78), ("control", 34)])
def test_batches_of_kafka_are_read_as_kafka_reads_them(name: str, count: int, kafka: str) -> None:
    lines = list(vectors(name, kafka))
    assert len(lines) == count
    for line in lines:
        data = bytes.fromhex(line["hex"])
        batches = list(decode_batches(data))
        assert [batch_view(batch) for batch in batches] == vector_view(line["batches"])
        assert len(data) - sum(batch.header.size for batch in batches) == line["remaining"] == 0


@pytest.mark.parametrize("kafka", RELEASES)
def test_batches_are_written_as_kafka_writes_them(kafka: str) -> None:
    written: Counter[str] = Counter()
    for line in [*vectors("batches", kafka), *vectors("control", kafka)]:
        if line["api"] == "LegacyRecords":
            continue
        data = bytes.fromhex(line["hex"])
        batches = list(decode_batches(data, raw_timestamps=True))
        again = b"".join(batch.encode() for batch in batches)
        if line["codec"] == "none":
            assert again == data
        else:
            # Compressed bytes depend on the library; what is in them, and every field of the
            # header, does not.
            mine = list(decode_batches(again, raw_timestamps=True))
            assert [batch.records for batch in mine] == [batch.records for batch in batches]
            assert [b.header[5:13] for b in mine] == [b.header[5:13] for b in batches]
        written[line["codec"]] += 1
    assert written == {"none": 50, "gzip": 14, "snappy": 14, "lz4": 14, "zstd": 14}


@pytest.mark.parametrize("kafka", RELEASES)
def test_control_records_are_written_as_kafka_writes_them(kafka: str) -> None:
    written = 0
    for line in vectors("control", kafka):
        for batch in decode_batches(bytes.fromhex(line["hex"])):
            for record in batch.records if batch.header.is_control else ():
                control = decode_control_record(record)
                assert control.message is not None
                again = encode_control_record(
                    control.name, control.message, offset=record.offset, timestamp=record.timestamp
                )
                assert again == record
                written += 1
    assert written == 42


@pytest.mark.parametrize("kafka", RELEASES)
@pytest.mark.parametrize(("name", "count"), [("batches-variants", 74), ("batches-mutants", 870)])
def test_batches_are_judged_as_kafka_judges_them(name: str, count: int, kafka: str) -> None:
    stricter: Counter[str] = Counter()
    lines = list(vectors(name, kafka))
    assert len(lines) == count
    for line in lines:
        data = bytes.fromhex(line["hex"])
        try:
            batches = list(decode_batches(data))
            seen = [batch_view(batch) for batch in batches]
        except DecodeError as error:
            assert error.rule, error
            stricter[error.rule] += line["ok"]
            continue
        assert line["ok"], f"Kafka refuses this: {line}"
        assert seen == vector_view(line["batches"])
        assert len(data) - sum(batch.header.size for batch in batches) == line["remaining"]
    assert +stricter == STRICTER[name]


@pytest.mark.parametrize("kafka", RELEASES)
def test_good_batches_before_a_bad_one_are_given_out(kafka: str) -> None:
    checked = 0
    for line in vectors("batches-mutants", kafka):
        if line["ok"] or "CorruptRecord" not in line["error"]:
            continue  # Kafka counts batches framed and checked, not those whose records were read
        good = 0
        with pytest.raises(DecodeError):
            for _ in decode_batches(bytes.fromhex(line["hex"])):
                good += 1
        assert good == line["good_batches"]
        checked += 1
    assert checked > 150


@pytest.mark.parametrize(("kafka", "count"), [("4.4.0", 225), ("4.3.1", 220)])
def test_metadata_frames_both_ways(kafka: str, count: int) -> None:
    lines = list(vectors("frames", kafka))
    assert len(lines) == count
    for line in lines:
        _assert_frame(line, line["api"], line["version"])


@pytest.mark.parametrize("kafka", RELEASES)
@pytest.mark.parametrize("name", ["frames-negative", "frames-mutants"])
def test_metadata_frames_are_judged_as_kafka_judges_them(name: str, kafka: str) -> None:
    stricter: Counter[str] = Counter()
    taken = 0
    for line in vectors(name, kafka):
        try:
            decode_metadata_record(bytes.fromhex(line["hex"]))
        except DecodeError as error:
            assert error.rule, error
            stricter[error.rule] += line["ok"]
            continue
        assert line["ok"], f"Kafka refuses this: {line}"
        _assert_frame(line, line["read_api"], line["read_version"])
        taken += 1
    assert +stricter == STRICTER_FRAMES[name, kafka]
    assert taken > 30


def _assert_frame(line: dict[str, Any], api: str, version: int) -> None:
    data = bytes.fromhex(line["hex"])
    _, read_version, message = decode_metadata_record(data)
    assert (message.NAME, read_version) == (api, version)
    assert message.to_json(version) == line["json"]
    assert encode_metadata_record(message, version).hex() == line.get("rehex", line["hex"])


def test_every_codec_is_among_the_vectors() -> None:
    codecs = {line["codec"] for line in vectors("batches")}
    assert codecs == {codec.name.lower() for codec in Compression}
