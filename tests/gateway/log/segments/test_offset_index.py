"""Kafka's offset index as a hint: right where it can be, and never believed where it is wrong."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from gateway.log.reading.log_cursor import LogCursor
from gateway.log.segments.offset_index import find_entry
from kwire.metadata_log.open_file import OpenFile
from kwire.metadata_log.reader import read_log_file
from tests.shared import needs_shared

NAME = "00000000000000000000"


def index_file(path: Path, *entries: tuple[int, int], zeros: int = 0) -> str:
    path.write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries) + b"\0" * zeros)
    return str(path)


def test_the_last_entry_before_an_offset(tmp_path: Path) -> None:
    path = index_file(tmp_path / "i", (10, 5000), (20, 10_000), (30, 15_000), zeros=8 * 1000 + 3)
    found = [find_entry(path, 100, offset) for offset in (0, 110, 111, 120, 121, 131, 10**9)]
    assert found == [
        None,
        None,
        (110, 5000),
        (110, 5000),
        (120, 10_000),
        (130, 15_000),
        (130, 15_000),
    ]


def test_a_file_that_says_nothing(tmp_path: Path) -> None:
    assert find_entry(str(tmp_path / "none"), 0, 5) is None
    assert find_entry(str(tmp_path), 0, 5) is None
    assert find_entry(index_file(tmp_path / "i"), 0, 5) is None
    assert find_entry(index_file(tmp_path / "i", zeros=80), 0, 5) is None


@needs_shared
def test_a_cursor_begins_near_its_offset_in_a_log_of_kafka(
    logs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same batches with the index, without it, and with one that lies; with it hardly more is
    read than given out.
    """
    source: Path = logs("p-large") / "nodes" / "1" / "__cluster_metadata-0"
    os.link(source / f"{NAME}.log", tmp_path / f"{NAME}.log")
    headers = [header for header, _ in read_log_file(source / f"{NAME}.log")]
    wanted = headers[-20].base_offset
    read: list[int] = []
    real = OpenFile.read

    def counting(self: OpenFile, position: int, length: int) -> bytes:
        read.append(length)
        return real(self, position, length)

    monkeypatch.setattr(OpenFile, "read", counting)

    def first(what: str) -> tuple[int, int]:
        read.clear()
        ((header, _), *_) = LogCursor(str(tmp_path), wanted).read(wanted + 10**6, 4096)
        assert header.base_offset == wanted, what
        return sum(read), len(read)

    without, _ = first("no index")
    shutil.copy(source / f"{NAME}.index", tmp_path)
    with_index, _ = first("Kafka's index")
    assert without > 5_000_000 and with_index < 2_500_000
    index_file(tmp_path / f"{NAME}.index", (5, 5000), (wanted - 1, 9_000), zeros=800)
    assert first("an index that lies")[0] > 5_000_000
    index_file(tmp_path / f"{NAME}.index", (wanted - 1, headers[500].position))
    assert first("an index of another batch")[0] > 5_000_000
    index_file(tmp_path / f"{NAME}.index", (wanted - 1, 2_000_000_000))
    assert first("an index beyond the end")[0] > 5_000_000
