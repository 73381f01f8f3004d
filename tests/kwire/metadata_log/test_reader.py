"""The streaming reader: every record of every file as Kafka dumps it, in bounded memory, damage
with its place.
"""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from kwire.errors import DecodeError
from kwire.metadata_log.reader import read_log_file
from tests.gateway.log.kafka_files import batch
from tests.shared import needs_shared


@needs_shared
@pytest.mark.parametrize("name", ["p-one-basic", "p-one-segments", "p-quorum", "p-upgrade"])
def test_every_record_as_dumped_by_kafka(logs: Any, name: str) -> None:
    checked = 0
    for truth in sorted(logs(name).glob("nodes/../truth/*/*.batches.jsonl")):
        file_name = truth.name.removesuffix(".batches.jsonl")
        node = truth.parent.parent.parent / "nodes" / truth.parent.name / "__cluster_metadata-0"
        batches = [
            json.loads(line) for line in truth.read_text(encoding="utf-8").split("\n") if line
        ]
        records = [
            json.loads(line)
            for line in (truth.parent / f"{file_name}.jsonl").read_text("utf-8").split("\n")
            if line
        ]
        read = list(read_log_file(node / file_name))
        assert [
            (h.position, h.size, h.base_offset, h.crc, h.is_control, len(rs)) for h, rs in read
        ] == [
            (b["position"], b["size"], b["baseOffset"], b["crc"], b["control"], b["count"])
            for b in batches
        ]
        found = [
            (r.offset, r.timestamp, -1 if r.value is None else len(r.value))
            for _, rs in read
            for r in rs
        ]
        assert found == [(r["offset"], r["timestamp"], r["valueSize"]) for r in records]
        checked += len(found)
    assert checked


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "big.log"
    with path.open("wb") as file:
        for offset in range(300):
            file.write(batch(offset, size=100_000).data)
    tracemalloc.start()
    count = sum(len(records) for _, records in read_log_file(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 300 and peak < 8 * 1024 * 1024


def test_a_batch_larger_than_what_is_read_ahead(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(batch(0).data + batch(1, size=3_000_000).data + batch(2).data)
    assert [header.base_offset for header, _ in read_log_file(path)] == [0, 1, 2]
    with pytest.raises(DecodeError, match="more than the 1000 allowed"):
        list(read_log_file(path, batch_bytes_max=1000))


@pytest.mark.parametrize("cut", [1, 30, 61, 70])
def test_a_torn_end_comes_after_what_is_whole(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "log"
    first, second = batch(0, 2).data, batch(2).data
    path.write_bytes(first + second[:cut])
    reader = read_log_file(path)
    assert next(reader)[0].base_offset == 0
    with pytest.raises(DecodeError) as error:
        next(reader)
    assert (error.value.path, error.value.offset, error.value.rule) == (
        str(path),
        len(first),
        "truncated",
    )


def test_damage_is_named_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "log"
    first, second = batch(0, 2).data, bytearray(batch(2).data)
    second[-1] ^= 1
    path.write_bytes(first + second + first)
    reader = read_log_file(path)
    next(reader)
    with pytest.raises(DecodeError, match="CRC") as error:
        next(reader)
    assert (error.value.offset, error.value.rule) == (len(first), "crc")


def test_an_empty_file_has_no_batches(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    assert list(read_log_file(tmp_path / "log")) == []
