"""Sinks that know nothing of kwire read the views: Kafka Connect writes them to files, as text and
by its converter for JSON with schema, and Spark makes tables of them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from gateway.ports.view_topics import CHANGES, VIEWS, view_topic
from gateway.views.schemas import VALUES, spark_schema
from kwire.cluster import Image
from kwire.cluster import view_offsets as offsets
from kwire.cluster.entities.settings import quota_entity_name
from kwire.spark import kafka_options
from kwire.spark.table.kinds import quota_entity
from tests.documented import Block, blocks
from tests.gateway.views.test_views_of_logs import images
from tests.gateway.views.view_reading import Table, opened, state, take
from tests.interop.clients import missing, need_java
from tests.interop.java_text import java_text, pieces
from tests.interop.reading import Record
from tests.interop.test_views import expected_records
from tests.kwire.spark.session import spark_session
from tests.shared import needs_shared
from tools import connect, java
from tools.gateway_process import Gateway, gateway

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = needs_shared

#: A log with every kind of change.
_LOG: Final = "p-one-basic"
_PAGE: Final = "docs/views.md"
_TEXT: Final = (CHANGES, "topics")
_WITHIN_S: Final = 120


class Served(NamedTuple):
    """A log directory, and the server of its views."""

    directory: Path
    server: Gateway

    def records(self, view: str, *, schemas: bool = False) -> list[Record]:
        """The view's records as the fold gives them without a server."""
        cluster_id = self.server.ready["cluster_id"]
        return expected_records(self.directory, view, cluster_id, schemas=schemas)


@pytest.fixture(scope="module")
def served(logs: Any) -> Iterator[Served]:
    directory = logs(_LOG) / "nodes/1/__cluster_metadata-0"
    with gateway("--source", "log", "--log-dir", str(directory)) as server:
        yield Served(directory, server)


@pytest.fixture(scope="module")
def of_snapshot(logs: Any) -> Iterator[Served]:
    """A log that begins with a snapshot."""
    directory = logs("p-one-segments") / "nodes/7/__cluster_metadata-0"
    with gateway("--source", "log", "--log-dir", str(directory)) as server:
        yield Served(directory, server)


def page(language: str) -> list[Block]:
    """The blocks of the page on views in one language."""
    return [one for one in blocks() if (one.page, one.language) == (_PAGE, language)]


def documented(block: Block, **more: str) -> dict[str, str]:
    """The properties of a block of the page, with others in their place or beside them."""
    return dict(line.split("=", 1) for line in block.text.splitlines()) | more


# --- Kafka Connect
# -------------------------------------------------------------------------------------------------


class Sunk(NamedTuple):
    """The lines of the files that the sinks of one worker wrote."""

    text: dict[str, list[str]]
    typed: list[str]
    entities: list[str]


@pytest.fixture(scope="module")
def sunk(
    served: Served, of_snapshot: Served, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sunk]:
    """One worker with a sink for each of two views, one for all views of a server that has schemas
    beside its JSON, and one that leaves out the end of a snapshot.
    """
    need_java()
    try:
        connect.file_jars()
    except java.JavaError as error:
        missing(f"Kafka Connect has no sink to files: {error}")
    scratch = tmp_path_factory.mktemp("connect")
    with_text, with_schemas, entities = page("properties")
    files = {view: scratch / f"{view}.jsonl" for view in (*_TEXT, "typed", "entities")}
    counts = {view: len(served.records(view)) for view in VIEWS}
    sinks = {
        view: documented(with_text, name=view, topics=view_topic(view), file=str(files[view]))
        for view in _TEXT
    }
    options = ("--source", "log", "--log-dir", str(served.directory))
    with (
        gateway(*options, "--metadata-views-schemas-enable") as other,
        gateway("--source", "log", "--log-dir", str(of_snapshot.directory)) as cut,
    ):
        sinks["entities"] = documented(
            with_text,
            name="entities",
            topics=view_topic("topics"),
            file=str(files["entities"]),
            **documented(entities),
            **{"consumer.override.bootstrap.servers": cut.bootstrap},
        )
        sinks["typed"] = documented(
            with_schemas,
            topics=",".join(map(view_topic, VIEWS)),
            file=str(files["typed"]),
            **{"consumer.override.bootstrap.servers": other.bootstrap},
        )
        expected = {view: counts.get(view, sum(counts.values())) for view in files}
        expected["entities"] = len(of_snapshot.records("topics")) - 1
        with connect.standalone(served.server.bootstrap, sinks, scratch) as worker:
            worker.wait_until(
                lambda: all(len(lines(files[one])) >= expected[one] for one in files), _WITHIN_S
            )
            failures = re.findall(r"^.*ERROR.*$", worker.output_end(100_000), re.MULTILINE)
    assert not failures
    text = {view: lines(files[view]) for view in _TEXT}
    yield Sunk(text, lines(files["typed"]), lines(files["entities"]))


