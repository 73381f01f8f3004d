"""Tables of several clusters on a standalone Spark cluster of a master and two workers, which
have kwire from the zip file that is shipped to them: whatever is killed, the rows are the same.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

if os.environ.get("KWIRE_INTEROP") != "require":
    pytest.importorskip("pyspark", reason="PySpark is not installed (the extra 'spark' has it)")
    pytest.importorskip("deltalake", reason="deltalake is not installed (the extra 'delta' has it)")

import deltalake

from kwire.spark.table.builder import Builder
from kwire.spark.table.conditions import Conditions
from kwire.spark.table.kinds import KINDS
from kwire.spark.table.places import cluster_path, clusters_at
from kwire.spark.table.store import Store
from tests.interop.conftest import FIGURES
from tests.interop.test_logs import copied
from tests.shared import needs_shared
from tests.waiting import PATIENCE_S, until
from tools.gateway_process import gateway
from tools.spark_standalone import ROOT, Daemon, Standalone, settings, standalone

pytestmark = [needs_shared, pytest.mark.timeout(1200)]

#: Each of an executor, a worker and the driver is killed so often.
KILLS: Final = int(os.environ.get("KWIRE_SPARK_CLUSTER_KILLS", "4"))
LOGS: Final = {"basic": ("p-one-basic", "nodes/1"), "quorum": ("p-quorum", "nodes/2")}
_OFFSETS: Final = 3
_DRIVER: Final = """
import json, sys
from pyspark.sql import SparkSession
from kwire.spark import follow
import kwire
given = json.loads(sys.argv[1])
spark = SparkSession.builder.getOrCreate()
assert "kwire.zip" in kwire.__file__, kwire.__file__
if given["first"]:
    def where(_):
        import os, kwire
        return os.path.abspath(kwire.__file__)
    [path] = spark.sparkContext.parallelize([0], 1).map(where).collect()
    assert "kwire.zip" in path and "/work-" in path, path
for format, path in given["paths"].items():
    follow(
        spark,
        given["sources"],
        path,
        format=format,
        trigger={"processingTime": "0 seconds"},
        max_offsets_per_trigger=given["offsets"],
    )
