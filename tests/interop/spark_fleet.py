"""The fleet's tables in one Spark session: live servers, the image as truth, gaps, and engines that
read the files without kwire. ``test_spark_fleet`` runs it with each release that has a table
format with MERGE.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import pytest
from click.testing import CliRunner

from gateway.cli import main
from kwire.cluster.entities import KINDS
from kwire.cluster.image import Image
from kwire.cluster.view_offsets import at
from kwire.jars.maven import MavenError
from kwire.jars.table_formats import format_of
from kwire.metadata_log.read import image
from kwire.spark.fleet import Condition, Outcome, keep, register, session, sql
from kwire.spark.fleet.place import Format, Place
from kwire.spark.fleet.plan import OnGap
from kwire.spark.fleet.views import VIEWS
from tests.documented import blocks
from tests.interop.clients import missing
from tests.interop.truth import split
from tests.shared import needs_shared
from tools.gateway_process import gateway
from tools.spark_home import FEW_ROWS, driver_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [needs_shared, pytest.mark.timeout(900)]

Rows = dict[tuple[Any, ...], dict[str, Any]]
#: Views of the tests about gaps, whose entities come and go.
_FEW: Final = ("features", "topics", "configs", "acls")
_PARTITION: Final = "__cluster_metadata-0"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    options = f"{driver_options()} -XX:ReservedCodeCacheSize=256m"
    settings = {**FEW_ROWS, "spark.driver.extraJavaOptions": options}
    settings["spark.sql.warehouse.dir"] = str(tmp_path_factory.mktemp("warehouse"))
    try:
        found = session(conf=settings)
    except MavenError as error:
        missing(f"the jars are not to be had: {error}")
    found.sparkContext.setLogLevel("ERROR")
    yield found
    found.stop()


@contextmanager
def served(*directories: Path) -> Iterator[list[str]]:
    """The addresses of ``kwire serve`` over each of ``directories``."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(gateway("--source", "log", "--log-dir", str(one))).bootstrap
            for one in directories
        ]


def cluster_of(directory: Path) -> str:
    [line] = [
        line
        for line in (directory / "meta.properties").read_text().splitlines()
        if line.startswith("cluster.id=")
    ]
    return line.partition("=")[2]


def truth(of: Image, view: str) -> Rows:
    """The entities of a view in Kafka's image, as ``kwire state`` folds it."""
    [kind] = [kind for kind in KINDS if kind.view == view]
    found = {}
    for key in kind.keys(of):
        state = kind.find(of, key)
        assert state is not None
        found[tuple(kind.name(state))] = kind.fields(state)
    return found


def rows(spark: SparkSession, query: str, view: str) -> Rows:
    found: Rows = {}
    for row in spark.sql(query).collect():
        fields = row.asDict(recursive=True)
        key = tuple(fields[name] for name in VIEWS[view].keys)
        assert key not in found, f"{view} has {key} twice"
        found[key] = {
            name: value
            for name, value in fields.items()
            if name in VIEWS[view].keys or name in VIEWS[view].values
        }
    return found


def table(where: Path, name: str) -> str:
    """A table in SQL."""
    return Place(str(where), cast(Format, format_of())).table(name)


def everything(spark: SparkSession, where: Path) -> dict[str, list[str]]:
    """Every row of every table."""
    return {
        name: sorted(map(repr, spark.table(table(where, name)).collect()))
        for view in VIEWS.values()
        for name in view.tables
    }


def ends_of_batches(directory: Path) -> list[int]:
    """Offsets behind each batch of the log."""
    found = []
    for file in sorted((directory / _PARTITION).glob("*.log")):
        found += [batch.last_offset + 1 for batch in split(file.read_bytes())]
    return found


def by_name(outcomes: Any) -> dict[str, Outcome]:
    return {one.name: one for one in outcomes}


