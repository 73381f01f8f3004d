"""Tables of several clusters in a Spark session: in one job, each beside the others."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

if os.environ.get("KWIRE_INTEROP") != "require":
    pytest.importorskip("pyspark", reason="PySpark is not installed (the extra 'spark' has it)")

from gateway.cli import main
from kwire.spark import follow, read_table, tables
from kwire.spark.jobs import JOBS
from kwire.spark.table.build import TABLES, TablesError
from kwire.spark.table.conditions import Conditions
from kwire.spark.table.directory import cluster_of
from kwire.spark.table.kinds import KINDS
from kwire.spark.table.places import cluster_path, clusters_at
from kwire.spark.table.store import Store
from tests.interop.conftest import FIGURES
from tests.interop.quorum import offsets_of
from tests.kwire.spark.session import spark_session
from tests.shared import needs_shared
from tests.speed import note
from tests.waiting import PATIENCE_S, until
from tools.bench.spark_delivery import topics_of
from tools.gateway_process import Gateway, launch, wait_until_ready
from tools.own_clusters import own_clusters
from tools.process import Process, lasting_ports

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = needs_shared


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return spark_session(kafka=False)


def rows(df: DataFrame) -> list[str]:
    return sorted(map(repr, df.collect()))


def test_list_of_sources_gives_the_tables_of_each(
    spark: SparkSession, logs: Any, tmp_path: Path
) -> None:
    """Every table has the rows that the sources give alone; those that fail are in ``errors``."""
    root, alone = str(tmp_path / "root"), {}
    sources = {
        "one": logs("p-one-basic") / "nodes" / "1",
        "seven": logs("p-one-segments") / "nodes" / "7",
    }
    given: dict[str, Any] = {name: str(path) for name, path in sources.items()}
    every: dict[str, Any] = {**given, "down": "127.0.0.1:1", "gone": "/no/such"}
    for _ in range(2):  # the second time there is nothing new
        assert tables(spark, every, root) is None
    for name, source in given.items():
        alone[name] = str(tmp_path / name)
        tables(spark, source, alone[name])
    kinds = {kind.table for kind in KINDS}
    for table in ("changes", "load", "topics", "partitions", "brokers"):
        history = table in kinds
        found = read_table(spark, root, table, history=history)
        assert found.columns[0] == "cluster_id"
        for name, path in alone.items():
            expected = read_table(spark, path, table, history=history)
            assert expected.columns == found.columns
            one = found.where(f"cluster_id = '{name}'").drop("cluster_id")
            assert rows(one) == rows(expected.drop("cluster_id")) != [], (name, table)
    errors = [
        (row.cluster_id, row.source, row.type)
        for row in read_table(spark, root, "errors").collect()
    ]
    assert sorted(errors) == [
        ("down", "down", "UNREACHABLE"),
        ("gone", "gone", "UNREACHABLE"),
    ]
    by_cluster = JOBS["topics"](spark, root).groupBy("cluster_id").count().collect()
    assert {row.cluster_id for row in by_cluster} == {"one", "seven"}
    with pytest.raises(TablesError, match="give a list"):
        tables(spark, given["one"], root)
    with pytest.raises(TablesError, match="take another directory"):
        tables(spark, given, alone["one"])
    assert all(read_table(spark, root, name).columns[0] == "cluster_id" for name in TABLES)


def test_iceberg_tables_of_a_list_are_those_of_each_cluster_alone(
    spark: SparkSession, logs: Any, tmp_path: Path
) -> None:
    if os.environ.get("KWIRE_INTEROP") != "require":
        pytest.importorskip("pyiceberg", reason="the extra 'iceberg' is not installed")
    root, kinds = str(tmp_path / "root"), {kind.table for kind in KINDS}
    sources = {
        "one": str(logs("p-one-basic") / "nodes" / "1"),
        "seven": str(logs("p-one-segments") / "nodes" / "7"),
    }
    ids = {name: str(cluster_of(source)) for name, source in sources.items()}
    for _ in range(2):  # the second time there is nothing new
        tables(spark, list(sources.values()), root, format="iceberg")
    assert clusters_at(root) == sorted(ids.values())
    for name, source in sources.items():
        tables(spark, source, str(tmp_path / name), format="iceberg")
    for table in TABLES:
        history = table in kinds
        found = read_table(spark, root, table, history=history)
        assert found.columns[0] == "cluster_id"
        by_cluster = {
            cluster: rows(found.where(f"cluster_id = '{cluster}'")) for cluster in ids.values()
        }
        alone = {
            ids[name]: rows(read_table(spark, str(tmp_path / name), table, history=history))
            for name in sources
        }
        assert by_cluster == alone, table
        assert any(alone.values()) or table in ("errors", "tokens"), table
        assert found.count() == sum(map(len, alone.values())), table


def test_kwire_spark_takes_several_sources(spark: SparkSession, logs: Any) -> None:
    one, other = (
        str(logs(name) / "nodes" / node) for name, node in (("p-one-basic", "1"), ("p-abort", "1"))
    )
    result = CliRunner().invoke(main, ["spark", "load", f"one={one}", other, "three=127.0.0.1:1"])
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 1 and "127.0.0.1:1" in result.stderr
    assert len({line["cluster_id"] for line in lines}) == 2 and lines[-1]["cluster_id"] == "one"


def reached(root: str) -> int:
    return Store(cluster_path(root, "one")).manifest.next_offset


def test_stream_over_directories_has_what_is_appended(
    spark: SparkSession, logs: Any, tmp_path: Path
) -> None:
    root = str(tmp_path / "root")
    copy = shutil.copytree(logs("p-one-basic") / "nodes" / "1", tmp_path / "copy")
    [segment] = (copy / "__cluster_metadata-0").glob("*.log")
    whole = segment.read_bytes()
    segment.write_bytes(whole[: len(whole) // 2])
    given: Any = {"one": str(copy), "gone": str(tmp_path / "gone")}
    query = follow(spark, given, root)
    assert query is not None
    try:
        until(lambda: reached(root) > 0, "the first half")
        half = reached(root)
        with segment.open("ab") as file:
            file.write(whole[len(whole) // 2 :])
        until(lambda: reached(root) > half, "the rest")
        until(lambda: conditions(root) == {"gone": ["UNREACHABLE"]}, "what is not there")
    finally:
        query.stop()
    tables(spark, str(copy), str(tmp_path / "alone"))
    found = read_table(spark, root, "changes").where("before is not null or after is not null")
    expected = read_table(spark, str(tmp_path / "alone"), "changes")
    assert rows(found.drop("cluster_id")) == rows(expected.drop("cluster_id"))


# --- twenty live clusters
# --------------------------------------------------------------------------------------------------

CLUSTERS: Final = 20
#: A node that soon truncates its log to a snapshot.
_SHORT: Final = (
    "--metadata-log-max-record-bytes-between-snapshots=1000",
    "--metadata-log-segment-bytes=4000",
    "--metadata-max-retention-bytes=8000",
)


@dataclass
class Live:
    """A quorum of one node. ``admin`` is a client of it, ``made`` the topics that were created."""

    address: str
    admin: Any = None
    made: list[str] = field(default_factory=list)

    def create(self, topic: str) -> None:
        from kafka import KafkaAdminClient

        self.admin = self.admin or KafkaAdminClient(bootstrap_servers=self.address)
        self.admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}})
        self.made.append(topic)

    def close(self) -> None:
        if self.admin is not None:
            self.admin.close()
            self.admin = None


@dataclass
class Alone(Live):
    """One in a process of its own, with a lasting port."""

    data: Path = Path()
    process: Process | None = None

    def start(self, *options: str, address: str = "") -> Gateway:
        """Start the node, at another address if there is one."""
        scratch = self.data.parent / f"output-{self.data.name}-{time.monotonic_ns()}"
        scratch.mkdir()
        where = ("--listeners", f"PLAINTEXT://{address or self.address}")
        began = time.monotonic()
        self.process = launch(
            scratch, "--source", "controller", "--data-dir", str(self.data), *where, *options
        )
        return wait_until_ready(self.process, PATIENCE_S, began)

    def stop(self, *, kill: bool = False) -> None:
        self.close()
        if self.process is not None:
            (self.process.kill if kill else self.process.stop)()
        self.process = None


@contextmanager
def living(into: Path) -> Iterator[tuple[list[Live], list[Alone]]]:
    """Clusters in one process, and three in processes of their own."""
    ports = lasting_ports(3)
    alone = [Alone(f"127.0.0.1:{port}", data=into / f"alone-{port}") for port in ports]
    with ExitStack() as stack:
        for one in alone:
            stack.callback(one.stop, kill=True)
            one.start()
        found = stack.enter_context(own_clusters(into, CLUSTERS - len(alone)))
        together = [Live(address) for address in found]
        for live in together:
            stack.callback(live.close)
        yield together, alone


def arrivals(root: str, names: Mapping[str, Live], topic: str) -> list[float]:
    """Create a topic in each cluster. Return the seconds from each answer to its row."""
    answered: dict[str, float] = {}
    found: dict[str, float] = {}
    for name, live in names.items():
        live.create(topic)
        answered[name] = time.monotonic()

    def missing() -> set[str]:
        for name in answered.keys() - found.keys():
            if topic in topics_of(root, name):
                found[name] = time.monotonic() - answered[name]
        return answered.keys() - found.keys()

    until(missing, f"a row of {topic} of each cluster", lambda names: not names)
    return [*found.values()]


def truncate(live: Alone, beyond: int) -> None:
    """Make the log begin behind offset ``beyond``, while no client reads it."""
    live.stop()
    [port] = lasting_ports(1)
    address = live.address
    live.address = f"127.0.0.1:{port}"
    live.start(*_SHORT)
    numbers = itertools.count()

    def start_after_changes() -> int:
        live.create(f"passing-{next(numbers)}")
        live.admin.delete_topics([live.made.pop()])
        return offsets_of(live.address)[0]

    until(start_after_changes, "the log begins later", lambda start: start > beyond)
    live.stop()
    live.address = address
    live.start()


def conditions(root: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in Conditions.read(root).rows:
        found.setdefault(row["source"], []).append(row["type"])
    return found


@pytest.mark.timeout(600)
def test_twenty_live_clusters_in_one_stream(spark: SparkSession, tmp_path: Path) -> None:
    """One is killed, one is wiped, one is truncated to a snapshot; the others go on."""
    root = str(tmp_path / "root")
    with living(tmp_path) as (together, (killed, wiped, truncated)):
        every = {f"c{n}": live for n, live in enumerate(together)}
        three: dict[str, Live] = {"killed": killed, "truncated": truncated}
        given: list[Any] = [
            {"name": name, "bootstrap.servers": live.address}
            for name, live in {**every, **three}.items()
        ]
        query = follow(spark, [*given, wiped.address], root)
        assert query is not None
        try:
            until(lambda: len(clusters_at(root)) == CLUSTERS, "all clusters")
            [first] = set(clusters_at(root)) - {*every, *three}
            one = arrivals(root, {**every, **three, first: wiped}, "first")
            killed.stop(kill=True)
            wiped.stop(kill=True)
            shutil.rmtree(wiped.data)
            wiped.start()
            truncate(truncated, Store(cluster_path(root, "truncated")).manifest.next_offset)
            other = arrivals(root, {**every, "truncated": truncated}, "second")
            until(lambda: len(clusters_at(root)) > CLUSTERS, "the new cluster")
            until(lambda: len(conditions(root)) >= 3, "what happened to the three")
            rows_of_stream(spark, root, {**every, "truncated": truncated})
            check_errors(spark, root, first, wiped.address)
            killed.start()
            until(lambda: "RECOVERED" in conditions(root)["killed"], "the one that was killed")
            assert query.isActive and query.exception() is None
        finally:
            query.stop()
    figures = [
        f"p50 {statistics.median(some):.2f} s, at most {max(some):.2f} s" for some in (one, other)
    ]
    FIGURES.append(f"{CLUSTERS} live clusters, change to table: {'; then '.join(figures)}")
    note("a change, from the answer to the table, median", statistics.median(other), usual_s=3)


def rows_of_stream(spark: SparkSession, root: str, names: Mapping[str, Live]) -> None:
    """Every cluster has its topics and no others, and no change twice."""
    found: dict[str, list[str]] = {}
    for row in read_table(spark, root, "topics").select("cluster_id", "name").collect():
        found.setdefault(row.cluster_id, []).append(row.name)
    assert {name: sorted(found[name]) for name in names} == {
        name: sorted(live.made) for name, live in names.items()
    }
    changes = read_table(spark, root, "changes")
    again = changes.groupBy("cluster_id", "offset", "n").count().where("count > 1")
    assert again.count() == 0


def check_errors(spark: SparkSession, root: str, first: str, wiped: str) -> None:
    found = {
        (row.cluster_id, row.type): row.error for row in read_table(spark, root, "errors").collect()
    }
    assert "its tables stay as they are" in found["killed", "UNREACHABLE"]
    assert (
        f"the tables of {first} end" in found[first, "REPLACED"]
        and wiped in found[first, "REPLACED"]
    )
    assert "the changes between are lost" in found["truncated", "TRUNCATED"]
    names = {name for name, _ in found}
    assert names <= {"killed", "truncated", first, *clusters_at(root)}
    assert not any(name.startswith("c") and name[1:].isdigit() for name in names)
