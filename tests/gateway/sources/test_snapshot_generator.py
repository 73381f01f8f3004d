"""Our snapshots of Kafka's logs hold what Kafka's do, record for record; when they are due; and why
there is none.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gateway.log.files.disk import Disk
from gateway.log.files.errors import DiskFailed
from gateway.log.metadata.snapshot_writer import SnapshotWriter
from gateway.sources.metadata_loader import MetadataLoader
from gateway.sources.snapshot_generator import RETRY_S, SnapshotGenerator, SnapshotSettings
from kwire.message import Message
from kwire.messages.abort_transaction_record import AbortTransactionRecord
from kwire.messages.begin_transaction_record import BeginTransactionRecord
from kwire.messages.feature_level_record import FeatureLevelRecord
from kwire.metadata_log.file_names import BOOTSTRAP_SNAPSHOT, parse_snapshot_name
from kwire.metadata_log.reader import read_log_file
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.records import decode_control_record, decode_metadata_record
from tests.gateway.sources.metadata_files import (
    batch,
    topic,
    values_batch,
    write_segment,
    write_snapshot,
)
from tests.kwire.cluster.kafka_state import comparable, state_of
from tests.shared import LOG_NAMES, needs_shared

LEVEL = FeatureLevelRecord(name="metadata.version", feature_level=25)


def own(directory: Path, settings: SnapshotSettings | None = None) -> SnapshotGenerator:
    def new_writer(snapshot_id: SnapshotId) -> SnapshotWriter:
        return SnapshotWriter(Disk(fsync=False), directory, snapshot_id)

    return SnapshotGenerator(directory, settings or SnapshotSettings(), new_writer, now=0.0)


def content(path: Path) -> list[tuple[str, str]]:
    """(type, everything) of each record in the snapshot, in its order. Kafka holds voters in a map:
    in order of their ids.
    """
    rows = []
    for header, records in read_log_file(path):
        for record in records:
            version, message = 0, None
            if header.is_control:
                control = decode_control_record(record)
                name, message = control.name, control.message
            else:
                name, version, message = decode_metadata_record(record.value or b"")
            assert message is not None
            data = message.to_json(version)
            if name == "KRAFT_VOTERS":
                data["voters"].sort(key=lambda voter: voter["voterId"])
            rows.append((name, comparable(name, version, data)))
    return rows


def kinds(rows: list[tuple[str, str]]) -> list[str]:
    """The types in the order of their first record; Kafka's order within one is that of a hash
    map.
    """
    return list(dict.fromkeys(name for name, _ in rows))


def snapshots_of(directory: Path) -> list[SnapshotId]:
    found = (parse_snapshot_name(path.name) for path in directory.iterdir())
    return sorted(one for one in found if one is not None and one != BOOTSTRAP_SNAPSHOT)


def before(source: Path, snapshot: SnapshotId, directory: Path) -> None:
    """The log of ``source`` as if ``snapshot`` and later ones had not been written yet."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    for path in (
        *source.glob("*.log"),
        *(source / one.file_name for one in snapshots_of(source) if one < snapshot),
    ):
        os.link(path, directory / path.name)


@needs_shared
@pytest.mark.parametrize("name", ["p-one-segments", "p-quorum", "p-quorum-short"])
def test_our_snapshot_at_kafkas_offset_is_kafkas(name: str, logs: Any, tmp_path: Path) -> None:
    """Every record, the voters of that moment, the time and the epoch; not byte for byte, since
    Kafka's maps have no order.

    A log's oldest snapshot, that nothing leads to, cannot be made again.
    """
    compared = 0
    for source in sorted(logs(name).glob("nodes/*/__cluster_metadata-0")):
        base = min(int(path.name[:20]) for path in source.glob("*.log"))
        known = snapshots_of(source)
        for snapshot in known if base == 0 else known[1:]:
            before(source, snapshot, tmp_path / "log")
            written = own(tmp_path / "log").write(snapshot.end_offset, 0, 0.0)
            assert written is not None and written.snapshot_id == snapshot
            kwires, kafkas = (
                content(tmp_path / "log" / snapshot.file_name),
                content(source / snapshot.file_name),
            )
            assert Counter(kwires) == Counter(kafkas), (source, snapshot)
            assert kinds(kwires) == kinds(kafkas)
            assert written.size == (tmp_path / "log" / snapshot.file_name).stat().st_size
            compared += 1
    assert compared > 0 or name == "p-one-segments"


def last_timestamp(source: Path, high_watermark: int) -> int:
    """When the last batch below ``high_watermark`` was appended, ms."""
    newest = max(path for path in source.glob("*.log") if int(path.stem) < high_watermark)
    return [
        header.max_timestamp
        for header, _ in read_log_file(newest)
        if header.next_offset <= high_watermark
    ][-1]