def test_tables_of_two_live_clusters_are_the_images_at_every_offset(
    spark: SparkSession, logs: Any, tmp_path: Path
) -> None:
    """State and history of all views at the end, and history at random offsets; then the same
    clusters again, from the beginning.
    """
    basic = shutil.copytree(logs("p-one-basic") / "nodes" / "1", tmp_path / "basic")
    late = shutil.copytree(logs("p-one-segments") / "nodes" / "7", tmp_path / "late")
    where = tmp_path / "tables"
    with served(basic, late) as (at_basic, at_late):
        clusters = {"basic": at_basic, "late": at_late, "nobody": "127.0.0.1:1"}
        told = by_name(keep(spark, clusters, str(where)))
        assert told["nobody"].condition is Condition.UNREACHABLE
        assert "cannot connect to 127.0.0.1:1" in told["nobody"].message
        assert {told[name].condition for name in ("basic", "late")} == {Condition.OK}
        register(spark, str(where))
        choose = random.Random(1)
        for name, directory in (("basic", basic), ("late", late)):
            cluster = cluster_of(directory)
            assert told[name].cluster_id == cluster and told[name].records > 100
            of_cluster = f"cluster_id = '{cluster}'"
            for view in VIEWS:
                if view != "changes":
                    found = rows(spark, f"SELECT * FROM {view} WHERE {of_cluster}", view)
                    assert found == truth(image(directory), view), view
            start = min(
                row.offset
                for row in spark.sql(f"SELECT offset FROM changes WHERE {of_cluster}").collect()
            )
            ends = [end for end in ends_of_batches(directory) if at(end) > start]
            for end in choose.sample(ends, 4):
                then = image(directory, at=end)
                for view in ("topics", "partitions", "configs"):
                    query = (
                        f"SELECT * FROM {view}_versions WHERE {of_cluster} AND valid_from_offset <"
                        f" {at(end)} AND (valid_to_offset IS NULL OR valid_to_offset >= {at(end)})"
                    )
                    assert rows(spark, query, view) == truth(then, view), (name, end, view)
        before = everything(spark, where)
        told = by_name(keep(spark, clusters, str(where)))
        assert told["basic"].records == told["late"].records == 0
        # As if nothing had been remembered: every record again.
        spark.sql(f"DELETE FROM {table(where, 'clusters')} WHERE true")
        told = by_name(keep(spark, clusters, str(where)))
        assert told["basic"].records > 100
        assert everything(spark, where) == before
        code_of_the_page_runs(
            spark, {"h1:9092": at_basic, "h2:9092": at_late, "/data/fleet": where}
        )
    read_without_kwire(
        where, {cluster_of(one): truth(image(one), "topics") for one in (basic, late)}
    )


def code_of_the_page_runs(spark: SparkSession, values: dict[str, object]) -> None:
    """The Python blocks of docs/spark-fleet.md, in this session."""
    for block in blocks():
        if block.page == "docs/spark-fleet.md" and block.language == "python":
            text = block.text
            for name, value in values.items():
                text = text.replace(name, str(value))
            exec(text, {"spark": spark})


def read_without_kwire(where: Path, expected: dict[str, Rows]) -> None:
    """Another engine counts the topics of both clusters in the files."""
    place = where / "topics_state"
    if format_of() == "delta":
        deltalake = pytest.importorskip("deltalake")
        delta = deltalake.DeltaTable(str(place))
        assert delta.metadata().partition_columns == ["cluster_id"]
        rows = delta.to_pyarrow_table()
    else:
        pyiceberg = pytest.importorskip("pyiceberg.table")
        newest = max(
            (place / "metadata").glob("v*.metadata.json"),
            key=lambda file: int(file.name[1:].partition(".")[0]),
        )
        iceberg = pyiceberg.StaticTable.from_metadata(str(newest))
        assert [one.name for one in iceberg.spec().fields] == ["cluster_id"]
        rows = iceberg.scan().to_arrow()
    found: dict[str, int] = {}
    for row in rows.select(["cluster_id", "deleted"]).to_pylist():
        found[row["cluster_id"]] = found.get(row["cluster_id"], 0) + (not row["deleted"])
    assert found == {cluster: len(topics) for cluster, topics in expected.items()}


def whole_log_before(end: int, source: Path, target: Path) -> Path:
    """A directory with the segments of ``source`` before ``end``, from offset 0: with those that
    were marked for deletion, and without snapshots.
    """
    shutil.copytree(source, target)
    for file in (target / _PARTITION).iterdir():
        base, _, rest = file.name.partition(".")
        if rest == "log.deleted" and int(base) < end:
            file.rename(file.with_name(f"{base}.log"))
        elif base.isdigit() or rest == "checkpoint":
            file.unlink()
    return target


class Job:
    """A job of two clusters: ``x``, whose address the tests change, and one beside it that always
    goes on.
    """

    def __init__(self, spark: SparkSession, where: Path, beside: str) -> None:
        self.spark, self.where, self.beside = spark, where, beside

    def run(self, x: str, on_gap: OnGap = "fail") -> Outcome:
        clusters = {"x": x, "beside": self.beside}
        told = by_name(keep(self.spark, clusters, str(self.where), views=_FEW, on_gap=on_gap))
        assert told["beside"].condition is Condition.OK
        register(self.spark, str(self.where))
        return told["x"]

    def stops(self, x: str, condition: Condition, sentence: str) -> None:
        """The job stops for ``x``, and leaves all tables of entities as they are."""
        before = {view: self.spark.sql(f"SELECT * FROM {view}").collect() for view in _FEW}
        stopped = self.run(x)
        assert stopped.condition is condition and sentence in stopped.message, stopped
        query = f"SELECT condition FROM clusters WHERE message = '{stopped.message}'"
        assert [row.condition for row in self.spark.sql(query).collect()] == [condition]
        for view, were in before.items():
            assert sorted(map(repr, self.spark.table(view).collect())) == sorted(map(repr, were))

    def state(self, cluster: str) -> dict[str, Rows]:
        return {
            view: rows(self.spark, f"SELECT * FROM {view} WHERE cluster_id = '{cluster}'", view)
            for view in _FEW
        }


