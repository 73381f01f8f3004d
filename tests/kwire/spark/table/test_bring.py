"""One task of the tables of several clusters: it continues, or says what is wrong."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

if os.environ.get("KWIRE_INTEROP") != "require":
    pytest.importorskip("pyarrow", reason="pyarrow is not installed (the extra 'spark' has it)")

from kwire.spark.table import bring as module
from kwire.spark.table.bring import Task, bring
from kwire.spark.table.places import clusters_at
from kwire.spark.table.sources import Source
from kwire.spark.table.store import Store
from tests.shared import needs_shared

pytestmark = needs_shared
CLUSTER = "7QN8irUjSqO4QGNDS7ESyw"


@pytest.fixture(autouse=True)
def _no_folds() -> None:
    module._FOLDED.clear()


def copied(logs: Any, name: str, node: int, into: Path) -> Path:
    return Path(shutil.copytree(logs(name) / "nodes" / str(node), into))


def task(source: Path | str, root: Path, name: str | None = None) -> Task:
    where = {"path": str(source)} if isinstance(source, Path) else {"bootstrap.servers": source}
    return Task(Source(name, where), str(root))


def test_task_that_runs_again_adds_nothing(logs: Any, tmp_path: Path) -> None:
    log, root = copied(logs, "p-one-basic", 1, tmp_path / "log"), tmp_path / "root"
    first = bring(task(log, root))
    assert (first.cluster_id, first.condition) == (CLUSTER, None) and first.next_offset > 900
    store = Store(str(root / f"cluster_id={CLUSTER}"))
    assert (store.manifest.commit, store.manifest.cluster) == (1, CLUSTER)
    assert bring(task(log, root)) == first
    module._FOLDED.clear()
    assert bring(task(log, root)) == first
    assert store.is_current() and clusters_at(str(root)) == [CLUSTER]


def test_fold_of_the_worker_is_loaded_anew_after_another_writer(logs: Any, tmp_path: Path) -> None:
    log, root = copied(logs, "p-one-basic", 1, tmp_path / "log"), tmp_path / "root"
    [segment] = (log / "__cluster_metadata-0").glob("*.log")
    whole = segment.read_bytes()
    segment.write_bytes(whole[: len(whole) // 2])
    half = bring(task(log, root, "one"))
    [kept] = module._FOLDED.values()
    segment.write_bytes(whole)
    module._FOLDED.clear()
    end = bring(task(log, root, "one"))
    module._FOLDED.clear()
    module._FOLDED[str(root / "cluster_id=one")] = kept
    assert half.next_offset < end.next_offset
    assert bring(task(log, root, "one")).next_offset == end.next_offset
    store = Store(str(root / "cluster_id=one"))
    changes = store.read(file for file, _ in store.manifest.appended["changes"])
    pairs = [*zip(changes["offset"].to_pylist(), changes["n"].to_pylist(), strict=True)]
    assert len(pairs) == len(set(pairs)) > 900


def test_condition_says_what_is_wrong_with_a_source(logs: Any, tmp_path: Path) -> None:
    log, root = copied(logs, "p-one-basic", 1, tmp_path / "log"), tmp_path / "root"
    other = copied(logs, "p-one-segments", 7, tmp_path / "other")

    def said(source: Path | str, name: str | None = None) -> tuple[str, str]:
        return bring(task(source, root, name)).condition or ("", "")

    assert said(log, "one") == ("", "")
    kind, text = said(other, "one")
    assert kind == "REPLACED" and f"tables of cluster {CLUSTER}" in text
    (other / "meta.properties").unlink()
    kind, text = said(other, "one")
    assert kind == "REPLACED" and "it is another log" in text
    kind, text = said(other)
    assert kind == "FAILED" and "give the source a name" in text
    assert said(tmp_path / "nowhere")[0] == "UNREACHABLE"
    kind, text = said("127.0.0.1:1")
    assert kind == "UNREACHABLE" and "127.0.0.1:1" in text


def test_other_log_of_the_same_cluster_id_is_not_added(logs: Any, tmp_path: Path) -> None:
    """Clusters that were copied, or formatted with an id of an example, share it."""
    log, root = copied(logs, "p-one-basic", 1, tmp_path / "log"), tmp_path / "root"
    other = copied(logs, "p-quorum", 2, tmp_path / "other")
    shutil.copy(log / "meta.properties", other)
    end = bring(task(log, root)).next_offset
    kind, text = bring(task(other, root)).condition or ("", "")
    assert kind == "REPLACED" and f"record at offset {end - 1}" in text
    assert Store(str(root / f"cluster_id={CLUSTER}")).manifest.next_offset == end