def lines(file: Path) -> list[str]:
    """The whole lines of a file that may not be there yet."""
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return text.split("\n")[:-1]


@pytest.mark.parametrize("view", _TEXT)
def test_file_of_a_sink_is_the_view(sunk: Sunk, served: Served, view: str) -> None:
    """Of a record that has no value the sink writes the word null."""
    values = [one.value for one in served.records(view)]
    assert sunk.text[view] == ["null" if one is None else one.decode() for one in values]


def test_sink_that_filters_by_the_header_has_no_end_of_the_snapshot(
    sunk: Sunk, of_snapshot: Served
) -> None:
    records = of_snapshot.records("topics")
    end = offsets.of_complete(opened(of_snapshot.directory).snapshot_end)
    values = [one.value for one in records if one.offset != end]
    assert len(values) == len(records) - 1
    assert sunk.entities == ["null" if one is None else one.decode() for one in values]


def test_last_line_of_each_topic_is_the_topic_of_the_image(sunk: Sunk, served: Served) -> None:
    table: Table = {}
    for record, line in zip(served.records("topics"), sunk.text["topics"], strict=True):
        take(table, record._replace(value=None if line == "null" else line.encode()))  # type: ignore[arg-type]
    assert table == state(image_of(served))["topics"]


def image_of(served: Served) -> Image:
    """The cluster at the end of the log."""
    end = opened(served.directory).high_watermark
    ((_, image),) = images(served.directory, {end})
    return image


def test_converter_of_json_with_schema_gives_typed_rows(sunk: Sunk, served: Served) -> None:
    """Every record of every view; the order of the views, and of maps, is the worker's."""
    expected = []
    for view in VIEWS:
        for record in served.records(view, schemas=True):
            value = json.loads(record.value or b"null")
            shown = "null" if value is None else java_text(value["payload"], value["schema"])
            expected.append(pieces(shown))
    assert sorted(map(pieces, sunk.typed)) == sorted(expected)


# --- Spark
# -------------------------------------------------------------------------------------------------

#: View -> columns of the table of ``kwire.spark.tables`` where they are not those of the view.
_COLUMNS: Final = {
    "topics": ["id AS topicId", "name"],
    "configs": [
        "lower(resourceType) AS resourceType",
        "if(resourceName = '', '<default>', resourceName) AS resourceName",
        "explode(configs) AS (name, value)",
    ],
    "quotas": ["entity", "explode(quotas) AS (name, value)"],
    "features": ["feature AS name", "level"],
    "users": ["user AS name", "mechanism", "iterations"],
    "tokens": [
        *(name for name in VALUES["tokens"].fields if not name.endswith("Timestamp")),
        *(
            f"timestamp_millis({name}) AS {name}"
            for name in VALUES["tokens"].fields
            if name.endswith("Timestamp")
        ),
    ],
}
_ENTITIES: Final = tuple(view for view in VIEWS if view != CHANGES)
_VALIDITY: Final = ("validFromOffset", "validFromTime", "validToOffset", "validToTime")


