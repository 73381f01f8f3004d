"""Kafka's files with an offset for each partition: read as written, and refused where they were
cut.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.log.files.disk import Disk
from gateway.log.files.offset_checkpoint import (
    Checkpoints,
    format_offsets,
    parse_offsets,
    read_offsets,
)
from kwire.errors import DecodeError

#: As Kafka 4.3 writes it.
_FILE = b"0\n2\norders 11 500\n__cluster_metadata 0 1234\n"
_OFFSETS = {("orders", 11): 500, ("__cluster_metadata", 0): 1234}


def test_file_of_kafka_is_read_and_written_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    assert read_offsets(path) == {}
    path.write_bytes(_FILE)
    assert read_offsets(path) == _OFFSETS
    assert format_offsets(_OFFSETS) == _FILE


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"1\n0\n", "version 0"),
        (b"0\n2\norders 11 500\n", "announces '2' entries and has 1"),
        (b"0\n1\norders 11\n", "line 3"),
        (b"0\n1\norders 11 -5\n", "line 3"),
        (b"0\n1\norders 11 " + b"9" * 20 + b"\n", "line 3"),
    ],
)
def test_file_that_is_not_whole_is_refused_by_name(
    tmp_path: Path, data: bytes, reason: str
) -> None:
    path = tmp_path / "x"
    path.write_bytes(data)
    with pytest.raises(DecodeError, match=reason) as refused:
        read_offsets(path)
    assert refused.value.path == str(path)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(DecodeError):
        parse_offsets(data)


def test_checkpoints_of_partitions_are_there_after_a_restart(tmp_path: Path) -> None:
    problems: list[str] = []
    one = Checkpoints(tmp_path, Disk(), problems)
    one.log_starts.write("a-b", 3, 7)
    one.log_starts.write("c", 0, 9)
    one.cleaned.write("c", 0, 4)
    one.forget("c", 0)
    again = Checkpoints(tmp_path, Disk(), problems)
    assert (again.log_starts.get("a-b", 3), again.log_starts.get("c", 0)) == (7, None)
    assert again.cleaned.get("c", 0) is None and problems == []
    (tmp_path / "log-start-offset-checkpoint").write_bytes(b"0\n2\n")
    assert Checkpoints(tmp_path, Disk(), problems).log_starts.get("a-b", 3) is None
    assert len(problems) == 1


def test_empty_file_has_no_entries(tmp_path: Path) -> None:
    """Kafka creates its files before it has entries."""
    (tmp_path / "cleaner-offset-checkpoint").touch()
    problems: list[str] = []
    assert Checkpoints(tmp_path, Disk(), problems).cleaned.get("a", 0) is None
    assert problems == []


def test_noted_offsets_are_written_together_by_the_next_save(tmp_path: Path) -> None:
    path, problems = tmp_path / "recovery-point-offset-checkpoint", list[str]()
    points = Checkpoints(tmp_path, Disk(), problems).recovery_points
    points.note("a", 0, 5)
    points.note("b", 1, 6)
    assert points.get("a", 0) == 5 and not path.exists()
    points.save()
    assert read_offsets(path) == {("a", 0): 5, ("b", 1): 6}


def test_lower_offset_is_on_disk_at_once_and_a_higher_one_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    points = Checkpoints(tmp_path, Disk(), []).recovery_points
    points.write("a", 0, 50)
    points.note("a", 0, 20)
    points.lower("a", 0, 30)
    assert points.get("a", 0) == 20 and read_offsets(path) == {("a", 0): 20}
    points.lower("a", 0, 20)
    points.lower("b", 0, 7)
    assert read_offsets(path) == {("a", 0): 20}
