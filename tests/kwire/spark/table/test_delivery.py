"""Tables of other formats beside the manifest: deliveries cut off anywhere and repeated give the
rows of Parquet once.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

if os.environ.get("KWIRE_INTEROP") != "require":
    pytest.importorskip("deltalake", reason="deltalake is not installed (the extra 'delta' has it)")
    pytest.importorskip("pyiceberg", reason="pyiceberg is not installed (the extra 'iceberg' has)")

import pyarrow as pa
from pyarrow import parquet
from pyiceberg import catalog

from kwire.spark.table import delivery, delta, iceberg
from kwire.spark.table.delivery import Delivery, check_library, tables_of
from kwire.spark.table.delta import DeltaTables
from kwire.spark.table.fold import Fold
from kwire.spark.table.iceberg import IcebergTables
from kwire.spark.table.kinds import KINDS
from kwire.spark.table.names import NAMES, columns_of
from kwire.spark.table.rows import Folded, Row
from kwire.spark.table.store import Format, Store, TablesError
from tests.kwire.spark.table_rows import rows_of
from tests.shared import needs_shared

FORMATS: list[Format] = ["delta", "iceberg"]

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


def delivered(path: Path, kept: Format) -> Rows:
    """Every row of every table, from its files."""
    tables = tables_of(Store(str(path), kept))
    found = {}
    for name in NAMES:
        if tables.is_there(name):
            columns = columns_of(name)
            parts = [_rows(parquet.read_table(file), columns) for file in tables.files(name)]
            found[name] = sorted(row for part in parts for row in part)
    return found


def _rows(table: pa.Table, columns: dict[str, Any]) -> list[str]:
    return [repr(row) for row in table.cast(pa.schema(list(columns.items()))).to_pylist()]


def write(
    path: Path, kept: Format, batches: Sequence[Sequence[Row]], kill: Callable[[], None]
) -> None:
    """Write every batch; a writer that is killed is followed by another one."""
    end = batches[-1][-1].offset
    while True:
        store = Store(str(path), kept)
        fold = Fold(store.load())
        try:
            delivery = Delivery(store)
            if fold.state.next_offset > end:
                return
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
@pytest.mark.parametrize("kept", FORMATS)
@pytest.mark.parametrize(("name", "node"), [("p-one-basic", "1"), ("p-abort", "1")])
def test_deliveries_cut_off_and_repeated_give_every_row_once(
    kept: Format, name: str, node: str, logs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(name)
    monkeypatch.setattr(delivery, "_COMPACT_EVERY", 5)
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

    tables = DeltaTables if kept == "delta" else IcebergTables
    for method in ("append", "merge", "compact"):
        real = getattr(tables, method)

        def fused(self: Any, *given: Any, real: Any = real) -> None:
            burn()
            real(self, *given)
            burn()

        monkeypatch.setattr(tables, method, fused)
    write(tmp_path / kept, kept, batches, light)
    assert kills > 3
    assert delivered(tmp_path / kept, kept) == parquet_rows(tmp_path / "parquet", batches)


@needs_shared
def test_table_without_a_commit_is_made_by_the_next_writer(logs: Any, tmp_path: Path) -> None:
    """A writer that is killed in the first commit of a table leaves a log directory, and no commit
    in it.
    """
    rows = rows_of(logs("p-abort") / "nodes" / "1" / "__cluster_metadata-0")
    (tmp_path / "topics" / "_delta_log").mkdir(parents=True)
    write(tmp_path, "delta", [rows], lambda: None)
    assert delivered(tmp_path, "delta")["topics"]


@needs_shared
@pytest.mark.parametrize("kept", FORMATS)
def test_tables_without_a_manifest_are_refused(kept: Format, logs: Any, tmp_path: Path) -> None:
    rows = rows_of(logs("p-abort") / "nodes" / "1" / "__cluster_metadata-0")
    write(tmp_path, kept, [rows], lambda: None)
    (tmp_path / "manifest.json").unlink()
    with pytest.raises(TablesError, match=r"changes, .* are there, without a manifest"):
        Delivery(Store(str(tmp_path), kept))


@needs_shared
def test_old_files_of_iceberg_go_and_the_rows_stay(
    logs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "_COMPACT_EVERY", 3)
    rows = rows_of(logs("p-one-basic") / "nodes" / "1" / "__cluster_metadata-0")
    batches = batches_of(rows, random.Random("old"))
    write(tmp_path / "kept", "iceberg", batches, lambda: None)
    monkeypatch.setattr(iceberg, "_KEEP", timedelta(0))
    write(tmp_path / "swept", "iceberg", batches, lambda: None)
    assert delivered(tmp_path / "swept", "iceberg") == delivered(tmp_path / "kept", "iceberg")
    kept, swept = (
        len(list((tmp_path / name / "partitions").rglob("*.*"))) for name in ("kept", "swept")
    )
    assert swept < kept / 2


@pytest.fixture
def users_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of the catalog that pyiceberg is configured to use."""
    address = f"sqlite:///{tmp_path}/all.db"
    monkeypatch.setenv("PYICEBERG_CATALOG__KWIRE__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__KWIRE__URI", address)
    return address


@needs_shared
@pytest.mark.usefixtures("users_catalog")
def test_catalog_of_the_user_is_taken_and_another_directory_of_the_name_refused(
    logs: Any, tmp_path: Path
) -> None:
    rows = rows_of(logs("p-abort") / "nodes" / "1" / "__cluster_metadata-0")
    write(tmp_path / "one" / "tables", "iceberg", [rows], lambda: None)
    assert delivered(tmp_path / "one" / "tables", "iceberg")["topics"]
    assert not (tmp_path / "one" / "tables" / "iceberg.db").exists()
    with pytest.raises(TablesError, match="give the directory another name"):
        write(tmp_path / "two" / "tables", "iceberg", [rows], lambda: None)


@needs_shared
def test_lists_of_clusters_share_the_catalog_of_the_user(
    logs: Any, tmp_path: Path, users_catalog: str
) -> None:
    """Clusters of the same name are told apart by the directory of the list."""
    rows = rows_of(logs("p-abort") / "nodes" / "1" / "__cluster_metadata-0")
    paths = [tmp_path / "a" / "cluster_id=eu", tmp_path / "b" / "cluster_id=eu"]
    for path in paths:
        write(path, "iceberg", [rows], lambda: None)
    one, other = (delivered(path, "iceberg") for path in paths)
    assert one["topics"] and one == other
    found = catalog.load_catalog("kwire", type="sql", uri=users_catalog)
    assert sorted(found.list_namespaces()) == [("a_eu",), ("b_eu",)]


def test_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta, "deltalake", None)
    with pytest.raises(ValueError, match=r"pip install 'kwire\[spark,delta\]'"):
        check_library("delta")
    monkeypatch.setattr(iceberg, "catalogs", None)
    with pytest.raises(ValueError, match=r"pip install 'kwire\[spark,iceberg\]'"):
        check_library("iceberg")