class InSpark(NamedTuple):
    """The rows of all views as Spark's Kafka source gives them, and the tables of the same log."""

    spark: SparkSession
    rows: DataFrame
    tables: str


@pytest.fixture(scope="module")
def in_spark(served: Served, tmp_path_factory: pytest.TempPathFactory) -> InSpark:
    if os.environ.get("KWIRE_INTEROP") != "require":
        pytest.importorskip("pyspark", reason="PySpark is not installed (the extra 'spark' has it)")
    from kwire.spark import tables

    spark, into = spark_session(kafka=True), str(tmp_path_factory.mktemp("tables"))
    tables(spark, str(served.directory), into)
    # A view whose last record is before its end is read to the end when a Fetch has waited.
    waits: dict[str, Any] = {"kafka.fetch.max.wait.ms": 20}
    topics = ",".join(map(view_topic, VIEWS))
    options = kafka_options(served.server.bootstrap, topic=topics, **waits)
    rows = spark.read.format("kafka").options(**options).load()
    return InSpark(spark, rows.cache(), into)


def entities(rows: DataFrame, view: str) -> DataFrame:
    """The last value of each key of a view, in the columns of its schema."""
    from pyspark.sql.functions import col, from_json, max_by

    of_view = rows.where(col("topic") == view_topic(view))
    last = of_view.groupBy("key").agg(max_by("value", "offset").alias("value"))
    text = last.where("value is not null").select(col("value").cast("string"))
    return text.select(from_json("value", spark_schema(view)).alias("row")).select("row.*")


def shown(df: DataFrame, columns: Sequence[str]) -> list[str]:
    """The rows as text, sorted; maps have no order."""
    return sorted(
        json.dumps(row.asDict(recursive=True), sort_keys=True, default=str)
        for row in df.select(*columns).collect()
    )


@pytest.mark.parametrize("view", _ENTITIES)
def test_view_in_spark_is_the_table_of_kwire_spark(
    in_spark: InSpark, served: Served, view: str
) -> None:
    from kwire.spark import read_table

    table = read_table(in_spark.spark, in_spark.tables, view).drop("cluster_id")
    columns = [name for name in table.columns if name not in _VALIDITY]
    found = entities(in_spark.rows, view).selectExpr(*_COLUMNS.get(view, ["*"]))
    expected = shown(table, columns)
    assert expected, view
    if view == "quotas":  # the table names entities in another way
        found = found.replace(quota_names(served), subset=["entity"])
    assert shown(found, columns) == expected


@pytest.mark.parametrize("view", ["topics", "brokers"])
def test_view_without_a_jar_is_that_of_the_connector(
    in_spark: InSpark, served: Served, view: str
) -> None:
    """A view with deleted entities, and one with nested values."""
    from kwire.spark.topics import latest, read_topic

    rows = read_topic(in_spark.spark, served.server.bootstrap, view_topic(view))
    found, expected = latest(rows, spark_schema(view)), entities(in_spark.rows, view)
    assert shown(found, found.columns) == shown(expected, expected.columns) != []
    keys = {json.loads(row["key"])[next(iter(found.columns))] for row in latest(rows).collect()}
    assert len(keys) == found.count()


