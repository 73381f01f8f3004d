"""The fleet's tables in one Spark session: live servers, the image as truth, gaps, an object store,
and engines that read the files without kwire. ``test_spark_fleet_delta`` and
``test_spark_fleet_iceberg`` run it, each with the release that has the format.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import pytest
from click.testing import CliRunner

from gateway.cli import main
from kwire.cluster.view_offsets import at
from kwire.jars.maven import MavenError
from kwire.jars.table_formats import format_of
from kwire.metadata_log.read import image
from kwire.spark import questions
from kwire.spark.fleet import Condition, FleetError, Outcome, keep, register, rounds, session, sql
from kwire.spark.fleet.place import Format, Place
from kwire.spark.fleet.plan import Found, OnGap
from kwire.spark.fleet.probe import ask
from kwire.spark.fleet.views import VIEWS
from tests.documented import blocks
from tests.interop.clients import missing
from tests.interop.fleet_truth import (
    ENTITIES,
    Rows,
    Truth,
    Versions,
    by_cluster,
    cluster_of,
    rows,
    truth,
)
from tests.interop.question_truth import FLAPPING, UNDER_REPLICATED, LogTruth
from tests.shared import needs_shared
from tools.log_servers import log_servers
from tools.spark_home import FEW_ROWS, driver_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [needs_shared, pytest.mark.timeout(900)]

#: The logs, with the node whose log is read.
NODES: Final = {
    "p-abort": "1",
    "p-old": "1",
    "p-one-basic": "1",
    "p-quorum": "1",
    "p-quorum-short": "101",
    "p-upgrade": "1",
    "p-one-segments": "7",
}
#: In how many pieces each log is read before the rest of it.
PIECES: Final = 1
#: Views of the tests about gaps, whose entities come and go.
_FEW: Final = ("topics", "configs", "acls")
_PARTITION: Final = "__cluster_metadata-0"


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    """The address of a server of S3's API."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(store: str) -> str:
    connection = HTTPConnection(store.removeprefix("http://"))
    connection.request("PUT", "/tables")
    assert connection.getresponse().status == 200
    connection.close()
    return "tables"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory, store: str) -> Iterator[SparkSession]:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    options = f"{driver_options()} -XX:ReservedCodeCacheSize=256m"
    settings = {**FEW_ROWS, "spark.driver.extraJavaOptions": options}
    settings["spark.sql.warehouse.dir"] = str(tmp_path_factory.mktemp("warehouse"))
    for name, value in (
        ("endpoint", store),
        ("endpoint.region", "us-east-1"),
        ("access.key", "user"),
        ("secret.key", "secret"),
        ("path.style.access", "true"),
    ):
        settings[f"spark.hadoop.fs.s3a.{name}"] = value
    try:
        found = session(conf=settings, where="s3a://tables")
    except MavenError as error:
        missing(f"the jars are not to be had: {error}")
    found.sparkContext.setLogLevel("ERROR")
    yield found
    found.stop()


def table(where: Path, name: str) -> str:
    """A table in SQL."""
    return Place(str(where), cast(Format, format_of())).table(name)


def everything(spark: SparkSession, where: Path) -> dict[str, list[str]]:
    """Every row of every table of some views."""
    return {
        name: sorted(map(repr, spark.table(table(where, name)).collect()))
        for view in _FEW
        for name in VIEWS[view].tables
    }


def by_name(outcomes: Any) -> dict[str, Outcome]:
    return {one.name: one for one in outcomes}


