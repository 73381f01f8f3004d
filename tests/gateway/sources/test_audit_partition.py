"""This node's part of the audit topic as clients see it: only what is on disk, and on after
damage.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.log.audit.audit_log import AUDIT_SETTINGS, AuditRecord
from gateway.log.partition.log_settings import LogSettings
from gateway.log.partition.salvage_recovery import DAMAGED
from gateway.ports.services import OffsetAt, OffsetOutOfRange, State
from gateway.sources.audit_partition import DIRECTORY, AuditPartition
from kwire.metadata_log.file_names import segment_name
from kwire.records import decode_batches
from tests.gateway.sources.reading import batches_from

SETTINGS = replace(AUDIT_SETTINGS, fsync=False)
TINY = replace(AUDIT_SETTINGS, segment_bytes=1, fsync=False)


def opened(data_dir: Path, settings: LogSettings = SETTINGS) -> AuditPartition:
    return AuditPartition(data_dir, settings, cluster_id="c")


def write(partition: AuditPartition, *values: str, at: int = 1000) -> None:
    """Each in a write of its own, and shown."""
    for value in values:
        if partition.is_full(at):
            assert partition.roll() == []
        partition.append([AuditRecord(at, value.encode())])
    show(partition)


def show(partition: AuditPartition) -> None:
    pending_flush = partition.pending_flush()
    if pending_flush is not None:
        partition.publish(pending_flush.flush())


def values(partition: AuditPartition) -> list[tuple[int, bytes | None]]:
    """Return the values that a consumer reads from the beginning, by offset."""
    data = b"".join(data for _, _, data in batches_from(partition, partition.log_start_offset))
    return [
        (record.offset, record.value) for batch in decode_batches(data) for record in batch.records
    ]


def test_a_new_one_is_empty_and_ready(tmp_path: Path) -> None:
    partition = opened(tmp_path)
    assert (partition.state, partition.log_start_offset, partition.high_watermark) == (
        State.READY,
        0,
        0,
    )
    assert (partition.leader_epoch, partition.size_bytes, partition.log_dir) == (
        0,
        0,
        str(tmp_path),
    )
    assert values(partition) == [] and partition.max_timestamp() is None


def test_written_records_are_served_once_they_are_on_disk(tmp_path: Path) -> None:
    partition, told = opened(tmp_path), []
    partition.on_advance(lambda: told.append(partition.high_watermark))
    partition.append([AuditRecord(1000, b"a")])
    pending_flush = partition.pending_flush()
    partition.append([AuditRecord(2000, b"b")])
    assert values(partition) == [] and told == []
    assert pending_flush is not None
    partition.publish(pending_flush.flush())
    assert values(partition) == [(0, b"a")] and told == [1]
    with pytest.raises(OffsetOutOfRange):
        partition.read(2, 1000)
    show(partition)
    assert values(partition) == [(0, b"a"), (1, b"b")] and told == [1, 2]
    assert partition.offset_for_timestamp(1500) == OffsetAt(1, 2000, 0)
    assert partition.end_offset_for_epoch(0) == (0, 2)


def test_after_a_kill_every_written_record_is_served(tmp_path: Path) -> None:
    partition = opened(tmp_path, TINY)
    partition.append([AuditRecord(1, b"a")])
    partition.roll()
    partition.append([AuditRecord(1, b"b")])
    again = opened(tmp_path, TINY)
    assert values(again) == [(0, b"a"), (1, b"b")] and again.repairs == []


def test_deleted_records_are_no_longer_served(tmp_path: Path) -> None:
    partition = opened(
        tmp_path, replace(AUDIT_SETTINGS, segment_bytes=1, retention_ms=100, fsync=False)
    )
    write(partition, "a", at=1000)
    write(partition, "b", at=2000)
    assert partition.clean(2050) == [segment_name(0)]
    show(partition)
    assert partition.log_start_offset == 0, (
        "nothing was written since: it is shown with the next look"
    )
    partition.publish(partition.end_offset)
    assert values(partition) == [(1, b"b")] and partition.log_start_offset == 1


def test_damage_in_the_middle_does_not_hide_what_is_newer(tmp_path: Path) -> None:
    write(opened(tmp_path, TINY), "a", "b", "c")
    path = tmp_path / DIRECTORY / segment_name(1)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    partition = opened(tmp_path, TINY)
    assert values(partition) == [(0, b"a"), (2, b"c")] and partition.state is State.READY
    (told,) = partition.repairs
    assert "wrong CRC" in told and segment_name(1) + DAMAGED in told and "offsets 1 to 1" in told
    assert path.with_name(path.name + DAMAGED).read_bytes() == data


def test_a_missing_segment_does_not_hide_what_is_newer(tmp_path: Path) -> None:
    write(opened(tmp_path, TINY), "a", "b", "c")
    (tmp_path / DIRECTORY / segment_name(1)).unlink()
    partition = opened(tmp_path, TINY)
    assert values(partition) == [(0, b"a"), (2, b"c")] and "missing" in partition.repairs[0]
    write(partition, "d")
    assert values(partition)[-1] == (3, b"d")


def test_it_goes_on_behind_a_gap_that_ends_with_an_empty_segment(tmp_path: Path) -> None:
    write(opened(tmp_path), "a")
    (tmp_path / DIRECTORY / segment_name(99)).write_bytes(b"")
    partition = opened(tmp_path)
    assert partition.high_watermark == 99 and "missing" in partition.repairs[0]
    write(partition, "b")
    assert values(partition) == [(0, b"a"), (99, b"b")]


def test_it_goes_on_where_two_segments_hold_the_same_offsets(tmp_path: Path) -> None:
    write(opened(tmp_path), "a", "b", "c")
    (tmp_path / DIRECTORY / segment_name(1)).write_bytes(b"")
    partition = opened(tmp_path)
    write(partition, "d")
    assert [value for _, value in values(partition)] == [b"d"] and partition.state is State.READY


def test_it_is_opened_again_after_a_failure(tmp_path: Path) -> None:
    partition = opened(tmp_path)
    write(partition, "a")
    partition.close()
    assert not partition.is_writable
    partition.reopen()
    assert partition.is_writable
    write(partition, "b")
    assert values(partition) == [(0, b"a"), (1, b"b")]


def test_what_was_written_is_not_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = opened(tmp_path)
    reads: list[str] = []

    def refuse(*given: object) -> None:
        reads.append(str(given))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", refuse)
        patch.setattr(os, "scandir", refuse)
        write(partition, "a", "b")
    assert reads == []
    assert values(partition) == [(0, b"a"), (1, b"b")]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda path: path.unlink(), "was removed or replaced while the server runs"),
        (lambda path: os.truncate(path, 10), "at byte 10: has 10 bytes"),
    ],
)
def test_file_that_is_taken_from_a_running_node_is_named_and_takes_nothing_back(
    tmp_path: Path, change: Callable[[Path], None], reason: str
) -> None:
    partition = opened(tmp_path, TINY)
    write(partition, "a", "b")
    partition.check_files()
    assert (partition.state, partition.problems) == (State.READY, ())
    path = tmp_path / DIRECTORY / segment_name(0)
    change(path)
    partition.check_files()
    assert (partition.state, partition.high_watermark) == (State.BROKEN, 2)
    assert str(path) in str(partition.problems[0]) and reason in str(partition.problems[0])
    write(partition, "c")
    assert partition.high_watermark == 3, "each change is still recorded, and shown"