@needs_shared
@pytest.mark.parametrize("name", LOG_NAMES)
def test_the_log_behind_our_snapshot_leads_to_the_same_image(
    name: str, logs: Any, tmp_path: Path
) -> None:
    """The log before the snapshot is not needed any more."""
    source = sorted(logs(name).glob("nodes/*/__cluster_metadata-0"))[-1]
    shutil.copytree(source, tmp_path / "log")
    truth = next(
        (source.parent.parent.parent / "truth" / source.parent.name).glob("state-END.jsonl")
    )
    end = json.loads(truth.open(encoding="utf-8").readline())["nextOffset"]
    whole = MetadataLoader(source)
    while whole.decode_step(end):
        whole.apply_step()
    whole.apply_step()
    snapshots = own(tmp_path / "log")
    written = snapshots.write(end, 0, 0.0)
    if name == "p-abort":  # its bootstrap was aborted
        assert written is None and "no metadata.version" in str(snapshots.problem)
        return
    assert written is not None and written.snapshot_id.end_offset == end
    for path in tmp_path.glob("log/*"):
        if path.name != written.snapshot_id.file_name:
            path.unlink()
    _, [header, *_] = next(read_log_file(tmp_path / "log" / written.snapshot_id.file_name))
    about: Any = decode_control_record(header).message
    assert about.last_contained_log_timestamp == last_timestamp(source, end)
    alone = MetadataLoader(tmp_path / "log")
    while alone.decode_step(end):
        alone.apply_step()
    alone.apply_step()
    assert (alone.next_offset, alone.image.epoch) == (end, whole.image.epoch)
    assert state_of(alone.image) == state_of(whole.image)
    assert gc.isenabled()


# --- where it ends
# -------------------------------------------------------------------------------------------------


def test_it_ends_at_the_high_watermark_and_begins_with_the_snapshot_before(tmp_path: Path) -> None:
    write_segment(
        tmp_path,
        0,
        batch(0, LEVEL, topic(1)),
        batch(2, topic(2), epoch=2),
        batch(3, topic(3), epoch=3, timestamp=77),
    )
    snapshots = own(tmp_path)
    first = snapshots.write(3, 0, 0.0)
    assert first is not None and (first.snapshot_id, first.records) == (SnapshotId(3, 2), 3)
    assert snapshots.latest == first and snapshots.problem is None
    (tmp_path / "00000000000000000000.log").unlink()
    write_segment(tmp_path, 3, batch(3, topic(3), epoch=3, timestamp=77))
    second = snapshots.write(4, 0, 0.0)
    assert second is not None and (second.snapshot_id, second.records) == (SnapshotId(4, 3), 4)
    assert (
        '"lastContainedLogTimestamp": 77' in content(tmp_path / second.snapshot_id.file_name)[0][1]
    )


def test_an_open_transaction_is_none_of_it(tmp_path: Path) -> None:
    """It ends before the transaction where that is the end of a batch; else there is none, and soon
    another try.
    """
    begin, abort = BeginTransactionRecord(), AbortTransactionRecord()
    write_segment(
        tmp_path,
        0,
        batch(0, LEVEL, topic(1)),
        batch(2, begin, topic(2)),
        batch(4, abort),
        batch(5, topic(3), begin),
        batch(7, topic(4), abort),
    )
    snapshots = own(tmp_path)
    first = snapshots.write(4, 10, 100.0)
    assert first is not None and first.snapshot_id == SnapshotId(2, 1)
    assert snapshots.write(7, 20, 100.0) is None
    assert (
        snapshots.problem == "a metadata transaction is open that began at offset 6, inside a batch"
    )
    assert not snapshots.due(10**9, 100.5) and snapshots.due(10**9, 101.0)
    last = snapshots.write(9, 20, 101.0)
    assert last is not None and last.snapshot_id == SnapshotId(9, 1) and last.records == 3


# --- when
# -------------------------------------------------------------------------------------------------


def test_due_by_bytes_and_by_time(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, batch(0, LEVEL))
    snapshots = own(tmp_path, SnapshotSettings(max_record_bytes=1000, max_interval_ms=60_000))
    assert [snapshots.due(size, 59.9) for size in (0, 999, 1000)] == [False, False, True]
    assert [snapshots.due(size, 60.0) for size in (0, 1)] == [False, True], (
        "for the time's sake only if there is something new"
    )
    assert snapshots.write(1, 1000, 60.0) is not None
    assert [snapshots.due(size, 119.9) for size in (1000, 1999, 2000)] == [False, False, True]
    assert [snapshots.due(size, 120.0) for size in (1000, 1001)] == [False, True]
    assert [snapshots.due(500, 130.0), snapshots.due(999, 189.9), snapshots.due(1000, 189.9)] == [
        False,
        False,
        True,
    ], "an image that began again with a snapshot from the leader counts from there"


