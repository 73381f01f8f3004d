"""Answers to the questions of ``kwire.spark.questions`` over the tables of a log that Kafka wrote
are those that the records of its views give.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

if os.environ.get("KWIRE_INTEROP") != "require":
    pytest.importorskip("pyspark", reason="PySpark is not installed (the extra 'spark' has it)")

from kwire.cluster import view_offsets as offsets
from kwire.spark import tables
from kwire.spark.fleet import sql
from kwire.spark.fleet.place import CLUSTERS, CLUSTERS_COLUMNS, Place
from kwire.spark.fleet.views import VIEWS as FLEET
from kwire.spark.questions import QUESTIONS, ask, asked, register_tables
from tests.documented import ROOT, blocks
from tests.gateway.server.views.test_view_maker import removed
from tests.gateway.sources.metadata_files import batch, write_segment
from tests.gateway.views.test_fold import topic
from tests.interop.question_truth import BY_HAND, FLAPPING, UNDER_REPLICATED, LogTruth
from tests.kwire.spark.session import spark_session
from tests.shared import needs_shared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kwire.spark.fleet.place import Format

pytestmark = needs_shared

#: The views that the tests ask. The others have no table, as for a job that does not keep them.
_ASKED: Final = [
    FLEET[name] for name in ("topics", "partitions", "configs", "acls", "brokers", "changes")
]
_DATABASE: Final = "questions_of_a_fleet"
_PAGE: Final = "docs/spark-questions.md"
_NOTEBOOK: Final = ROOT / "docs/examples/questions.ipynb"


@dataclass(frozen=True)
class Asked:
    """A session with the views of the tables of a log, where they are, and the log."""

    spark: SparkSession
    where: str
    directory: Path
    format: Format | None
    answers: dict[str, Any] = field(default_factory=dict)

    @property
    def truth(self) -> LogTruth:
        return LogTruth(self.directory)

    def rows(self, question: str, *columns: str, **parameters: Any) -> list[Any]:
        """The answer to a question, which is asked once for all tests."""
        key = repr((question, columns, parameters))
        if key not in self.answers:
            rows = ask(self.spark, question, **parameters).selectExpr(*columns)
            self.answers[key] = rows.collect()
        return cast(list[Any], self.answers[key])


@pytest.fixture(scope="module", params=["one log", "fleet"])
def quorum(request: Any, logs: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """Three brokers that went and came back, with reassignments and configs of single brokers."""
    directory = logs("p-quorum") / "nodes/3/__cluster_metadata-0"
    spark, where = spark_session(kafka=False), str(tmp_path_factory.mktemp("tables"))
    own = spark.newSession()
    own.conf.set("spark.sql.shuffle.partitions", "2")
    if request.param == "one log":
        tables(spark, str(directory), where)
        register_tables(own, where)
        yield Asked(own, where, directory, None)
        return
    fill(own, directory)
    register_tables(own, _DATABASE, format="iceberg")
    yield Asked(own, _DATABASE, directory, "iceberg")
    own.sql(f"DROP DATABASE {_DATABASE} CASCADE")


def fill(spark: SparkSession, directory: Path) -> None:
    """Make the fleet's tables of one log, as files that every PySpark writes: the statements that
    read them do not know the format.
    """
    place = Place(_DATABASE, "iceberg")
    spark.sql(f"CREATE DATABASE {_DATABASE}")
    spark.sql(sql.create(place.table(CLUSTERS), CLUSTERS_COLUMNS, "parquet", "", partitioned=False))
    raw = [
        ("c", 0, view.topic, (one.key or b"").decode(), one.value and one.value.decode(),
         one.offset, datetime.fromtimestamp(one.timestamp / 1000, UTC))
        for view in _ASKED
        for one in LogTruth(directory).records(view.name)
    ]  # fmt: skip
    columns = "cluster_id STRING, generation INT, topic STRING, key STRING, value STRING"
    rows = spark.createDataFrame(raw, f"{columns}, offset BIGINT, timestamp TIMESTAMP")
    rows.createOrReplaceTempView("raw")
    for view in _ASKED:
        history, *state = (place.table(name) for name in view.tables)
        for table in (history, *state):
            spark.sql(sql.create(table, view.columns, "parquet", "", partitioned=False))
        spark.sql(f"INSERT INTO {history} {sql.records(view, 'raw')}")
        for table in state:
            spark.sql(f"INSERT INTO {table} {sql.last(view, history)}")


def test_spans_of_partitions_with_too_few_in_sync_are_those_of_the_view(quorum: Asked) -> None:
    expected = quorum.truth.under_replicated()
    found = quorum.rows("under_replicated", *UNDER_REPLICATED, seconds=0)
    assert sorted(map(str, map(tuple, found))) == sorted(map(str, expected))
    assert len(expected) > 100 and any(until is None for *_, until, _ in expected)


def test_only_spans_that_are_long_enough_are_told(quorum: Asked) -> None:
    every = quorum.rows("under_replicated", "seconds", seconds=0)
    long = quorum.rows("under_replicated", "seconds", seconds=100)
    assert [row for row in every if row.seconds > 100] == long
    assert 0 < len(long) < len(every)
    assert [row.seconds for row in every] == sorted((row.seconds for row in every), reverse=True)
    assert quorum.rows("under_replicated", "seconds") == [r for r in every if r.seconds > 300]


def test_fenced_spans_of_brokers_are_those_of_the_view(quorum: Asked) -> None:
    expected = quorum.truth.flapping()
    found = {tuple(row) for row in quorum.rows("flapping_brokers", *FLAPPING)}
    assert found == expected and max(times for _, times, _ in expected) > 2


def test_fenced_spans_before_the_time_asked_for_are_left_out(quorum: Asked) -> None:
    middle = datetime.fromtimestamp(quorum.truth.last_ms() / 1000 - 30, UTC)
    times = [
        sum(row.fencedTimes for row in quorum.rows("flapping_brokers", "fencedTimes", **since))
        for since in ({}, {"since": middle}, {"since": datetime(2100, 1, 1, tzinfo=UTC)})
    ]
    assert times[0] > times[1] > times[2] == 0


def test_drift_of_brokers_is_what_their_configs_do_not_share(quorum: Asked) -> None:
    found = quorum.rows("config_drift", "scope", "name", "values")
    assert {row.name: row["values"] for row in found} == quorum.truth.drift() != {}
    assert {row.scope for row in found} == {"broker"}


def test_drift_between_clusters_shows_what_is_not_set(quorum: Asked) -> None:
    spark = quorum.spark.newSession()
    spark.sql("SELECT * FROM VALUES ('a', 't'), ('b', 't'), ('a', 'u') AS topics (cluster_id, name)"
              ).createOrReplaceTempView("topics")  # fmt: skip
    spark.sql("SELECT 'a' AS cluster_id, 1 AS id UNION ALL SELECT 'b', 1"
              ).createOrReplaceTempView("brokers")  # fmt: skip
    spark.sql(
        "SELECT * FROM VALUES"
        " ('a', 'TOPIC', 't', map('retention.ms', '1', 'segment.ms', '5')),"
        " ('b', 'TOPIC', 't', map('segment.ms', '5')),"
        " ('a', 'TOPIC', 'u', map('retention.ms', '1')),"
        " ('a', 'BROKER', '', map('min.insync.replicas', '1')),"
        " ('b', 'BROKER', '', map('min.insync.replicas', '2'))"
        " AS configs (cluster_id, resourceType, resourceName, configs)"
    ).createOrReplaceTempView("configs")
    assert [tuple(row) for row in ask(spark, "config_drift").collect()] == [
        ("brokers by default", "", "min.insync.replicas", {"a": "1", "b": "2"}),
        ("topic", "t", "retention.ms", {"a": "1", "b": None}),
    ]


def test_changes_by_hand_are_those_of_the_view(quorum: Asked) -> None:
    # In the tables of one log a topic's number of partitions and its configs are changes of these.
    of_kinds = [
        one for one in quorum.truth.by_hand() if quorum.format or one[1:3] != ("topic", "u")
    ]
    expected = {(offset, kind) for offset, kind, _, _ in of_kinds}
    visible = {(offset, kind) for offset, kind, _, is_visible in of_kinds if is_visible}
    found = quorum.rows("who_changed_what", "offset", "kind", "before", "after")
    assert {(row.offset, row.kind) for row in found} >= expected
    assert {(row.offset, row.kind) for row in found if row.before or row.after} == visible
    assert {row.kind for row in found} == BY_HAND and visible < expected


def test_client_is_named_where_the_audit_topic_is_at_hand(quorum: Asked) -> None:
    changed = quorum.rows("who_changed_what", "offset", "kind")
    first = next(row.offset for row in changed if row.kind == "acl")
    spark = quorum.spark.newSession()
    who = spark.createDataFrame(
        [(first, first + 1, "User:ann", "10.0.0.1", "admin", "CreateAcls")],
        "offset BIGINT, last_offset BIGINT, principal STRING, host STRING, client_id STRING,"
        " api STRING",
    )
    register_tables(spark, quorum.where, audit=who, format=quorum.format)
    found = ask(spark, "who_changed_what").collect()
    named = {row.offset for row in found if row.principal == "User:ann"}
    assert len(found) == len(changed)
    assert named == {row.offset for row in changed if first <= row.offset <= first + 1}
    assert {row.principal for row in found if row.offset not in named} == {None}


def test_topic_that_was_created_again_is_told_with_its_ids(tmp_path: Path) -> None:
    spark, directory = spark_session(kafka=False), tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    again = topic(3)
    again.name = "t1"
    steps = (topic(1), topic(2), removed(1), again)
    write_segment(directory, 0, *(batch(at, one, timestamp=at) for at, one in enumerate(steps)))
    tables(spark, str(directory), str(tmp_path / "tables"))
    found = asked(spark, str(tmp_path / "tables"), "recreated_topics").collect()
    ids = [str(topic(1).topic_id), str(again.topic_id)]
    assert [(row.name, row.lives, row.ids) for row in found] == [("t1", 2, ids)]
    assert asked(spark, str(tmp_path / "tables"), "config_drift").collect() == []


@pytest.mark.parametrize("view", ["topics", "configs", "partitions", "acls"])
def test_view_has_the_rows_and_columns_of_the_view_topic(quorum: Asked, view: str) -> None:
    expected = quorum.truth.state(view)
    rows = quorum.spark.table(view).select(*expected[0]).collect()
    found = [row.asDict(recursive=True) for row in rows]
    assert sorted(json.dumps(one, sort_keys=True) for one in found) == sorted(
        json.dumps(one, sort_keys=True) for one in expected
    )


def test_changed_has_offset_and_kind_of_each_change(quorum: Asked) -> None:
    rows = quorum.spark.table("changed").where("kind = 'partition'").select("offset", "name")
    found = {(row.offset, row["name"]) for row in rows.collect()}
    expected = {
        (
            offsets.log_offset(record.offset),
            ":".join(map(str, json.loads(record.key or b"").values())),
        )
        for record in quorum.truth.records("partitions")
    }
    assert found == expected


@pytest.mark.parametrize(
    ("question", "parameters", "sentence"),
    [
        ("weather", {}, "questions are who_changed_what"),
        ("config_drift", {"since": 1}, "takes no parameter, not since"),
        ("under_replicated", {"minutes": 1}, "takes seconds, not minutes"),
    ],
)
def test_question_that_cannot_be_asked_is_refused(
    quorum: Asked, question: str, parameters: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        ask(quorum.spark, question, **parameters)


@pytest.mark.parametrize("quorum", ["one log"], indirect=True)
def test_jobs_answer_without_a_view_in_the_session(quorum: Asked) -> None:
    from kwire.spark.jobs import JOBS

    spark = spark_session(kafka=False).newSession()
    for job in ("underreplicated", "drift", "audit"):
        assert JOBS[job](spark, quorum.where).count() > 0
    assert not [one for one in spark.catalog.listTables() if one.name == "topics"]
    assert "principal" not in JOBS["audit"](spark, quorum.where).columns


@pytest.mark.parametrize("quorum", ["one log"], indirect=True)
def test_code_of_the_page_and_of_the_notebook_runs(quorum: Asked) -> None:
    """docs/spark-questions.md; every question is on the page."""
    page = [one for one in blocks() if (one.page, one.language) == (_PAGE, "python")]
    cells = json.loads(_NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    codes = ["".join(one["source"]) for one in cells if one["cell_type"] == "code"]
    for texts in ([one.text for one in page], codes):
        names: dict[str, Any] = {"spark": quorum.spark.newSession()}
        for text in texts:
            text = text.replace("/data/metadata", quorum.where)
            exec(text.replace("SparkSession.builder.getOrCreate()", "spark"), names)
    text = (ROOT / _PAGE).read_text(encoding="utf-8")
    assert all(f"`{question}`" in text for question in QUESTIONS)
    assert all(f'"{question}"' in "".join(codes) for question in QUESTIONS)
