"""A log that is folded in pieces gives the tables of a single fold, row for row; a piece that fails
changes nothing.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

if os.environ.get("KWIRE_INTEROP") != "require":
    pytest.importorskip("pyspark", reason="the spark extra is not installed")

from kwire.cluster import FoldError
from kwire.records.header import iter_batches
from kwire.spark.table import builder as building
from kwire.spark.table import pieces
from kwire.spark.table.builder import Builder
from kwire.spark.table.directory import directory_rows
from kwire.spark.table.log import DirectoryLog
from kwire.spark.table.pieces import Files, Pieces, cuts, fold_piece
from kwire.spark.table.store import Store, TablesError
from tests.shared import needs_shared

pytestmark = needs_shared
#: Nodes of all logs, and how often each is cut.
LOGS = [
    *[(name, "1", 3) for name in ("p-abort", "p-old", "p-one-basic", "p-upgrade")],
    ("p-one-segments", "7", 3),
    *[(name, node, 2) for name in ("p-quorum", "p-quorum-short") for node in ("1", "101", "4")],
    ("p-large", "1", 1),
]


class InThisProcess:
    """In place of ``Pieces``, which starts processes."""

    def __init__(
        self,
        directory: str,
        since: int,
        offsets: Sequence[int],
        path: str,
        *,
        fail_fast: bool,
    ) -> None:
        ends = [since, *offsets]
        self._files = [
            file
            for begin, end in zip(ends, offsets, strict=False)
            for file in fold_piece(directory, since, begin, end, path, fail_fast)
        ]

    def files(self) -> Files:
        return self._files

    def __enter__(self) -> InThisProcess:
        return self

    def __exit__(self, *error: object) -> None:
        pass


def contents(path: Path) -> dict[str, Any]:
    """The rows of all files, by table; ``load`` in sums."""
    store = Store(str(path))
    files = {name: [f for f, _ in some] for name, some in store.manifest.appended.items()}
    found: dict[str, Any] = {name: store.read(some) for name, some in files.items()}
    for kind, layers in store.manifest.current.items():
        found[f"{kind} now"] = store.read([layer.file for layer in layers])
    sums: dict[Any, Any] = {}
    for row in found.pop("load").to_pylist():
        sums.setdefault((row["minute"], row["type"]), []).append((row["records"], row["bytes"]))
    found["load"] = {key: [*map(sum, zip(*some, strict=True))] for key, some in sums.items()}
    found["state"] = store.manifest.next_offset, store.manifest.last_time
    found["held"] = store.read([store.manifest.held]).to_pylist() if store.manifest.held else []
    return found


def cut_at(monkeypatch: pytest.MonkeyPatch, offsets: Sequence[int]) -> None:
    monkeypatch.setattr(building, "cuts", lambda *_: [*offsets])


def offsets_of(directory: Path, since: int = 0) -> list[int]:
    return [row.offset for rows in directory_rows(str(directory), since) for row in rows]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "Pieces", InThisProcess)


@pytest.mark.parametrize(("name", "node", "times"), LOGS)
def test_pieces_of_a_log_give_the_tables_of_one_fold(
    name: str,
    node: str,
    times: int,
    logs: Any,
    tmp_path: Path,
    here: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    directory = logs(name) / "nodes" / node / "__cluster_metadata-0"
    Builder(str(tmp_path / "one")).bring(DirectoryLog(str(directory)))
    expected, places = contents(tmp_path / "one"), offsets_of(directory)
    rng = random.Random(name + node)
    for n in range(times):
        offsets = sorted(rng.sample(range(places[0] + 1, places[-1] + 2), rng.randint(1, 3)))
        cut_at(monkeypatch, offsets)
        Builder(str(tmp_path / f"{n}")).bring(DirectoryLog(str(directory)), processes=4)
        assert contents(tmp_path / f"{n}") == expected, offsets


def test_pieces_behind_tables_that_are_there_give_those_of_one_fold(
    logs: Any, tmp_path: Path, here: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = logs("p-one-basic") / "nodes" / "1" / "__cluster_metadata-0"
    rows = [row for some in directory_rows(str(directory)) for row in some]
    for name in ("one", "two"):
        Builder(str(tmp_path / name)).take([rows[:400]])
    Builder(str(tmp_path / "one")).bring(DirectoryLog(str(directory)))
    cut_at(monkeypatch, [rows[700].offset, rows[900].offset])
    Builder(str(tmp_path / "two")).bring(DirectoryLog(str(directory)), processes=3)
    assert contents(tmp_path / "two") == contents(tmp_path / "one")


def test_pieces_of_a_damaged_log_give_the_errors_of_one_fold(
    logs: Any, tmp_path: Path, here: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "log"
    shutil.copytree(logs("p-one-basic") / "nodes" / "1" / "__cluster_metadata-0", directory)
    [segment] = directory.glob("*.log")
    data = bytearray(segment.read_bytes())
    batches = [one for one in iter_batches(bytes(data)) if not one.is_control]
    for n in (1, 2):
        data[batches[len(batches) * n // 3].end - 2] ^= 0xFF
    segment.write_bytes(data[:-5])
    Builder(str(tmp_path / "one")).bring(DirectoryLog(str(directory)))
    cut_at(monkeypatch, [batches[len(batches) // 2].base_offset])
    Builder(str(tmp_path / "two")).bring(DirectoryLog(str(directory)), processes=2)
    expected = contents(tmp_path / "one")
    assert len(expected["errors"]) > 2 and contents(tmp_path / "two") == expected
    with pytest.raises(FoldError, match="offset"):
        Builder(str(tmp_path / "three"), fail_fast=True).bring(
            DirectoryLog(str(directory)), processes=2
        )


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "_BYTES_MIN", 10_000)


def test_other_processes_fold_the_earlier_pieces(logs: Any, tmp_path: Path, small: None) -> None:
    directory = str(logs("p-one-basic") / "nodes" / "1" / "__cluster_metadata-0")
    assert len(cuts(directory, 0, 3)) == 2
    Builder(str(tmp_path / "one")).bring(DirectoryLog(directory))
    Builder(str(tmp_path / "two")).bring(DirectoryLog(directory), processes=3)
    assert contents(tmp_path / "two") == contents(tmp_path / "one")


def test_process_that_fails_leaves_the_tables_as_they_were(
    logs: Any, tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = str(logs("p-one-basic") / "nodes" / "1" / "__cluster_metadata-0")
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(TablesError, match="run it again"):
        Builder(str(tmp_path)).bring(DirectoryLog(directory), processes=2)
    monkeypatch.undo()
    assert Store(str(tmp_path)).manifest.commit == 0
    Builder(str(tmp_path)).bring(DirectoryLog(directory))
    assert len(contents(tmp_path)["changes"]) > 500
    assert {f.name for f in (tmp_path / "data").iterdir()} == {
        os.path.basename(file) for file in Store(str(tmp_path)).manifest.files()
    }


def test_processes_end_with_their_context(logs: Any, tmp_path: Path) -> None:
    directory = str(logs("p-one-basic") / "nodes" / "1" / "__cluster_metadata-0")
    with Pieces(directory, 0, [100], str(tmp_path), fail_fast=False) as running:
        [process] = running._running
        assert process.poll() is None
    assert process.returncode is not None


def test_cuts_are_beginnings_of_batches_and_need_a_long_log(
    logs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = logs("p-one-segments") / "nodes" / "7" / "__cluster_metadata-0"
    found = cuts(str(directory), 0, 4)
    batches = {
        one.base_offset
        for file in directory.glob("*.log")
        for one in iter_batches(file.read_bytes())
    }
    assert found == [], "the log is short"
    monkeypatch.setattr(pieces, "_BYTES_MIN", 1000)
    found = cuts(str(directory), 0, 4)
    assert found == sorted(set(found)) and set(found) < batches and len(found) == 3
    assert cuts(str(directory), 1 << 40, 4) == [] == cuts(str(directory), 0, 1)
    assert pieces.processes() >= 1