def test_an_interval_of_0_is_none(tmp_path: Path) -> None:
    assert not own(tmp_path, SnapshotSettings(max_interval_ms=0)).due(20 * 1024 * 1024 - 1, 1e9)


def test_kafkas_defaults() -> None:
    assert SnapshotSettings() == SnapshotSettings(
        max_record_bytes=20971520, max_interval_ms=3600000
    )


# --- why there is none
# -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("records", "text"),
    [
        ([topic(1)], "no metadata.version below offset"),
        ([], "Kafka loads no snapshot without one"),
    ],
)
def test_no_snapshot_without_a_metadata_version(
    records: list[Message], text: str, tmp_path: Path
) -> None:
    write_segment(tmp_path, 0, *(batch(n, one) for n, one in enumerate(records)))
    snapshots = own(tmp_path)
    assert snapshots.write(len(records), 10, 5.0) is None and text in str(snapshots.problem)
    assert not snapshots.due(10**9, 5.0 + RETRY_S - 1) and snapshots.due(10**9, 5.0 + RETRY_S)
    assert snapshots_of(tmp_path) == []


def test_nothing_new(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, batch(0, LEVEL))
    write_snapshot(tmp_path, 1, 1, LEVEL)
    snapshots = own(tmp_path)
    assert snapshots.write(1, 0, 0.0) is None
    assert (
        snapshots.problem
        == "nothing is committed behind the snapshot 00000000000000000001-0000000001.checkpoint"
    )


def test_no_snapshot_is_written_over_unreadable_records(tmp_path: Path) -> None:
    """As in Kafka after a fault of the metadata loader: a snapshot would lack it, and the log that
    has it might be cleaned.
    """
    write_segment(tmp_path, 0, batch(0, LEVEL), values_batch(1, b"\x01\x70\x00\x00"))
    snapshots = own(tmp_path)
    assert snapshots.write(1, 0, 0.0) is not None
    assert snapshots.write(2, 0, 1.0) is None
    assert snapshots.problem is not None
    assert "offset 1" in snapshots.problem and "upgrade" in snapshots.problem


def test_no_snapshot_is_written_at_a_level_that_this_release_does_not_know(tmp_path: Path) -> None:
    level = FeatureLevelRecord(name="metadata.version", feature_level=60)
    write_segment(tmp_path, 0, batch(0, level))
    snapshots = own(tmp_path)
    assert snapshots.write(1, 0, 0.0) is None
    assert snapshots.problem is not None and "level 60" in snapshots.problem


def test_cancelled_snapshot_ends_in_the_middle_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_segment(tmp_path, 0, batch(0, LEVEL, *(topic(n) for n in range(1, 5000))))
    snapshots = own(tmp_path)
    real, written = SnapshotWriter.write, []

    def write(self: SnapshotWriter, position: int, data: bytes) -> None:
        real(self, position, data)
        written.append(position)
        if len(written) == 2:  # the header, and the first of five batches
            snapshots.cancel()

    monkeypatch.setattr(SnapshotWriter, "write", write)
    assert snapshots.write(5000, 0, 0.0) is None and len(written) == 2
    assert snapshots.problem == "the server stops"
    assert not list(tmp_path.glob("*.checkpoint*")) and snapshots.write(5000, 0, 0.0) is None


def test_a_damaged_log_gives_none(tmp_path: Path) -> None:
    path = write_segment(tmp_path, 0, batch(0, LEVEL), batch(1, topic(1)))
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    snapshots = own(tmp_path)
    assert (
        snapshots.write(2, 0, 0.0) is None
        and "CRC" in str(snapshots.problem)
        and path.name in str(snapshots.problem)
    )
    path.unlink()
    assert own(tmp_path / "none").write(2, 0, 0.0) is None
    assert snapshots.write(2, 0, 0.0) is None and "the log has no segments" in str(
        snapshots.problem
    )


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_segment(tmp_path, 0, batch(0, LEVEL), *(batch(n, topic(n)) for n in range(1, 50)))
    snapshots = own(tmp_path)
    real = Disk.write

    def full(self: Disk, file: Any, position: int, data: bytes) -> None:
        if position > 0:
            raise DiskFailed(
                "write",
                str(file.path),
                OSError(28, "No space left on device"),
                "make room on that file system",
            )
        real(self, file, position, data)

    with monkeypatch.context() as patched:
        patched.setattr(Disk, "write", full)
        assert snapshots.write(50, 0, 0.0) is None
    assert "No space left on device; make room" in str(snapshots.problem)
    assert [path.name for path in tmp_path.iterdir()] == ["00000000000000000000.log"]
    assert snapshots.write(50, 0, 0.0) is not None and snapshots.problem is None
