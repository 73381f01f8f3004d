"""Tests the voter sets read from a log, its newest snapshot and its formatting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.log.files.errors import LogDamaged
from gateway.log.metadata.control_records import read_control_records, read_snapshot_head
from kwire.messages.k_raft_version_record import KRaftVersionRecord
from kwire.messages.snapshot_header_record import SnapshotHeaderRecord
from kwire.metadata_log.file_names import segment_name
from kwire.metadata_log.snapshot_id import SnapshotId
from tests.gateway.log.kafka_files import batch
from tests.gateway.log.voting import control_batch, voters
from tests.shared import LOG_NAMES, needs_shared

VERSION_1 = ("KRAFT_VERSION", KRaftVersionRecord(k_raft_version=1))


def snapshot(directory: Path, id: SnapshotId, *ids: int) -> None:
    said: list[tuple[str, Any]] = [("SNAPSHOT_HEADER", SnapshotHeaderRecord())]
    said += [VERSION_1, ("KRAFT_VOTERS", voters(*ids))] if ids else []
    (directory / id.file_name).write_bytes(control_batch(0, id.epoch, *said))


def test_formatting_snapshot_and_log_in_this_order(tmp_path: Path) -> None:
    snapshot(tmp_path, SnapshotId(0, 0), 1)
    snapshot(tmp_path, SnapshotId(8, 2), 1, 2)
    snapshot(tmp_path, SnapshotId(5, 1), 1)
    first = (
        control_batch(0, 1)
        + control_batch(1, 1, VERSION_1, ("KRAFT_VOTERS", voters(1)))
        + batch(3, 3, 1).data
    )
    second = (
        batch(6, 4, 2).data
        + control_batch(10, 3)
        + control_batch(11, 3, ("KRAFT_VOTERS", voters(1, 2, 3)))
    )
    (tmp_path / segment_name(0)).write_bytes(first)
    (tmp_path / segment_name(6)).write_bytes(second)
    found = read_control_records(tmp_path)
    assert found.voters == ((-1, voters(1)), (7, voters(1, 2)), (11, voters(1, 2, 3)))
    assert found.kraft_versions == ((-1, 1), (7, 1))
    assert read_snapshot_head(tmp_path, SnapshotId(8, 2)) == (1, voters(1, 2))


def test_a_snapshot_that_does_not_tell_leaves_it_to_the_log(tmp_path: Path) -> None:
    snapshot(tmp_path, SnapshotId(8, 2))
    (tmp_path / segment_name(0)).write_bytes(
        control_batch(0, 1, VERSION_1, ("KRAFT_VOTERS", voters(1, 2)))
    )
    assert read_control_records(tmp_path).voters == ((1, voters(1, 2)),)
    assert read_snapshot_head(tmp_path, SnapshotId(8, 2)) == (0, None)


def test_batches_of_any_size_are_passed_over(tmp_path: Path) -> None:
    sizes = (10, 1_100_000, 900_000, 300_000, 2_500_000, 20)
    data, offset = b"", 0
    for size in sizes:
        data += batch(offset, 1, 1, size=size).data + control_batch(
            offset + 1, 1, ("KRAFT_VOTERS", voters(1, offset + 2))
        )
        offset += 2
    (tmp_path / segment_name(0)).write_bytes(data)
    found = read_control_records(tmp_path).voters
    assert found == tuple((2 * at + 1, voters(1, 2 * at + 2)) for at in range(len(sizes)))


def test_nothing_is_there(tmp_path: Path) -> None:
    assert read_control_records(tmp_path) == ((), ())
    (tmp_path / segment_name(0)).touch()
    assert read_control_records(tmp_path) == ((), ())


@pytest.mark.parametrize(
    ("name", "data", "what"),
    [
        (
            segment_name(0),
            control_batch(0, 1, VERSION_1)[:-1],
            "at byte 0: a batch of .* bytes, and .* are left",
        ),
        (
            segment_name(0),
            batch(0).data[:-4] + b"\xff\xff\xff\xff" + control_batch(1, 1, VERSION_1)[:-1] + b"x",
            "at byte .*CRC",
        ),
        (SnapshotId(0, 0).file_name, b"", "is empty"),
        (SnapshotId(0, 0).file_name, b"\0" * 80, "at byte 0"),
        (SnapshotId(7, 1).file_name, b"\0" * 80, "at byte 0"),
    ],
)
def test_damage_is_reported_with_its_position(
    name: str, data: bytes, what: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(LogDamaged, match=f"{name}.*{what}"):
        read_control_records(tmp_path)


@needs_shared
@pytest.mark.parametrize("name", LOG_NAMES)
def test_logs_of_real_nodes(logs: Any, name: str) -> None:
    directories = sorted(logs(name).glob("**/nodes/*/__cluster_metadata-0"))
    assert directories, "a captured cluster has nodes"
    for path in directories:
        found = read_control_records(path)
        assert [offset for offset, _ in found.voters] == sorted(
            offset for offset, _ in found.voters
        )
        assert bool(found.voters) == bool(found.kraft_versions)
        if (path / SnapshotId(0, 0).file_name).exists():
            assert found.voters[0][0] == -1
            assert len(found.voters) > 1, "the first leader writes them to the log"