@pytest.mark.parametrize("source", ["kafka", "kwire-topic"])
def test_headers_name_the_cluster_and_say_when_a_snapshot_is_complete(
    in_spark: InSpark, of_snapshot: Served, source: str
) -> None:
    from pyspark.sql import DataFrame
    from pyspark.sql.functions import col, lit

    from kwire.spark.topics import read_topic

    bootstrap, spark = of_snapshot.server.bootstrap, in_spark.spark
    if source == "kafka":
        topics = ",".join(map(view_topic, VIEWS))
        waits: dict[str, Any] = {"kafka.fetch.max.wait.ms": 20, "includeHeaders": "true"}
        options = kafka_options(bootstrap, topic=topics, **waits)
        rows = spark.read.format("kafka").options(**options).load()
    else:
        tables = [
            read_topic(spark, bootstrap, view_topic(one)).withColumn("topic", lit(view_topic(one)))
            for one in VIEWS
        ]
        rows = reduce(DataFrame.unionByName, tables)
    end = opened(of_snapshot.directory).snapshot_end
    found = rows.select("topic", "offset", col("value").isNull().alias("gone"), "headers").collect()
    headers = [
        (row.topic, row.offset, {one.key: bytes(one.value).decode() for one in row.headers})
        for row in found
    ]
    assert {of["cluster_id"] for _, _, of in headers} == {of_snapshot.server.ready["cluster_id"]}
    assert any(row.gone for row in found)
    of_a_snapshot = {(topic, offset) for topic, offset, of in headers if "snapshot" in of}
    expected = {
        (view_topic(view), one.offset)
        for view in VIEWS
        for one in of_snapshot.records(view)
        if one.offset < offsets.at(end)
    }
    assert of_a_snapshot == expected
    complete = sorted(
        (topic, offset, of["snapshot_complete"])
        for topic, offset, of in headers
        if "snapshot_complete" in of
    )
    at, first = offsets.of_complete(end), str(offsets.of_snapshot(end))
    assert complete == sorted((view_topic(view), at, first) for view in VIEWS)
    assert len(of_a_snapshot) > len(complete)


def quota_names(served: Served) -> dict[Any, Any]:
    """The name of each entity in the table by its name in the view."""
    image = image_of(served)
    return {quota_entity_name(one): quota_entity(one) for one in image.quotas}


def test_changes_in_spark_are_the_history_of_kwire_spark(
    in_spark: InSpark, served: Served, tmp_path: Path
) -> None:
    """Spark reads the changes as a stream; each that leaves an entity begins a version of it."""
    from pyspark.sql.functions import col, from_json

    options = kafka_options(
        served.server.bootstrap, topic=view_topic(CHANGES), by="assign", start="earliest"
    )
    stream = in_spark.spark.readStream.format("kafka").options(**options).load()
    writer = stream.writeStream.format("memory").queryName(CHANGES).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    assert query.awaitTermination(_WITHIN_S)
    text = in_spark.spark.table(CHANGES).select(col("value").cast("string"))
    changes = text.select(from_json("value", spark_schema(CHANGES)).alias("change")).cache()
    for view in ("topics", "partitions"):
        compare_versions(in_spark, changes, view)


def compare_versions(in_spark: InSpark, changes: DataFrame, view: str) -> None:
    """Assert that the changes have each version of each entity of the table, and no other."""
    from kwire.spark import read_table

    of_view = changes.where(f"change.kind = '{view[:-1]}' and change.after is not null")
    if view == "topics":  # the table has no partitions and configs, with which the view changes
        of_view = of_view.where("change.op != 'u'")
    versions = of_view.selectExpr(
        f"from_json(change.after, '{spark_schema(view)}') AS row",
        "coalesce(change.source.transaction_end, change.source.offset) AS validFromOffset",
    ).selectExpr("row.*", "validFromOffset")
    table = read_table(in_spark.spark, in_spark.tables, view, history=True).drop("cluster_id")
    columns = [one for one in table.columns if one not in _VALIDITY[1:]]
    found = versions.selectExpr(*_COLUMNS.get(view, [*VALUES[view].fields]), "validFromOffset")
    expected = shown(table, columns)
    assert len(expected) > 10 and shown(found, columns) == expected


def test_code_of_the_page_runs(in_spark: InSpark, served: Served) -> None:
    names: dict[str, Any] = {"spark": in_spark.spark}
    for block in page("python"):
        exec(block.text.replace("localhost:9092", served.server.bootstrap), names)
    assert names["columns"] == spark_schema("topics")
    of_clusters = names["entities"].groupBy("cluster_id").count().collect()
    count = len(served.records("topics"))
    assert of_clusters == [(served.server.ready["cluster_id"], count)], "no snapshot, no marker"
    assert shown(names["topics"], ["*"]) == shown(entities(in_spark.rows, "topics"), ["*"])
