"""The fleet's tables in one Spark session: live servers, the image as truth, gaps, an object store,
and engines that read the files without kwire. ``test_spark_fleet_delta`` and
``test_spark_fleet_iceberg`` run it, each with the newest release that has the format, and
``test_spark_fleet_oldest`` a part of it with the oldest one.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast

import pytest
from click.testing import CliRunner

from gateway.cli import main
from kwire.cluster.view_offsets import at
from kwire.jars.maven import MavenError
from kwire.jars.table_formats import NEWEST, format_of
from kwire.metadata_log.read import image
from kwire.spark import questions
from kwire.spark.fleet import Condition, FleetError, Outcome, keep, register, rounds, session, sql
from kwire.spark.fleet.place import Format, Place
from kwire.spark.fleet.plan import Found, OnGap
from kwire.spark.fleet.probe import ask
from kwire.spark.fleet.tables import MERGES
from kwire.spark.fleet.views import VIEWS
from tests.documented import blocks
from tests.interop.clients import missing
from tests.interop.fleet_truth import (
    ENTITIES,
    Rows,
    Truth,
    by_cluster,
    cluster_of,
    differences,
    entities,
    in_files,
    rows,
    truth,
)
from tests.interop.question_truth import FLAPPING, UNDER_REPLICATED, LogTruth
from tests.shared import needs_shared
from tools.bench import spark_fleet
from tools.fleet_rows import delta_rows, rows_of
from tools.log_servers import log_servers
from tools.spark_home import FEW_ROWS, driver_options, environment, quiet_files

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
#: Clusters that come later: copies of the log that begins with a snapshot, and of the shortest.
#: With the newest release that has Iceberg, whose rounds cost half of Delta's, they are twenty
#: clusters in all.
_COPIES: Final = {NEWEST["iceberg"]: (3, 10)}
_FEW_COPIES: Final = (1, 2)
#: Views of the tests about gaps, whose entities come and go.
_FEW: Final = ("topics", "configs", "acls")
#: Views whose records are read again: one that has a state, and the one that has none.
_REPEATED: Final = ("topics", "changes")
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
    pytest.importorskip("deltalake" if format_of() == "delta" else "pyiceberg")
    # Executors need no Python: a job that starts a worker of Python fails.
    os.environ.update({**environment(), "PYSPARK_PYTHON": "/there/is/no/python"})
    options = f"{driver_options()} -XX:ReservedCodeCacheSize=256m"
    settings = {**FEW_ROWS, **quiet_files(), "spark.driver.extraJavaOptions": options}
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


def everything(where: Path, views: Sequence[str] = _FEW) -> dict[str, list[str]]:
    """Every row of every table of some views."""
    return {
        name: sorted(map(repr, rows_of(where, name, format_of())))
        for view in views
        for name in VIEWS[view].tables
    }


def by_name(outcomes: Any) -> dict[str, Outcome]:
    return {one.name: one for one in outcomes}


def test_tables_of_many_live_clusters_are_the_images_at_every_offset(
    spark: SparkSession, logs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The logs of real Kafka: half of each, then the rest beside clusters that come later. The
    states behind both rounds, and the histories at 100 random offsets of every log, are the images
    there; all of it read again changes nothing.
    """
    found = [Truth(logs(log) / "nodes" / node) for log, node in NODES.items()]
    snapshots, shortest = _COPIES.get(spark.version.rpartition(".")[0], _FEW_COPIES)
    logs_of_copies = [found[-1]] * snapshots + [found[0]] * shortest
    copies = [copied(one.directory, tmp_path, number) for number, one in enumerate(logs_of_copies)]
    where, choose = tmp_path / "tables", random.Random(1)
    ends = {one.cluster_id: one.chosen_ends(choose, 100) for one in found}
    half = {id: of[len(of) // 2] for id, of in ends.items()}
    for view in _LATER:
        older_tables(spark, where, view)
    directories = (*(one.directory for one in found), *copies)
    with log_servers(*directories) as addresses:
        clusters = {f"c{number}": at for number, at in enumerate(addresses)}
        monkeypatch.setattr(rounds, "ask", _as_if_logs_ended(half))
        told = keep(spark, dict(list(clusters.items())[: len(found)]), str(where))
        assert {one.condition for one in told} == {Condition.OK}
        monkeypatch.undo()
        states_are(
            where, {one.cluster_id: next(one.at([half[one.cluster_id]]))[1] for one in found}
        )

        told = keep(spark, clusters, str(where))
        assert {one.condition for one in told} == {Condition.OK}
        assert all(one.records > 0 for one in told)
        states_are(where, {cluster_of(one): entities(image(one)) for one in directories})
        register(spark, str(where))
        assert list(differences(spark, found, ends)) == []

        # While the tables have everything: behind what follows it would merge every record again.
        code_of_the_page_runs(
            spark, {"h1:9092": addresses[0], "h2:9092": addresses[1], "/data/fleet": where}
        )
        nothing_is_added(spark, where, clusters)
        questions_are_answered(spark, where, logs("p-quorum") / "nodes" / NODES["p-quorum"])
    read_without_kwire(
        where, {cluster_of(one): len(truth(image(one), "topics")) for one in directories}
    )


def states_are(where: Path, expected: Mapping[str, Mapping[str, Rows]]) -> None:
    """The entities of every cluster are as expected, by cluster and view."""
    for view in ENTITIES:
        states = in_files(where, view, format_of())
        assert states.keys() <= expected.keys()
        for cluster, of_views in expected.items():
            assert states.get(cluster, {}) == of_views[view], (cluster, view)


def nothing_is_added(spark: SparkSession, where: Path, clusters: Mapping[str, str]) -> None:
    """The command prints a line for each of the clusters, whose tables have everything already, and
    for one that does not answer; records that are read again are there already.
    """
    before = everything(where, _REPEATED)
    named = [f"{name}={at}" for name, at in {**clusters, "nobody": "127.0.0.1:1"}.items()]
    arguments = ["spark", "fleet", *named, "--tables", str(where), "-o", "json"]
    done = CliRunner().invoke(main, arguments)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.exit_code == 1 and [one["name"] for one in lines] == [*clusters, "nobody"], done
    assert {(one["condition"], one["records"]) for one in lines[:-1]} == {("OK", 0)}
    assert lines[-1]["condition"] == "UNREACHABLE" and lines[-1]["cluster_id"] is None
    assert "cannot connect to 127.0.0.1:1" in lines[-1]["message"]
    # As if nothing had been remembered: every record again, of some views.
    spark.sql(f"DELETE FROM {table(where, 'clusters')} WHERE true")
    told = keep(spark, clusters, str(where), views=_REPEATED)
    assert all(one.records > 0 for one in told)
    assert everything(where, _REPEATED) == before


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


def _as_if_logs_ended(behind: Mapping[str, int]) -> Any:
    """The question to a server, answered as if its log ended before an offset."""

    def asked(*arguments: Any) -> Found:
        found = ask(*arguments)
        return replace(found, end=min(found.end, at(behind[found.cluster_id])))

    return asked


def questions_are_answered(spark: SparkSession, where: Path, directory: Path) -> None:
    """Every question about one of the clusters, and a job of ``kwire spark`` that is one."""
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
    done = CliRunner().invoke(main, ["spark", "drift", str(where), "-o", "json"])
    assert done.exit_code == 0 and id in done.stdout, done.output
    refused = CliRunner().invoke(main, ["spark", "leaders", str(where)])
    assert refused.exit_code == 2 and "tables of many clusters" in refused.output


def _text(row: Any) -> str:
    return json.dumps(row, sort_keys=True)


def copied(directory: Path, into: Path, number: int) -> Path:
    """The same log as that of another cluster."""
    id = f"{cluster_of(directory)[:-4]}{number:04}"
    return renamed(shutil.copytree(directory, into / f"copy-{number}"), id)


def renamed(directory: Path, id: str) -> Path:
    """The directory, as that of the cluster ``id``."""
    meta = directory / "meta.properties"
    meta.write_text(meta.read_text().replace(cluster_of(directory), id))
    return directory


def code_of_the_page_runs(spark: SparkSession, values: dict[str, object]) -> None:
    """Run the Python blocks of docs/spark-fleet.md in this session."""
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
        import deltalake

        assert deltalake.DeltaTable(str(place)).metadata().partition_columns == ["cluster_id"]
        rows = delta_rows(place)
    else:
        from pyiceberg.table import StaticTable

        newest = max(
            (place / "metadata").glob("v*.metadata.json"),
            key=lambda file: int(file.name[1:].partition(".")[0]),
        )
        iceberg = StaticTable.from_metadata(str(newest))
        assert [one.name for one in iceberg.spec().fields] == ["cluster_id"]
        rows = iceberg.scan().to_arrow()
    with duckdb.connect() as connection:
        connection.register("topics", rows)
        asked = connection.execute(
            "SELECT cluster_id, count(*) FILTER (NOT deleted) FROM topics GROUP BY cluster_id"
        )
        assert dict(asked.fetchall()) == {id: count for id, count in topics.items() if count}


def cut_off(end: int, source: Path, target: Path) -> None:
    """Make ``target``, a copy of ``source``, one of the log before ``end``, from offset 0: with the
    segments that were marked for deletion, and without snapshots.
    """
    shutil.rmtree(target / _PARTITION)
    shutil.copytree(source / _PARTITION, target / _PARTITION)
    for file in (target / _PARTITION).iterdir():
        base, _, rest = file.name.partition(".")
        if rest == "log.deleted" and int(base) < end:
            file.rename(file.with_name(f"{base}.log"))
        elif base.isdigit() or rest == "checkpoint":
            file.unlink()


class Job:
    """A job of clusters whose addresses the tests change, and one beside them that always goes
    on.
    """

    def __init__(self, spark: SparkSession, where: Path, beside: str) -> None:
        self.spark, self.where, self.beside = spark, where, beside

    def run(self, addresses: Mapping[str, str], on_gap: OnGap = "fail") -> dict[str, Outcome]:
        clusters = {**addresses, "beside": self.beside}
        told = by_name(keep(self.spark, clusters, str(self.where), views=_FEW, on_gap=on_gap))
        assert told.pop("beside").condition is Condition.OK
        return told

    def goes_on(self, addresses: Mapping[str, str], on_gap: OnGap = "fail") -> dict[str, int]:
        """The job stops for none of them. Return how many records it read of each."""
        told = self.run(addresses, on_gap)
        assert {one.condition for one in told.values()} == {Condition.OK}, told
        return {name: one.records for name, one in told.items()}

    def stops(
        self, addresses: Mapping[str, str], says: Mapping[str, tuple[Condition, str]]
    ) -> None:
        """The job stops for all of them, as ``says`` has it, and leaves the tables of entities as
        they are.
        """
        before = everything(self.where)
        told = self.run(addresses)
        messages = {row.message: row.condition for row in self.spark.table("clusters").collect()}
        for name, one in told.items():
            condition, sentence = says[name]
            assert one.condition is condition and sentence in one.message, one
            assert messages[one.message] == condition and one.records == 0
        assert everything(self.where) == before

    def states(self) -> dict[str, dict[str, Rows]]:
        """The entities of every view, by cluster."""
        of_views = {view: in_files(self.where, view, format_of()) for view in _FEW}
        ids = {id for of_view in of_views.values() for id in of_view}
        return {id: {view: of_views[view].get(id, {}) for view in _FEW} for id in ids}


def expected(directory: Path) -> dict[str, Rows]:
    return {view: truth(image(directory), view) for view in _FEW}


def test_gaps_are_told_or_repaired(spark: SparkSession, logs: Any, tmp_path: Path) -> None:
    """The log of ``gap`` goes on behind a gap, that of ``cut`` is cut off for a while, ``wiped`` is
    wiped, and another cluster has the name ``replaced``; one beside them goes on.
    """
    source = logs("p-one-segments") / "nodes" / "7"
    late, whole, short = (copied(source, tmp_path, number) for number in range(3))
    cut_off(522, source, short)
    early, later, unwiped = (copied(short, tmp_path, number) for number in (3, 4, 5))
    renamed(early, cluster_of(late)), renamed(later, cluster_of(whole))
    wiped = shutil.copytree(logs("p-one-basic") / "nodes" / "1", tmp_path / "wiped")
    renamed(wiped, cluster_of(unwiped))
    anew, beside = logs("p-abort") / "nodes" / "1", logs("p-old") / "nodes" / "1"
    begin = {"gap": early, "cut": whole, "wiped": unwiped, "replaced": short}
    after = {"gap": late, "cut": later, "wiped": wiped, "replaced": anew}
    with log_servers(*begin.values(), *after.values(), beside) as addresses:
        at_begin = dict(zip(begin, addresses, strict=False))
        at_after = dict(zip(after, addresses[len(begin) :], strict=False))
        job = Job(spark, tmp_path / "tables", addresses[-1])
        assert all(job.goes_on(at_begin).values())
        register(spark, str(job.where), views=_FEW)
        states = job.states()
        for directory in begin.values():
            assert states[cluster_of(directory)] == expected(directory)

        says = {
            "gap": (Condition.GAP, "read up to 522 only"),
            "cut": (Condition.TRUNCATED, "ends at offset 522"),
            "wiped": (Condition.TRUNCATED, "resync"),
            "replaced": (Condition.REPLACED, f"was the cluster {cluster_of(short)}"),
        }
        job.stops(at_after, says)

        back = {**at_after, "cut": at_begin["cut"]}
        read = job.goes_on(back, "resync")
        assert not read.pop("cut") and all(read.values())
        states = job.states()
        for directory in (late, whole, wiped, anew):
            assert states[cluster_of(directory)] == expected(directory)
        assert expected(wiped)["acls"]
        # The new cluster has no ACL: its view has no record at all.
        assert not expected(anew)["acls"] and cluster_of(short) not in states
        gone = expected(early)["topics"].keys() - truth(image(late, at=985), "topics").keys()
        history = table(job.where, "topics_history")
        query = f"SELECT name FROM {history} WHERE origin = 'gap' AND deleted"
        of_gap = spark.sql(f"{query} AND cluster_id = '{cluster_of(late)}'").collect()
        assert gone and {(row.name,) for row in of_gap} == gone
        in_view = by_cluster(spark, "topics")
        assert in_view == {id: of["topics"] for id, of in states.items() if of["topics"]}

        assert not any(job.goes_on(back).values())


def test_measurements_of_the_bench_read_every_record(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # By this chance a job compacts the tables with its first merge, that of the changes.
    chance = SimpleNamespace(randrange=lambda _most: MERGES - 1)
    monkeypatch.setattr("kwire.spark.fleet.tables.random", chance)
    log = spark_fleet.ChangingLog(tmp_path / "log", 250)
    given = {"log": str(log.directory), "partitions": 250, "end": log.end}
    with log_servers(log.directory) as [address]:
        given |= {"server": address, "servers": [address], "where": str(tmp_path / "tables")}
        found = dict(spark_fleet.first_round(spark, given, ["partitions"]))
        assert found["records"] == 250 and found["cpu"] > 0
        found = dict(spark_fleet.changes(spark, given, ["partitions"], rounds=(0, 1)))
    assert found["records"] == spark_fleet.CHANGES and found["mib"] > 0
    assert found["compacted_mib"] > 0
    history = spark.table(table(tmp_path / "tables", "partitions_history"))
    assert history.count() == 250 + spark_fleet.CHANGES
    for job in ("underreplicated", "audit"):
        done = CliRunner().invoke(main, ["spark", job, str(tmp_path / "tables"), "-o", "json"])
        assert done.exit_code == 0 and "topic-" not in done.stdout, done.output


def test_tables_are_kept_in_an_object_store(spark: SparkSession, logs: Any, bucket: str) -> None:
    """By Hadoop's own client; a file system that is not there is told in a sentence."""
    directory, where = logs("p-one-segments") / "nodes" / "7", f"s3a://{bucket}/fleet"
    with log_servers(directory) as [address]:
        for _ in range(2):
            [told] = keep(spark, {"x": address}, where, views=("topics",))
            assert told.condition is Condition.OK, told
    assert told.records == 0
    register(spark, where, views=("topics", "acls"))
    assert rows(spark, "SELECT * FROM topics", "topics") == truth(image(directory), "topics")
    # A view that the job did not keep is there, and empty.
    assert spark.sql("SELECT * FROM acls_versions").collect() == []
    for other, why in (
        ("abfss://tables@account/fleet", "azurebfs"),
        ("dbfs:/fleet", "dbfs"),
        ("hdfs://127.0.0.1:1/fleet", "127.0.0.1"),
    ):
        with pytest.raises(FleetError, match=f"{other} cannot be used: .*{why}"):
            register(spark, other)
