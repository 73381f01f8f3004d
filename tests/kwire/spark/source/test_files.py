"""Segments and snapshots from files: what Kafka's own tool prints of them, and damage as rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the spark extra is not installed")

from kwire.errors import DecodeError
from kwire.messages.feature_level_record import FeatureLevelRecord
from kwire.messages.no_op_record import NoOpRecord
from kwire.messages.topic_record import TopicRecord
from kwire.records import Record, encode_batch, encode_metadata_record
from kwire.spark.source.files import find_files, read_file
from kwire.spark.source.options import settings_of
from kwire.uuid import Uuid
from tests.shared import needs_shared

ALL = range(1 << 62)
VALUES = [
    encode_metadata_record(FeatureLevelRecord(name="metadata.version", feature_level=30), 0),
    encode_metadata_record(TopicRecord(name="orders", topic_id=Uuid(b"\1" * 16)), 0),
    encode_metadata_record(NoOpRecord(), 0),
]


def batch(base: int, *, control: bool = False) -> bytes:
    values = [b"\0\0\0\0"] if control else VALUES
    records = [
        Record(
            offset=base + n,
            timestamp=1_795_237_200_000 + n,
            key=b"\0\0\0\2" if control else None,
            value=value,
        )
        for n, value in enumerate(values)
    ]
    return encode_batch(records, base_offset=base, partition_leader_epoch=4, is_control=control)


def rows(path: Path, offsets: range = ALL, **options: str) -> list[dict[str, Any]]:
    settings = settings_of({"path": str(path), **options})
    return [row for found in read_file(str(path), settings, offsets) for row in found.to_pylist()]


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    path = tmp_path / f"{10:020d}.log"
    path.write_bytes(batch(10, control=True) + batch(11) + batch(14))
    return path


def test_a_segment(segment: Path) -> None:
    found = rows(segment, keep="file,value")
    assert [row["offset"] for row in found] == [11, 12, 13, 14, 15, 16]
    assert found[1] == {
        "offset": 12,
        "timestamp": found[1]["timestamp"],
        "type": "TOPIC_RECORD",
        "version": 0,
        "data": '{"name":"orders","topicId":"AQEBAQEBAQEBAQEBAQEBAQ"}',
        "error": None,
        "epoch": 4,
        "file": str(segment),
        "value": VALUES[1],
        "entity": "topic",
        "key": "AQEBAQEBAQEBAQEBAQEBAQ",
    }
    assert found[1]["timestamp"].timestamp() == 1_795_237_200.001


def test_rows_follow_offsets_and_record_types(segment: Path) -> None:
    assert [row["offset"] for row in rows(segment, range(13, 15))] == [13, 14]
    assert [row["offset"] for row in rows(segment, recordTypes="TopicRecord")] == [12, 15]
    assert [row["offset"] for row in rows(segment, excludeRecordTypes="NO_OP_RECORD")] == [
        11,
        12,
        14,
        15,
    ]


def test_a_damaged_batch_is_a_row_and_the_next_is_read(segment: Path) -> None:
    data = bytearray(segment.read_bytes())
    at = len(batch(10, control=True))
    data[at + 70] ^= 1
    segment.write_bytes(data)
    found = rows(segment, keep="file")
    assert [(row["offset"], row["error"] is None) for row in found] == [
        (11, False),
        (14, True),
        (15, True),
        (16, True),
    ]
    assert (
        str(segment) in found[0]["error"]
        and "CRC" in found[0]["error"]
        and f"at byte {at}" in found[0]["error"]
    )
    assert found[0]["file"] == str(segment) and found[0]["type"] is None
    # The damage shows even where some types were asked for.
    assert [row["offset"] for row in rows(segment, recordTypes="TopicRecord")] == [11, 15]
    with pytest.raises(DecodeError, match="CRC"):
        rows(segment, mode="FAILFAST")


def test_every_cut_through_the_last_batch(segment: Path) -> None:
    data, whole = segment.read_bytes(), len(batch(10, control=True) + batch(11))
    for size in range(whole, len(data)):
        segment.write_bytes(data[:size])
        found = rows(segment)
        assert [row["offset"] for row in found[:3]] == [11, 12, 13]
        assert [row["error"] is None for row in found[3:]] == [False] * (size > whole)


def test_noise_ends_a_file(segment: Path) -> None:
    segment.write_bytes(batch(11) + b"\xff" * 500)
    found = rows(segment)
    assert [row["offset"] for row in found] == [11, 12, 13, None]
    assert f"at byte {len(batch(11))}" in found[3]["error"]


def test_a_huge_length_takes_no_memory(segment: Path) -> None:
    data = bytearray(batch(11))
    data[8:12] = b"\x7f\xff\xff\xff"
    segment.write_bytes(data)
    [row] = rows(segment)
    assert "more than" in row["error"]


def test_which_files_a_path_means(tmp_path: Path) -> None:
    inner = tmp_path / "node" / "__cluster_metadata-0"
    inner.mkdir(parents=True)
    snapshot, log = f"{9:020d}-{2:010d}.checkpoint", f"{0:020d}.log"
    for name in (
        log,
        snapshot,
        f"{0:020d}.index",
        f"{9:020d}.log.deleted",
        f"{8:020d}-{2:010d}.checkpoint.part",
    ):
        (inner / name).write_bytes(b"")
    names = {"segments": [log], "snapshots": [snapshot], "all": [snapshot, log]}
    for files, expected in names.items():
        for path in (inner, tmp_path / "node", f"file:{inner}", tmp_path / "no*"):
            found = find_files([str(path)], files)  # type: ignore[arg-type]
            assert sorted(found) == sorted(str(inner / name) for name in expected)
    assert find_files([str(inner), str(inner / log)], "segments") == [str(inner / log)]
    for nowhere in ("gone", "gone*"):
        with pytest.raises(FileNotFoundError, match=r"gone.*no segments of a metadata log"):
            find_files([str(tmp_path / nowhere)], "segments")


@needs_shared
@pytest.mark.parametrize(("name", "node"), [("p-old", "1"), ("p-one-segments", "7")])
def test_files_of_real_kafka(logs: Any, name: str, node: str) -> None:
    root = logs(name)
    files = find_files([str(root / "nodes" / node)], "all")
    assert len(files) == {"p-old": 1, "p-one-segments": 4}[name]
    for file in files:
        said = list(truth(root / "truth" / node / f"{Path(file).name}.jsonl"))
        found = rows(Path(file), secrets="true")
        assert [(r["offset"], r["epoch"], r["type"], r["version"], r["error"]) for r in found] == [
            (s["offset"], s["epoch"], s["type"], s["version"], None) for s in said
        ]
        assert [json.loads(row["data"]) for row in found] == [line["data"] for line in said]


def truth(path: Path) -> Iterator[dict[str, Any]]:
    """The output of kafka-dump-log for the file's data records."""
    with path.open(encoding="utf-8") as lines:
        yield from (line for line in map(json.loads, lines) if "control" not in line)
