"""The rows of a log directory: all of them, from an offset on, from a snapshot, and with damage."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

if os.environ.get("KWIRE_INTEROP") != "require":
    pytest.importorskip("pyspark", reason="the spark extra is not installed")

from kwire.records.header import iter_batches
from kwire.spark.source.files import Damage, read_columns
from kwire.spark.table.directory import directory_rows
from kwire.spark.table.rows import Row
from tests.kwire.spark.table_rows import rows_of
from tests.shared import needs_shared

pytestmark = needs_shared


def rows(directory: Path, since: int = 0) -> list[Row]:
    return [row for part in directory_rows(str(directory), since) for row in part]


@pytest.mark.parametrize(("name", "node"), [("p-one-basic", "1"), ("p-one-segments", "7")])
def test_rows_are_the_records_with_the_snapshot_before_them(
    name: str, node: str, logs: Any
) -> None:
    directory = logs(name) / "nodes" / node / "__cluster_metadata-0"
    found, expected = rows(directory), rows_of(directory)
    assert [row[:3] for row in found] == [row[:3] for row in expected] and len(found) > 300
    middle = found[-50].offset
    assert rows(directory, middle) == found[-50:]


def test_segments_before_the_offset_are_not_read(logs: Any, tmp_path: Path) -> None:
    source = logs("p-one-segments") / "nodes" / "7" / "__cluster_metadata-0"
    directory = tmp_path / "log"
    shutil.copytree(source, directory)
    first, *_, last = sorted(directory.glob("*.log"))
    end = int(last.name[:20])
    expected = rows(directory, end)
    first.write_bytes(b"\xff" * first.stat().st_size)
    assert rows(directory, end) == expected != []


def test_damaged_places_are_rows_with_an_error(logs: Any, tmp_path: Path) -> None:
    source = logs("p-one-basic") / "nodes" / "1" / "__cluster_metadata-0"
    directory = tmp_path / "log"
    shutil.copytree(source, directory)
    [segment] = directory.glob("*.log")
    whole, data = rows(directory), bytearray(segment.read_bytes())
    batches = [one for one in iter_batches(bytes(data)) if not one.is_control]
    data[batches[len(batches) // 2].end - 2] ^= 0xFF
    segment.write_bytes(data[:-5])
    found = rows(directory)
    errors = [row for row in found if row.error is not None]
    assert len(errors) == 2 and errors[1].offset == -1
    assert all(str(segment) in (row.error or "") for row in errors)
    assert set(found) - set(errors) < set(whole)
    assert errors[0].offset in {row.offset for row in whole}


def test_batches_below_the_offset_are_not_decoded(logs: Any, tmp_path: Path) -> None:
    source = logs("p-one-basic") / "nodes" / "1" / "__cluster_metadata-0"
    directory = tmp_path / "log"
    shutil.copytree(source, directory)
    [segment] = directory.glob("*.log")
    data = bytearray(segment.read_bytes())
    batches = [*iter_batches(bytes(data))]
    since = batches[len(batches) // 2].base_offset
    expected = rows(directory, since)
    for one in batches:
        if one.base_offset < since:
            data[one.end - 2] ^= 0xFF
    segment.write_bytes(data)
    assert rows(directory, since) == expected
    file = str(segment)
    assert not [one for one in read_columns(file, since) if isinstance(one, Damage)]
    assert [one for one in read_columns(file) if isinstance(one, Damage)]


def test_log_that_starts_behind_its_snapshot_is_refused(logs: Any, tmp_path: Path) -> None:
    directory = logs("p-one-segments") / "nodes" / "7" / "__cluster_metadata-0"
    copy = tmp_path / "log"
    shutil.copytree(directory, copy, ignore=shutil.ignore_patterns("*.checkpoint"))
    with pytest.raises(ValueError, match="no snapshot that covers"):
        rows(copy)
