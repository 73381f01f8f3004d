"""Snapshots that kwire writes: the same batches as Kafka's, readable by each of kwire's readers."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.log.files.disk import Disk
from gateway.log.metadata import snapshot_file
from gateway.log.metadata.snapshot_file import SnapshotFile
from gateway.log.metadata.snapshot_writer import SnapshotWriter
from kwire.messages.voters_record import VotersRecord
from kwire.metadata_log.reader import read_log_file
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.records import BatchHeader, Record, decode_control_record

ID = SnapshotId(500, 7)


def written(
    directory: Path,
    values: list[bytes],
    *,
    kraft_version: int = 0,
    voters: VotersRecord | None = None,
) -> list[tuple[BatchHeader, list[Record]]]:
    file = SnapshotFile(
        SnapshotWriter(Disk(), directory, ID),
        ID,
        last_contained_log_timestamp=1234,
        kraft_version=kraft_version,
        voters=voters,
    )
    for value in values:
        file.append(value)
    assert not (directory / ID.file_name).exists(), "nobody sees it before it is whole"
    file.finish()
    assert [path.name for path in directory.iterdir()] == [ID.file_name]
    return list(read_log_file(directory / ID.file_name))


def controls(records: list[Record]) -> list[str]:
    return [decode_control_record(record).name for record in records]


def test_header_data_footer(tmp_path: Path) -> None:
    head, data, foot = written(tmp_path, [b"a", b"bc"])
    assert [(h.base_offset, h.last_offset, h.is_control) for h, _ in (head, data, foot)] == [
        (0, 0, True),
        (1, 2, False),
        (3, 3, True),
    ]
    assert {h.partition_leader_epoch for h, _ in (head, data, foot)} == {7}
    assert {h.max_timestamp for h, _ in (head, data, foot)} == {1234}
    assert [(r.offset, r.key, r.value) for r in data[1]] == [(1, None, b"a"), (2, None, b"bc")]
    assert controls(head[1]) == ["SNAPSHOT_HEADER"] and controls(foot[1]) == ["SNAPSHOT_FOOTER"]
    header = decode_control_record(head[1][0]).message
    assert header is not None and header.to_json(0) == {
        "version": 0,
        "lastContainedLogTimestamp": 1234,
    }


def test_batches_end_after_so_many_records_or_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_file, "BATCH_BYTES", 10_000)
    _, *data, _ = written(tmp_path, [b"x"] * 2100 + [b"y" * 6000] * 3 + [b"z" * 50_000, b"end"])
    assert [len(records) for _, records in data] == [1024, 1024, 54, 2, 1]
    offsets = [record.offset for _, records in data for record in records]
    assert offsets == list(range(1, 2106))


@pytest.mark.parametrize(
    ("kraft_version", "voters", "names"),
    [
        (0, None, []),
        (0, VotersRecord(), []),
        (1, VotersRecord(), ["KRAFT_VERSION", "KRAFT_VOTERS"]),
        (1, None, ["KRAFT_VERSION"]),
    ],
)
def test_a_dynamic_quorum_is_named(
    tmp_path: Path, kraft_version: int, voters: VotersRecord | None, names: list[str]
) -> None:
    head, foot = written(tmp_path, [], kraft_version=kraft_version, voters=voters)
    assert controls(head[1]) == ["SNAPSHOT_HEADER", *names]
    assert foot[0].base_offset == 1 + len(names)
