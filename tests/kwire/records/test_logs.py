"""Whole metadata logs of real Kafka: every segment and snapshot against what Kafka's own tools say
of it, record by record.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kwire.records import (
    decode_batches,
    decode_control_record,
    decode_metadata_record,
    encode_metadata_record,
    iter_batches,
)
from tests.shared import LOG_NAMES, needs_shared

pytestmark = needs_shared

#: Files (segments and snapshots) and records of each log, so that none is passed over.
CONTENTS = {
    "p-abort": (4, 20_564),
    "p-large": (2, 136_123),
    "p-old": (1, 499),
    "p-one-basic": (2, 1_061),
    "p-one-segments": (4, 737),
    "p-quorum": (105, 26_977),
    "p-quorum-short": (45, 11_365),
    "p-upgrade": (1, 3_908),
}


def _files(log: Path) -> Iterator[tuple[Path, Path]]:
    """(file of Kafka, path of its truth without suffix) of every segment and snapshot that has a
    truth.
    """
    for truth in sorted(log.rglob("truth/*/*.batches.jsonl")):
        name = truth.name.removesuffix(".batches.jsonl")
        node = truth.parent.parent.parent / "nodes" / truth.parent.name
        yield node / "__cluster_metadata-0" / name, truth.parent / name


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


@pytest.mark.parametrize("name", LOG_NAMES)
def test_every_batch_and_record_equals_the_truth(name: str, logs: Callable[[str], Path]) -> None:
    files = list(_files(logs(name)))
    on_disk = [
        path
        for path in logs(name).rglob("__cluster_metadata-0/*")
        if path.suffix in (".log", ".checkpoint")
    ]
    assert files
    assert {path for path, _ in files} == set(on_disk)
    records = 0
    for path, truth in files:
        data = path.read_bytes()
        _check_headers(data, truth)
        records += _check_records(data, truth)
    assert (len(files), records) == CONTENTS[name]


def _check_headers(data: bytes, truth: Path) -> None:
    seen = [
        {
            "baseOffset": h.base_offset,
            "lastOffset": h.last_offset,
            "count": h.record_count,
            "epoch": h.partition_leader_epoch,
            "control": h.is_control,
            "transactional": h.is_transactional,
            "position": h.position,
            "size": h.size,
            "magic": h.magic,
            "codec": h.compression.name.lower(),
            "crc": h.crc,
            "valid": True,
            "maxTimestamp": h.max_timestamp,
        }
        for h in iter_batches(data, check_crc=True)
    ]
    assert seen == list(_lines(truth.with_name(truth.name + ".batches.jsonl")))


def _check_records(data: bytes, truth: Path) -> int:
    count = 0
    expected = _lines(truth.with_name(truth.name + ".jsonl"))
    for batch in decode_batches(data, raw_timestamps=True):
        assert batch.encode() == data[batch.header.position : batch.header.end]
        for record in batch.records:
            line: dict[str, Any] = {
                "offset": record.offset,
                "epoch": batch.header.partition_leader_epoch,
                "timestamp": record.timestamp,
                "keySize": -1 if record.key is None else len(record.key),
                "valueSize": -1 if record.value is None else len(record.value),
            }
            if batch.header.is_control:
                control = decode_control_record(record)
                assert control.message is not None
                line |= {"control": control.dump_name, "data": control.message.to_json(0)}
            else:
                assert record.value is not None
                kind, version, message = decode_metadata_record(record.value)
                line |= {"type": kind, "version": version, "data": message.to_json(version)}
                assert encode_metadata_record(message, version) == record.value
            assert line == next(expected)
            count += 1
    assert next(expected, None) is None
    return count