print("begin", flush=True)
spark.streams.awaitAnyTermination()
"""


def rows_at(root: str) -> dict[str, list[str]]:
    """Every row of every table of all clusters, with the history, read without Spark."""
    found: dict[str, list[str]] = {}
    for name in clusters_at(root):
        store = Store(cluster_path(root, name))
        for table in ("changes", "errors", *(kind.table for kind in KINDS)):
            rows = rows_of(store, table)
            found.setdefault(table, []).extend(f"{name} {text(row)}" for row in rows)
        load = Counter[tuple[str, str]]()
        for row in rows_of(store, "load"):
            load[str(row["minute"]), row["type"]] += row["records"]
        found.setdefault("load", []).extend(f"{name} {one}" for one in load.items())
    return {table: sorted(rows) for table, rows in found.items()}


def rows_of(store: Store, table: str) -> list[dict[str, Any]]:
    if store.manifest.kept == "delta":
        path = f"{store.root}/{table}"
        if not Path(path, "_delta_log").is_dir():
            return []
        return list(deltalake.DeltaTable(path).to_pyarrow_table().to_pylist())
    entity = next((kind.entity for kind in KINDS if kind.table == table), "")
    files = [file for file, _ in store.manifest.appended.get(table, [])]
    files += store.manifest.current.get(entity, {}).values()
    return [row for file in files for row in store.read([file]).to_pylist()]


def text(row: dict[str, Any]) -> str:
    """The columns that have a value; times and maps in one form."""
    shown = {
        name: sorted(value) if isinstance(value, list) and _is_map(value) else value
        for name, value in row.items()
        if name != "_record" and value is not None
    }
    return json.dumps(shown, sort_keys=True, default=str)


def _is_map(value: list[Any]) -> bool:
    """True for the pairs of a map, which have no order."""
    return all(isinstance(one, tuple) for one in value)


class Run:
    """Sources, the roots of tables in both formats, and the drivers of one test."""

    def __init__(self, cluster: Standalone, sources: dict[str, str], into: Path) -> None:
        self.cluster, self.sources = cluster, sources
        self.paths = {format: str(into / format) for format in ("parquet", "delta")}
        self.script = into / "driver.py"
        self.script.write_text(_DRIVER)
        self.driver: Daemon | None = None

    def start(self, offsets: int = _OFFSETS) -> None:
        given = {
            "paths": self.paths,
            "sources": self.sources,
            "offsets": offsets,
            "first": self.driver is None,
        }
        # A loss counts against the task that it hits, and ten of them can hit one.
        conf = {**settings(), "spark.task.maxFailures": "40"}
        self.driver = self.cluster.submit(self.script, json.dumps(given), conf=conf, pandas=False)

    def kill_driver(self) -> None:
        assert self.driver is not None
        self.driver.kill(group=True)

    def offsets(self) -> list[int]:
        """The next offset of each cluster in each format."""
        return [
            Store(cluster_path(path, name)).manifest.next_offset
            for path in self.paths.values()
            for name in self.sources
        ]

    def run_until(self, true: Callable[[], bool], what: str) -> None:
        """Return when ``true``. Fails where the driver ends first."""

        def reached() -> bool:
            assert self.driver is not None and self.driver.process is not None
            if self.driver.process.poll() is not None:
                said = self.driver.output.read_text(errors="replace")[-5000:]
                pytest.fail(f"{what}: the driver has ended at {self.offsets()}\n{said}")
            return true()

        until(reached, what)

    def wait_for_commits(self, rng: random.Random) -> None:
        """Return at a random moment after each format has committed again."""
        before = self.offsets()
        half = len(before) // 2
        self.run_until(
            lambda: all(
                current != previous
                for current, previous in zip(
                    _halves(self.offsets(), half), _halves(before, half), strict=True
                )
            ),
            "a commit in each format",
        )
        time.sleep(rng.random() * 0.5)


def _halves(values: list[int], half: int) -> Iterable[int]:
    return sum(values[:half]), sum(values[half:])


def test_rows_are_the_same_after_kills_of_driver_executors_and_workers(
    logs: Any, tmp_path: Path
) -> None:
    """The undisturbed tables are made by the program of the page, with its command."""
    rng = random.Random("kill -9 on a cluster")
    with ExitStack() as stack:
        sources, ends = {}, []
        for name, (log, node) in LOGS.items():
            found, directory = copied(logs(log), node, tmp_path / name)
            server = stack.enter_context(gateway("--source", "log", "--log-dir", str(directory)))
            sources[name] = server.bootstrap
            ends.append(found.end_offset)
        cluster = stack.enter_context(standalone(tmp_path))
        expected = undisturbed(cluster, sources, tmp_path / "expected")
        run = Run(cluster, sources, tmp_path)
        kills = Counter[str]()
        run.start()
        for number in range(1, KILLS + 1):
            run.wait_for_commits(rng)
            kill_executor(cluster, rng, kills)
            run.wait_for_commits(rng)
            kill_worker(cluster, rng, kills)
            run.wait_for_commits(rng)
            run.kill_driver()
            kills["driver"] += 1
            assert max(run.offsets()) < max(ends) - 10, "killed when it was done"
            run.start(_OFFSETS if number < KILLS else 1000)
        run.run_until(
            lambda: all(
                at >= end - 3 for at, end in zip(run.offsets(), [*ends, *ends], strict=True)
            ),
            "the ends of the logs",
        )
        run.kill_driver()
        for name in sources:  # a writer that is killed leaves the rows of its commit to the next
            Builder(cluster_path(run.paths["delta"], name), "delta")
        FIGURES.append(f"standalone cluster: kills {dict(kills)}")
        assert kills == {"executor": KILLS, "worker": KILLS, "driver": KILLS}
        for format, path in run.paths.items():
            found_rows = rows_at(path)
            assert found_rows.keys() == expected.keys()
            for table, rows in expected.items():
                assert found_rows[table] == rows, (format, table)
            assert [row for row in Conditions.read(path).rows if row["type"] == "REPLACED"] == []


def undisturbed(cluster: Standalone, sources: dict[str, str], root: Path) -> dict[str, list[str]]:
    given = [f"{name}={address}" for name, address in sources.items()]
    script = ROOT / "docs" / "examples" / "spark_clusters.py"
    driver = cluster.submit(script, str(root), *given, conf=settings())
    assert driver.process is not None
    status = driver.process.wait(10 * PATIENCE_S)
    said = driver.output.read_text(errors="replace")
    assert status == 0 and all(name in said for name in sources), said[-5000:]
    found = rows_at(str(root))
    assert len(found["changes"]) > 2000 and found["errors"] == []
    return found


def kill_executor(cluster: Standalone, rng: random.Random, kills: Counter[str]) -> None:
    pids = cluster.executors()
    assert pids, "no executor lives"
    os.kill(rng.choice(pids), signal.SIGKILL)
    kills["executor"] += 1


def kill_worker(cluster: Standalone, rng: random.Random, kills: Counter[str]) -> None:
    """Kill a worker, whose executors end with it, and start it again."""
    worker = rng.choice(cluster.workers)
    worker.kill(group=False)
    kills["worker"] += 1
    worker.start()