def expected(directory: Path) -> dict[str, Rows]:
    return {view: truth(image(directory), view) for view in _FEW}


def test_gaps_are_told_or_repaired(spark: SparkSession, logs: Any, tmp_path: Path) -> None:
    """One cluster whose log goes on behind a gap, is cut off, is wiped and is made anew; another
    one beside it goes on.
    """
    source = logs("p-one-segments") / "nodes" / "7"
    late = shutil.copytree(source, tmp_path / "late")
    early = whole_log_before(522, source, tmp_path / "early")
    wiped = shutil.copytree(logs("p-one-basic") / "nodes" / "1", tmp_path / "wiped")
    (wiped / "meta.properties").unlink()
    shutil.copy(source / "meta.properties", wiped / "meta.properties")
    anew = shutil.copytree(logs("p-abort") / "nodes" / "1", tmp_path / "anew")
    beside = shutil.copytree(logs("p-old") / "nodes" / "1", tmp_path / "beside")
    cluster = cluster_of(late)
    with served(early, late, wiped, anew, beside) as addresses:
        at_early, at_late, at_wiped, at_anew, at_beside = addresses
        job = Job(spark, tmp_path / "tables", at_beside)
        assert job.run(at_early).condition is Condition.OK
        assert job.state(cluster) == expected(early)

        job.stops(at_late, Condition.GAP, "read up to 522 only")
        assert job.run(at_late, "resync").condition is Condition.OK
        assert job.state(cluster) == expected(late)
        gone = expected(early)["topics"].keys() - truth(image(late, at=985), "topics").keys()
        history = table(job.where, "topics_history")
        query = f"SELECT name FROM {history} WHERE origin = 'gap' AND deleted"
        assert gone and {(row.name,) for row in spark.sql(query).collect()} == gone
        assert job.run(at_late).records == 0

        job.stops(at_early, Condition.TRUNCATED, "ends at offset 522")
        job.stops(at_wiped, Condition.TRUNCATED, "resync")
        assert job.run(at_wiped, "resync").condition is Condition.OK
        assert job.state(cluster) == expected(wiped) and expected(wiped)["acls"]

        job.stops(at_anew, Condition.REPLACED, f"was the cluster {cluster}")
        assert job.run(at_anew, "resync").condition is Condition.OK
        # The new cluster has no ACL: its view has no record at all.
        assert job.state(cluster_of(anew)) == expected(anew) and not expected(anew)["acls"]
        assert not any(job.state(cluster).values())


def older_tables(spark: SparkSession, where: Path, view: str, *, without: str) -> None:
    """Make tables as a kwire did whose view had a column less."""
    Place(str(where), cast(Format, format_of())).prepare(spark)
    for name in VIEWS[view].tables:
        columns = [one for one in VIEWS[view].columns if one[0] != without]
        spark.sql(sql.create(table(where, name), columns, format_of(), "older"))


def test_command_prints_a_line_for_each_cluster_and_fails_for_one(
    spark: SparkSession, logs: Any, tmp_path: Path
) -> None:
    directory = logs("p-one-basic") / "nodes" / "1"
    older_tables(spark, tmp_path / "tables", "features", without="release")
    with served(directory) as [address]:
        options = ["--tables", str(tmp_path / "tables"), "--view", "features", "-o", "json"]
        clusters = [f"x={address}", "y=127.0.0.1:1"]
        done = CliRunner().invoke(main, ["spark", "fleet", *clusters, *options])
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.exit_code == 1 and [line["name"] for line in lines] == ["x", "y"]
    assert lines[0]["condition"] == "OK" and lines[0]["cluster_id"] == cluster_of(directory)
    assert lines[1]["condition"] == "UNREACHABLE" and lines[1]["cluster_id"] is None
    register(spark, str(tmp_path / "tables"))
    assert rows(spark, "SELECT * FROM features", "features") == truth(image(directory), "features")
    state = table(tmp_path / "tables", "features_state")
    query = f"SELECT count(*) AS n FROM {state} WHERE release IS NOT NULL"
    assert spark.sql(query).collect()[0].n == 1
    # A view that the job did not keep is there, and empty.
    assert spark.sql("SELECT * FROM acls_versions").collect() == []
