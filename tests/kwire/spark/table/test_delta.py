"""Delta tables beside the files: deliveries cut off anywhere and repeated give the rows of Parquet
once.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

if os.environ.get("KWIRE_INTEROP") != "require":
    pytest.importorskip("deltalake", reason="deltalake is not installed (the extra 'delta' has it)")

import pyarrow as pa
from deltalake import DeltaTable

from kwire.spark.table import delta
from kwire.spark.table.delta import Delivery, check_delta
from kwire.spark.table.fold import Fold
from kwire.spark.table.kinds import KINDS
from kwire.spark.table.rows import Folded, Row
from kwire.spark.table.store import Store, TablesError
from tests.kwire.spark.table_rows import rows_of
from tests.shared import needs_shared

Rows = dict[str, list[str]]


class Killed(BaseException):
    """An exception that no code under test catches."""


def batches_of(rows: Sequence[Row], rng: random.Random) -> list[Sequence[Row]]:
    cuts = sorted(rng.sample(range(1, len(rows)), 8))
    return [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]


def parquet_rows(path: Path, batches: Sequence[Sequence[Row]]) -> Rows:
    """Every row that was ever valid, from tables that are Parquet files."""
    store = Store(str(path), "parquet")
    fold = Fold(store.load())
    for rows in batches:
        fold.take(rows)
        store.commit(fold.state, fold.folded)
        fold.folded = Folded()
    manifest = store.manifest
    found = {
        name: store.read(file for file, _ in files).to_pylist()
        for name, files in manifest.appended.items()
        if files
    }
    for kind in KINDS:
        if files := manifest.current.get(kind.entity, {}):
            now = store.read(files.values()).drop_columns(["_record"]).to_pylist()
            ended = {"validToOffset": None, "validToTime": None}
            found[kind.table] = [*found.get(kind.table, ()), *({**row, **ended} for row in now)]
    return {name: sorted(map(repr, some)) for name, some in found.items()}


def delta_rows(path: Path) -> Rows:
    """Every row of every Delta table."""
    tables = [one for one in path.iterdir() if (one / "_delta_log").exists()]
    return {
        one.name: sorted(map(repr, pa.table(DeltaTable(str(one)).to_pyarrow_table()).to_pylist()))
        for one in tables
    }


def write(path: Path, batches: Sequence[Sequence[Row]], kill: Callable[[], None]) -> None:
    """Write every batch; a writer that is killed is followed by another one."""
    end = batches[-1][-1].offset
    while True:
        store = Store(str(path), "delta")
        fold = Fold(store.load())
        if fold.state.next_offset > end:
            Delivery(store)
            return
        try:
            delivery = Delivery(store)
            for rows in batches:
                fold.take([row for row in rows if row.offset >= fold.state.next_offset])
                if not fold.folded.load:
                    continue
                store.commit(fold.state, fold.folded)
                fold.folded = Folded()
                kill()
                delivery.deliver()
        except Killed:
            continue


@needs_shared
@pytest.mark.parametrize(("name", "node"), [("p-one-basic", "1"), ("p-abort", "1")])
def test_deliveries_cut_off_and_repeated_give_every_row_once(
    name: str, node: str, logs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(name)
    monkeypatch.setattr(delta, "_COMPACT_EVERY", 5)
    batches = batches_of(rows_of(logs(name) / "nodes" / node / "__cluster_metadata-0"), rng)
    fuse, kills = 0, 0

    def burn() -> None:
        nonlocal fuse, kills
        fuse -= 1
        if fuse == 0:
            kills += 1
            raise Killed

    def light() -> None:
        nonlocal fuse
        fuse = rng.randint(1, 5) if kills < 12 else 0
        burn()

    for method in ("_append", "_merge"):
        real = getattr(Delivery, method)

        def fused(self: Delivery, *given: Any, real: Any = real) -> None:
            burn()
            real(self, *given)
            burn()

        monkeypatch.setattr(Delivery, method, fused)
    write(tmp_path / "delta", batches, light)
    assert kills > 3
    assert delta_rows(tmp_path / "delta") == parquet_rows(tmp_path / "parquet", batches)


@needs_shared
def test_table_without_a_commit_is_made_by_the_next_writer(logs: Any, tmp_path: Path) -> None:
    """A writer that is killed in the first commit of a table leaves a log directory, and no commit
    in it.
    """
    rows = rows_of(logs("p-abort") / "nodes" / "1" / "__cluster_metadata-0")
    (tmp_path / "topics" / "_delta_log").mkdir(parents=True)
    write(tmp_path, [rows], lambda: None)
    assert delta_rows(tmp_path)["topics"]


@needs_shared
def test_tables_without_a_manifest_are_refused(logs: Any, tmp_path: Path) -> None:
    rows = rows_of(logs("p-abort") / "nodes" / "1" / "__cluster_metadata-0")
    write(tmp_path, [rows], lambda: None)
    (tmp_path / "manifest.json").unlink()
    with pytest.raises(TablesError, match=r"changes, .* are there, without a manifest"):
        Delivery(Store(str(tmp_path), "delta"))


def test_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta, "deltalake", None)
    with pytest.raises(ValueError, match=r"pip install 'kwire\[spark,delta\]'"):
        check_delta()
