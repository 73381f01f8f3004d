"""The files behind the tables: cut off anywhere and taken up again they hold the same; readers keep
what they read.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

if os.environ.get("KWIRE_INTEROP") != "require":
    pytest.importorskip("pyarrow", reason="pyarrow is not installed (the extra 'spark' has it)")

import pyarrow as pa
import pyarrow.parquet as pq

from kwire.spark.table import layers, tiers
from kwire.spark.table import store as tables_store
from kwire.spark.table.arrow import RECORD
from kwire.spark.table.fold import Fold
from kwire.spark.table.layers import MARKS, living
from kwire.spark.table.rows import Folded, Row
from kwire.spark.table.store import Store, TablesError
from tests.kwire.spark.table_rows import rows_of
from tests.shared import needs_shared


def held_by(store: Store) -> dict[str, list[str]]:
    """Every row of every table, as text, in no order; the minutes of ``load`` added up."""
    manifest = store.manifest
    files = {name: [file for file, _ in appended] for name, appended in manifest.appended.items()}
    found = {name: pa.concat_tables(map(store._read, some)) for name, some in files.items() if some}
    for entity, some in manifest.current.items():
        if some:
            found[f"{entity} now"] = living(store._read(layer.file) for layer in some)
    if "load" in found:
        found["load"] = (
            found["load"]
            .group_by(["minute", "type"])
            .aggregate([("records", "sum"), ("bytes", "sum")])
        )
    return {name: sorted(map(repr, table.to_pylist())) for name, table in found.items()}


def built(path: Path, rows: list[Row]) -> Store:
    store = Store(str(path))
    fold = Fold(store.load())
    fold.take(rows)
    store.commit(fold.state, fold.folded)
    return store


class Killed(BaseException):
    """An exception that no code under test catches."""


@needs_shared
@pytest.mark.parametrize(
    ("name", "node", "small"),
    [("p-one-basic", "1", 0), ("p-abort", "1", 0), ("p-quorum-short", "101", layers.SMALL)],
)
def test_cut_off_at_random_writes_the_tables_are_the_same(
    name: str, node: str, small: int, logs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In layers, and written whole each time."""
    monkeypatch.setattr(layers, "SMALL", small)
    monkeypatch.setattr(tiers, "FANOUT", 3)
    rng = random.Random(name)
    rows = rows_of(logs(name) / "nodes" / node / "__cluster_metadata-0")
    expected = held_by(built(tmp_path / "whole", rows))
    write = Store._write
    fuse = 0

    def fused(store: Store, file: str, table: pa.Table) -> None:
        nonlocal fuse
        fuse -= 1
        if fuse == 0:
            (tmp_path / "cut" / file).write_bytes(b"PAR1 half a file")
            raise Killed
        write(store, file, table)

    monkeypatch.setattr(Store, "_write", fused)
    done, kills = 0, 0
    store = Store(str(tmp_path / "cut"))
    fold = Fold(store.load())
    while done < len(rows):
        until = min(len(rows), done + rng.randint(1, len(rows) // 12))
        fuse = rng.randint(1, 20) if kills < 12 else 0
        try:
            fold.take(rows[max(0, done - 3) : until])
            store.commit(fold.state, fold.folded)
        except Killed:
            kills += 1
            store = Store(str(tmp_path / "cut"))
            fold = Fold(store.load())
        else:
            fold.folded, done = Folded(), until
    assert kills > 3
    assert held_by(Store(str(tmp_path / "cut"))) == expected
    on_disk = {f"data/{path.name}" for path in (tmp_path / "cut" / "data").iterdir()}
    assert on_disk == store.manifest.files()


@needs_shared
def test_files_are_merged_and_the_old_ones_stay_for_their_readers(
    logs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = rows_of(logs("p-one-basic") / "nodes" / "1" / "__cluster_metadata-0")
    store = Store(str(tmp_path))
    fold = Fold(store.load())
    seen: list[set[str]] = []
    for n in range(0, len(rows), 20):
        fold.take(rows[n : n + 20])
        store.commit(fold.state, fold.folded)
        fold.folded = Folded()
        seen.append(store.manifest.files())
    assert len(store.manifest.appended["changes"]) < 16 < len(seen)
    assert set.union(*seen) == store.manifest.files()
    assert (
        sum(
            pq.read_metadata(tmp_path / file).num_rows
            for file, _ in store.manifest.appended["changes"]
        )
        > 900
    )
    monkeypatch.setattr(tables_store, "_KEEP_S", -1)
    store.commit(fold.state, Folded())
    monkeypatch.setattr(tables_store, "_KEEP_S", 600)
    assert not store.manifest.replaced
    assert {f"data/{path.name}" for path in (tmp_path / "data").iterdir()} == store.manifest.files()


def test_two_writers_are_refused(tmp_path: Path) -> None:
    first, second = Store(str(tmp_path)), Store(str(tmp_path))
    state = first.load()
    first.commit(state, Folded())
    with pytest.raises(TablesError, match="another writer uses these tables"):
        second.commit(state, Folded())


@pytest.mark.parametrize(
    "text", ["", "{}", '{"format": 3}', '{"format": 2, "colour": "red"}', "[1]"]
)
def test_a_manifest_that_is_none_is_a_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(
        TablesError, match=r"manifest.json cannot be read: .*; build the tables anew"
    ):
        Store(str(tmp_path))


def test_delta_tables_of_an_earlier_release_are_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"format": 1, "commit": 3, "kept": "delta"}')
    with pytest.raises(TablesError, match="of Delta tables, which are kept by kwire spark fleet"):
        Store(str(tmp_path))


@needs_shared
def test_tables_of_an_earlier_release_are_taken_over(logs: Any, tmp_path: Path) -> None:
    rows = rows_of(logs("p-one-basic") / "nodes" / "1" / "__cluster_metadata-0")
    built(tmp_path / "old", rows[:500])
    manifest = tmp_path / "old" / "manifest.json"
    known = json.loads(manifest.read_text())
    for name in ("cluster", "last_time", "token"):
        del known[name]
    buckets = {
        kind: {str(n): one[0] for n, one in enumerate(some)}
        for kind, some in known["current"].items()
    }
    for some in known["current"].values():
        for file, *_ in some:
            rows_now = pq.read_table(tmp_path / "old" / file)
            pq.write_table(rows_now.drop_columns(list(MARKS)), tmp_path / "old" / file)
    known |= {"format": 1, "kept": "parquet", "outbox": {"id": "", "since": 0, "dirty": {}}}
    known["current"] = buckets
    manifest.write_text(json.dumps(known))
    built(tmp_path / "new", rows[:500])
    assert held_by(built(tmp_path / "old", rows)) == held_by(built(tmp_path / "new", rows))


def older(table: pa.Table) -> pa.Table:
    """The rows of brokers as a kwire wrote them that knew fewer columns and members of structs."""
    listeners = [
        [{name: one[name] for name in ("listenerName", "host")} for one in of_row or ()]
        for of_row in table.column("listeners").to_pylist()
    ]
    fields = pa.struct([("listenerName", pa.string()), ("host", pa.string())])
    at = table.column_names.index("listeners")
    fewer = table.set_column(at, "listeners", pa.array(listeners, pa.list_(fields)))
    return fewer.drop_columns(["rack"])


@needs_shared
def test_files_that_lack_columns_and_members_of_structs_are_gone_on_with(
    logs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of both kinds are merged, and what the older ones lack is null."""
    monkeypatch.setattr(layers, "SMALL", 0)
    monkeypatch.setattr(tiers, "FANOUT", 2)
    rows = rows_of(logs("p-one-basic") / "nodes" / "1" / "__cluster_metadata-0")
    store = built(tmp_path, rows[: len(rows) // 2])
    files = [file for file, _ in store.manifest.appended["brokers"]]
    files += [layer.file for layer in store.manifest.current["broker"]]
    for file in files:
        pq.write_table(older(store._read(file)), tmp_path / file)
    rest = rows[len(rows) // 2 :]
    for n in range(0, len(rest), 250):
        built(tmp_path, rest[n : n + 250])
    manifest = Store(str(tmp_path)).manifest
    tables = [store._read(file) for file, _ in manifest.appended["brokers"]]
    ports = [
        [one["port"] for one in of_row or ()]
        for table in tables
        for of_row in table.column("listeners").to_pylist()
    ]
    assert any(None in of_row for of_row in ports) and any(None not in of_row for of_row in ports)
    assert len(tables) < len(ports)


@needs_shared
def test_no_secret_is_in_the_files(logs: Any, tmp_path: Path) -> None:
    store = built(tmp_path, rows_of(logs("p-one-basic") / "nodes" / "1" / "__cluster_metadata-0"))
    users = store._read(store.manifest.current["user"][0].file)
    values = users.column(RECORD).to_pylist()
    assert values and all(value.count(b"(redacted)") == 3 for value in values)