def test_tables_of_twenty_live_clusters_are_the_images_at_every_offset(
    spark: SparkSession, logs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The logs of real Kafka, read in pieces, beside thirteen clusters that come later: the states
    behind each piece, and the histories at 100 random offsets of every log; then all of it again.
    """
    found = [Truth(logs(log) / "nodes" / node) for log, node in NODES.items()]
    copies = [copied(found[-1].directory, tmp_path, number) for number in range(20 - len(found))]
    where, choose = tmp_path / "tables", random.Random(1)
    ends = {one.cluster_id: one.chosen_ends(choose, 100) for one in found}
    with log_servers(*(one.directory for one in found), *copies) as addresses:
        logged = {f"c{number}": at for number, at in enumerate(addresses[: len(found)])}
        for piece in range(1, PIECES + 1):
            behind = {id: of[len(of) * piece // (PIECES + 1)] for id, of in ends.items()}
            monkeypatch.setattr(rounds, "ask", _as_if_logs_ended(behind))
            told = by_name(keep(spark, logged, str(where)))
            assert {one.condition for one in told.values()} == {Condition.OK}
            register(spark, str(where))
            states = {view: by_cluster(spark, view) for view in ENTITIES}
            for one in found:
                [(end, then)] = one.at([behind[one.cluster_id]])
                for view in ENTITIES:
                    state = states[view].get(one.cluster_id, {})
                    assert state == then[view], (one.directory, end, view)
        monkeypatch.undo()
        clusters = {f"c{number}": at for number, at in enumerate(addresses)}
        told = by_name(keep(spark, {**clusters, "nobody": "127.0.0.1:1"}, str(where)))
        assert told["nobody"].condition is Condition.UNREACHABLE
        assert "cannot connect to 127.0.0.1:1" in told["nobody"].message
        assert {told[name].condition for name in clusters} == {Condition.OK}
        register(spark, str(where))
        states = {view: by_cluster(spark, view) for view in ENTITIES}
        for directory in (*(one.directory for one in found), *copies):
            last = image(directory)
            for view in ENTITIES:
                assert states[view].get(cluster_of(directory), {}) == truth(last, view), view
        histories = {view: Versions(spark, view) for view in ENTITIES}
        for one in found:
            for end, then in one.at(ends[one.cluster_id]):
                for view in ENTITIES:
                    version = histories[view].at(one.cluster_id, at(end))
                    assert version == then[view], (one.directory, end, view)
        questions_are_answered(spark, where, logs("p-quorum") / "nodes" / NODES["p-quorum"])
        before = everything(spark, where)
        told = by_name(keep(spark, clusters, str(where)))
        assert {one.records for one in told.values()} == {0}
        # As if nothing had been remembered: every record again, of some views.
        spark.sql(f"DELETE FROM {table(where, 'clusters')} WHERE true")
        told = by_name(keep(spark, clusters, str(where), views=_FEW))
        assert all(one.records > 0 for one in told.values())
        assert everything(spark, where) == before
        code_of_the_page_runs(
            spark, {"h1:9092": addresses[0], "h2:9092": addresses[1], "/data/fleet": where}
        )
    directories = (*(one.directory for one in found), *copies)
    read_without_kwire(
        where, {cluster_of(one): len(truth(image(one), "topics")) for one in directories}
    )


def _as_if_logs_ended(behind: Mapping[str, int]) -> Any:
    """The question to a server, answered as if its log ended before an offset."""

    def asked(*arguments: Any) -> Found:
        found = ask(*arguments)
        return replace(found, end=min(found.end, at(behind[found.cluster_id])))

    return asked


def questions_are_answered(spark: SparkSession, where: Path, directory: Path) -> None:
    """Every question about one of the clusters, and the jobs of ``kwire spark`` that are some."""
    log, id, own = LogTruth(directory / _PARTITION), cluster_of(directory), spark.newSession()
    questions.register_tables(own, str(where))
    answers = {question: questions.ask(own, question, **given).where(condition).selectExpr(*columns)
        for question, condition, columns, given in (
            ("under_replicated", f"cluster_id = '{id}'", UNDER_REPLICATED, {"seconds": 0}),
            ("flapping_brokers", f"cluster_id = '{id}'", FLAPPING, {}),
            ("config_drift", f"scope = 'broker' AND resource = '{id}'", ("name", "values"), {}),
            ("who_changed_what", f"cluster_id = '{id}'", ("offset", "kind", "op"), {}),
            ("recreated_topics", f"cluster_id = '{id}'", ("name", "ids"), {}),
        )
    }  # fmt: skip
    assert answers.keys() == questions.QUESTIONS.keys()
    found = {question: list(map(tuple, one.collect())) for question, one in answers.items()}
    expected = {
        "under_replicated": log.under_replicated(),
        "flapping_brokers": list(log.flapping()),
        "config_drift": list(log.drift().items()),
        "who_changed_what": [one[:3] for one in log.by_hand()],
        "recreated_topics": list(log.recreated().items()),
    }
    for question, rows_of_it in expected.items():
        texts = [sorted(map(_text, some)) for some in (found[question], rows_of_it)]
        assert texts[0] == texts[1], question
    assert all(expected[one] for one in ("under_replicated", "flapping_brokers", "config_drift"))
    for job in ("underreplicated", "drift", "audit"):
        done = CliRunner().invoke(main, ["spark", job, str(where), "-o", "json"])
        assert done.exit_code == 0 and id in done.stdout, done.output
    refused = CliRunner().invoke(main, ["spark", "leaders", str(where)])
    assert refused.exit_code == 2 and "tables of many clusters" in refused.output


def _text(row: Any) -> str:
    return json.dumps(row, sort_keys=True)


def copied(directory: Path, into: Path, number: int) -> Path:
    """The same log as that of another cluster."""
    copy = shutil.copytree(directory, into / f"copy-{number}")
    meta, id = copy / "meta.properties", cluster_of(directory)
    meta.write_text(meta.read_text().replace(id, f"{id[:-4]}{number:04}"))
    return copy


def code_of_the_page_runs(spark: SparkSession, values: dict[str, object]) -> None:
    """The Python blocks of docs/spark-fleet.md, in this session."""
    for block in blocks():
        if block.page == "docs/spark-fleet.md" and block.language == "python":
            text = block.text
            for name, value in values.items():
                text = text.replace(name, str(value))
            exec(text, {"spark": spark})


def read_without_kwire(where: Path, topics: Mapping[str, int]) -> None:
    """DuckDB counts the topics of every cluster in the files."""
    duckdb = pytest.importorskip("duckdb")
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
    with duckdb.connect() as connection:
        connection.register("topics", rows)
        asked = connection.execute(
            "SELECT cluster_id, count(*) FILTER (NOT deleted) FROM topics GROUP BY cluster_id"
        )
        assert dict(asked.fetchall()) == {id: count for id, count in topics.items() if count}


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
    with log_servers(early, late, wiped, anew, beside) as addresses:
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


def test_tables_are_kept_in_an_object_store(spark: SparkSession, logs: Any, bucket: str) -> None:
    """By Hadoop's own client; a file system that is not there is told in a sentence."""
    directory, where = logs("p-one-segments") / "nodes" / "7", f"s3a://{bucket}/fleet"
    with log_servers(directory) as [address]:
        for _ in range(2):
            [told] = keep(spark, {"x": address}, where, views=("topics",))
            assert told.condition is Condition.OK, told
    assert told.records == 0
    register(spark, where)
    assert rows(spark, "SELECT * FROM topics", "topics") == truth(image(directory), "topics")
    for other, why in (
        ("abfss://tables@account/fleet", "azurebfs"),
        ("dbfs:/fleet", "dbfs"),
        ("hdfs://127.0.0.1:1/fleet", "127.0.0.1"),
    ):
        with pytest.raises(FleetError, match=f"{other} cannot be used: .*{why}"):
            register(spark, other)


#: An earlier kwire might not have had these: a column, a member of structs in an array, and one of
#: a struct.
_LATER: Final = {
    "features": "release",
    "brokers": "`port`: INT",
    "changes": "`record_type`: STRING",
}


def older_tables(spark: SparkSession, where: Path, view: str) -> None:
    """Make tables as a kwire did that knew less."""
    Place(str(where), cast(Format, format_of())).prepare(spark)
    later = _LATER[view]
    columns = [
        (name, type_.replace(f", {later}", "").replace(f"{later}, ", ""))
        for name, type_ in VIEWS[view].columns
        if name != later
    ]
    assert columns != list(VIEWS[view].columns)
    for name in VIEWS[view].tables:
        spark.sql(sql.create(table(where, name), columns, format_of(), "older"))


def test_command_prints_a_line_for_each_cluster_and_fails_for_one(
    spark: SparkSession, logs: Any, tmp_path: Path
) -> None:
    """It adds what the tables of an earlier kwire lack."""
    directory = logs("p-one-basic") / "nodes" / "1"
    views = [option for view in _LATER for option in ("--view", view)]
    for view in _LATER:
        older_tables(spark, tmp_path / "tables", view)
    with log_servers(directory) as [address]:
        options = ["--tables", str(tmp_path / "tables"), *views, "-o", "json"]
        clusters = [f"x={address}", "y=127.0.0.1:1"]
        done = CliRunner().invoke(main, ["spark", "fleet", *clusters, *options])
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.exit_code == 1 and [line["name"] for line in lines] == ["x", "y"], done.output
    assert lines[0]["condition"] == "OK" and lines[0]["cluster_id"] == cluster_of(directory)
    assert lines[1]["condition"] == "UNREACHABLE" and lines[1]["cluster_id"] is None
    register(spark, str(tmp_path / "tables"))
    for view in _LATER.keys() & set(ENTITIES):
        assert rows(spark, f"SELECT * FROM {view}", view) == truth(image(directory), view)
    types = spark.table("changes").selectExpr("source.record_type").distinct().collect()
    assert "TOPIC_RECORD" in {row.record_type for row in types}
    # A view that the job did not keep is there, and empty.
    assert spark.sql("SELECT * FROM acls_versions").collect() == []
