"""The functions that run in Spark's workers, without Spark: Arrow batches in, Arrow batches out."""

# ruff: noqa: E402 - without the extra nothing below can be imported
from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the spark extra is not installed")
pa = pytest.importorskip("pyarrow", reason="the spark extra is not installed")

from kwire.errors import DecodeError
from kwire.messages.feature_level_record import FeatureLevelRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.topic_record import TopicRecord
from kwire.records import metadata_record_name
from kwire.spark.arrow import DECODED, decode_batches, typed_batches
from kwire.uuid import Uuid
from tests.kwire.spark.frames import METADATA, batch, every_record, frame

TOPIC = frame(TopicRecord(name="orders", topic_id=Uuid(b"\1" * 16)), 0)


def decoded(
    values: list[bytes | None], keep: tuple[str, ...] = (), fail_fast: bool = False
) -> list[dict[str, Any]]:
    (out,) = decode_batches(iter([batch(values)]), keep=keep, fail_fast=fail_fast, secrets=True)
    return list(out.to_pylist())


def typed(name: str, values: list[bytes | None], fail_fast: bool = False) -> list[dict[str, Any]]:
    (out,) = typed_batches(
        iter([batch(values)]), name=name, keep=(), fail_fast=fail_fast, secrets=True
    )
    return list(out.to_pylist())


def test_every_record_type_as_json() -> None:
    records = every_record()
    rows = decoded([value for _, _, value in records])
    assert len({row["type"] for row in rows}) == len(METADATA)
    for row, (message, version, _) in zip(rows, records, strict=True):
        assert row["type"] == metadata_record_name(type(message))
        assert row["version"] == version
        assert json.loads(row["data"]) == message.to_json(version)
        assert row["error"] is None


def test_every_record_type_as_columns() -> None:
    for _, name in METADATA:
        records = [one for one in every_record() if name == one[0].NAME]
        rows = typed(name, [value for _, _, value in records])
        for row, (message, version, _) in zip(rows, records, strict=True):
            assert row["error"] is None
            assert row["version"] == version
            assert_same(message, row["record"], version)


def assert_same(message: Any, row: dict[str, Any], version: int) -> None:
    """``row`` says what ``message`` holds: fields of the version as they are, the others null."""
    assert list(row) == [f.json for f in message.fields()]
    for f in message.fields():
        field_value, cell = getattr(message, f.attr), row[f.json]
        if not f.at(version) or field_value is None:
            assert cell is None
        elif f.is_struct:
            pairs = zip(field_value, cell, strict=True) if f.array else [(field_value, cell)]
            for inner, inner_row in pairs:
                assert_same(inner, inner_row, version)
        elif f.type == "uuid":
            assert cell == ([str(one) for one in field_value] if f.array else str(field_value))
        else:
            assert cell == field_value


def test_offsets_and_times_pass_through() -> None:
    given = batch([TOPIC, TOPIC])
    (out,) = decode_batches(iter([given]), keep=("note", "value"), fail_fast=False, secrets=False)
    assert out.schema.names == ["offset", "timestamp", *DECODED, "note", "value"]
    for name in ("offset", "timestamp", "note", "value"):
        assert out.column(name).equals(given.column(name))


def test_no_row_is_lost_in_an_empty_batch() -> None:
    assert decoded([]) == []
    assert typed("TopicRecord", []) == []


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "null"),
        (b"", ""),
        (TOPIC[:-1], ""),
        (TOPIC + b"\0", ""),
        (b"\x02" + TOPIC[1:], ""),
        (b"\x01\x63\x00", "99"),
        (b"\x01\x02\x63", ""),
        (b"\xff" * 40, ""),
    ],
    ids=[
        "null",
        "empty",
        "cut",
        "trailing",
        "frame-version",
        "unknown-type",
        "unknown-version",
        "noise",
    ],
)
def test_value_that_cannot_be_read_is_a_row_with_an_error(value: bytes | None, words: str) -> None:
    rows = decoded([TOPIC, value, TOPIC])
    assert [row["type"] for row in rows] == ["TOPIC_RECORD", None, "TOPIC_RECORD"]
    assert rows[1]["error"] and words in rows[1]["error"]
    assert rows[1]["data"] is None and rows[1]["version"] is None
    assert rows[1]["offset"] == 101
    with pytest.raises(DecodeError, match="offset 101"):
        decoded([TOPIC, value, TOPIC], fail_fast=True)


def test_another_type_is_an_error_among_typed_rows() -> None:
    other = frame(FeatureLevelRecord(name="metadata.version", feature_level=1), 0)
    rows = typed("TopicRecord", [other, TOPIC])
    assert rows[0]["record"] is None
    assert "FEATURE_LEVEL_RECORD" in rows[0]["error"]
    assert rows[1]["record"] == {"name": "orders", "topicId": str(Uuid(b"\1" * 16))}
    with pytest.raises(DecodeError, match="offset 100"):
        typed("TopicRecord", [other], fail_fast=True)


def test_a_field_that_the_version_lacks_is_null_and_not_its_default() -> None:
    record = PartitionRecord(partition_id=1, topic_id=Uuid(b"\1" * 16), replicas=[1, 2], isr=[1])
    old, new = typed("PartitionRecord", [frame(record, 0), frame(record, 1)])
    assert old["record"]["directories"] is None
    assert new["record"]["directories"] == []
