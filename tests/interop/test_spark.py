"""Spark's own Kafka source reads a kwire server: batches and streams, every way to name the
topic, restarts, and decoded columns.

One session and one server serve all tests of whole logs. Tests that append use a copy with a server
of its own.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.speed import measured
from tests.waiting import PATIENCE_S, until
from tools.process import Process

if os.environ.get("KWIRE_INTEROP") != "require":
    pytest.importorskip("pyspark", reason="PySpark is not installed (the extra 'spark' has it)")

from kwire.spark import decode, kafka_options, typed
from kwire.spark.options import Way
from tests.interop.clients import need_java
from tests.interop.conftest import READ
from tests.interop.quorum import wait_for_end
from tests.interop.reading import Record, digest, first_difference
from tests.interop.spark_queries import CutOff, batch, following, records, run_to_the_end, stream
from tests.interop.spark_serving import BY, EXAMPLES, ROOT, Served, serving, submitted
from tests.interop.test_logs import check_prefix, new_batches
from tests.kwire.spark.session import spark_session
from tests.shared import needs_shared
from tools.gateway_process import gateway
from tools.kafka import kafka

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = needs_shared

_EVERYTHING = 10_000_000
#: A log from offset 0, and one that starts at a snapshot, so that its records come first.
WHOLE, CUT = ("p-one-basic", "nodes/1"), ("p-one-segments", "nodes/7")
ALL_BY = pytest.mark.parametrize("by", BY)


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return spark_session(kafka=True)


@pytest.fixture(scope="module", params=[WHOLE, CUT], ids=["from-0", "from-a-snapshot"])
def served(request: Any, logs: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(logs, request.param, tmp_path_factory.mktemp("served")) as one:
        yield one


@pytest.fixture(scope="module")
def whole(logs: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(logs, WHOLE, tmp_path_factory.mktemp("whole")) as one:
        yield one


@pytest.fixture
def growing(logs: Any, tmp_path: Path) -> Iterator[Served]:
    with serving(logs, WHOLE, tmp_path) as one:
        yield one


def check_whole(
    seen: Sequence[Record], served: Served, way: str, added: Sequence[Record] = ()
) -> None:
    """``seen`` must be every record of the log's files, byte for byte, and the appended ones."""
    prefix = [record for record in seen if record.offset < served.log.start_offset]
    assert not first_difference(seen[len(prefix) :], [*served.log.records(), *added])
    check_prefix(prefix, served.log)
    READ.append((served.name, f"spark-{way}", len(seen), digest(seen)))


@ALL_BY
def test_batch_reads_the_whole_topic(spark: SparkSession, served: Served, by: Way) -> None:
    check_whole(records(batch(spark, served.options(by))), served, f"batch-{by}")


@ALL_BY
def test_available_now_reads_the_whole_topic(
    spark: SparkSession, served: Served, by: Way, tmp_path: Path
) -> None:
    options = served.options(by, start="earliest", max_offsets_per_trigger=400)
    sink = run_to_the_end(stream(spark, options), tmp_path / "checkpoint")
    assert len(sink.batches) > 1
    check_whole(sink.records(), served, f"available-now-{by}")


@ALL_BY
def test_micro_batches_read_the_whole_topic(
    spark: SparkSession, served: Served, by: Way, tmp_path: Path
) -> None:
    count = len(served.log.snapshot_values()) + len(served.log.records())
    options = served.options(by, start="earliest")
    with following(stream(spark, options), tmp_path / "checkpoint") as sink:
        until(lambda: len(sink.records()) >= count, f"{count} records")
    check_whole(sink.records(), served, f"micro-batches-{by}")


def test_batch_in_slices_reads_the_whole_topic(spark: SparkSession, whole: Served) -> None:
    check_whole(
        records(batch(spark, whole.options("assign", minPartitions=3))), whole, "batch-3-slices"
    )


@pytest.mark.parametrize("by", ["subscribe", "assign"])
def test_positions_by_offset(spark: SparkSession, whole: Served, by: Way, tmp_path: Path) -> None:
    every = whole.log.records()
    first, last = every[40].offset, every[90].offset
    assert records(batch(spark, whole.options(by, start=first, end=last))) == every[40:90]
    sink = run_to_the_end(stream(spark, whole.options(by, start=first)), tmp_path / "checkpoint")
    assert sink.records() == every[40:]


@ALL_BY
def test_positions_by_time(spark: SparkSession, whole: Served, by: Way, tmp_path: Path) -> None:
    every = whole.log.records()
    since, until = every[len(every) // 3].timestamp, every[2 * len(every) // 3].timestamp
    assert since < until
    # Kafka answers with the first record whose time is not before: times in this log never go back.
    assert [one.timestamp for one in every] == sorted(one.timestamp for one in every)
    start, end = (
        datetime.fromtimestamp(ms / 1000, UTC).replace(microsecond=ms % 1000 * 1000)
        for ms in (since, until)
    )
    expected = [one for one in every if since <= one.timestamp]
    between = [one for one in expected if one.timestamp < until]
    assert records(batch(spark, whole.options(by, start=start, end=end))) == between
    sink = run_to_the_end(stream(spark, whole.options(by, start=start)), tmp_path / "checkpoint")
    assert sink.records() == expected


def test_micro_batch_that_failed_is_repeated(
    spark: SparkSession, whole: Served, tmp_path: Path
) -> None:
    df = stream(spark, whole.options("assign", start="earliest", max_offsets_per_trigger=400))
    sink = CutOff(good=2)
    with pytest.raises(Exception, match="cut off here"):
        run_to_the_end(df, tmp_path / "checkpoint", sink)
    rest = run_to_the_end(df, tmp_path / "checkpoint")
    assert min(rest.batches) == 2
    assert sink.records() + rest.records() == whole.log.records()


def test_restarted_query_continues_from_its_checkpoint(
    spark: SparkSession, growing: Served, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    df = stream(spark, growing.options("assign", start="earliest"))
    check_whole(run_to_the_end(df, checkpoint).records(), growing, "before-restart")
    assert run_to_the_end(df, checkpoint).records() == []
    added = append(growing)
    assert run_to_the_end(df, checkpoint).records() == added
    # Started again it takes up the checkpoint, whatever the start option says.
    assert (
        run_to_the_end(
            stream(spark, growing.options("assign", start="latest")), checkpoint
        ).records()
        == []
    )


def append(served: Served) -> list[Record]:
    """Real batches written behind the last one, as Kafka would: the records in them."""
    added = []
    for data, found in new_batches(served.log):
        with (served.directory / served.log.segments[-1].name).open("ab") as segment:
            segment.write(data)
        added += found
    wait_for_end(
        served.bootstrap, added[-1].offset + 1
    )  # a query that ends with what there is may be quicker than the server
    return added


def test_appended_records_reach_a_running_stream(
    spark: SparkSession, growing: Served, tmp_path: Path
) -> None:
    count = len(growing.log.records())
    with following(
        stream(spark, growing.options("subscribe", start="earliest")), tmp_path / "checkpoint"
    ) as sink:
        until(lambda: len(sink.records()) == count, f"{count} records")
        added = append(growing)
        with measured("records, from the log to a running stream", usual_s=2):
            until(lambda: len(sink.records()) >= count + len(added), "the appended records")
    check_whole(sink.records(), growing, "followed", added)


def test_checkpoint_before_the_log_start_fails_unless_loss_is_allowed(
    spark: SparkSession, logs: Any, tmp_path: Path
) -> None:
    """The query fails, also when it is restarted; with failOnDataLoss=false it continues with the
    records that are left.
    """
    checkpoint = tmp_path / "checkpoint"
    with serving(logs, CUT, tmp_path) as cut:
        df = stream(spark, cut.options("assign", start="earliest", max_offsets_per_trigger=60))
        with pytest.raises(Exception, match="cut off here"):
            run_to_the_end(df, checkpoint, CutOff(good=1))
    with gateway(
        "--source", "log", "--log-dir", str(cut.directory), "--no-snapshot-prefix"
    ) as server:
        for _ in range(2):
            with pytest.raises(
                Exception, match=r"(?i)data may have been lost|could not read records in offset"
            ):
                run_to_the_end(
                    stream(spark, kafka_options(server.bootstrap, by="assign")), checkpoint
                )
        df = stream(spark, kafka_options(server.bootstrap, by="assign", fail_on_data_loss=False))
        assert run_to_the_end(df, checkpoint).records() == cut.log.records()


def test_decoded_columns_equal_kafka_dump_log(spark: SparkSession, served: Served) -> None:
    rows = (
        decode(batch(spark, served.options("subscribe")), secrets=True).orderBy("offset").collect()
    )
    assert [row.error for row in rows] == [None] * len(rows)
    start = served.log.start_offset
    seen = [
        (row.offset, row.type, row.version, json.loads(row.data))
        for row in rows
        if row.offset >= start
    ]
    said = {
        line["offset"]: line
        for line in truth(served)
        if line["offset"] >= start and "control" not in line
    }
    assert seen == [
        (offset, line["type"], line["version"], line["data"])
        for offset, line in sorted(said.items())
    ]


def truth(served: Served) -> Iterator[dict[str, Any]]:
    """The output of kafka-dump-log for the log's segments."""
    for segment in served.log.segments:
        with (served.truth / f"{segment.name}.jsonl").open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def test_typed_columns_equal_kafka_dump_log(spark: SparkSession, whole: Served) -> None:
    df = typed(batch(spark, whole.options("subscribe")), "PARTITION_RECORD")
    seen = {
        row.offset: row for row in df.select("offset", "version", "error", "record.*").collect()
    }
    said = {line["offset"]: line for line in truth(whole) if line.get("type") == "PARTITION_RECORD"}
    assert seen.keys() == said.keys() and len(seen) > 100
    for offset, line in said.items():
        row = seen[offset]
        assert (row.version, row.error) == (line["version"], None)
        # Tagged fields at their default are not in Kafka's JSON, and are in the columns.
        assert {name: row[name] for name in line["data"]} == line["data"]


def _printed(job: Process, line: str) -> bool:
    return line in job.output_end(_EVERYTHING)


def example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_example_batch(
    spark: SparkSession, whole: Served, capfd: pytest.CaptureFixture[str]
) -> None:
    example("spark_batch").main(whole.bootstrap)
    rows = batch(spark, whole.options("subscribe"))
    counts = {(row[0], row[1]): row[2] for row in example("spark_batch").counts(rows).collect()}
    said: dict[tuple[str, int], int] = {}
    for line in truth(whole):
        if "type" in line:
            said[line["type"], line["version"]] = said.get((line["type"], line["version"]), 0) + 1
    assert counts == said
    removed = {
        line["data"]["topicId"]
        for line in truth(whole)
        if line.get("type") == "REMOVE_TOPIC_RECORD"
    }
    created = {
        line["data"]["topicId"]: line["data"]["name"]
        for line in truth(whole)
        if line.get("type") == "TOPIC_RECORD"
    }
    topics = example("spark_batch").topics(rows).collect()
    assert {(row.name, row.topicId) for row in topics} == {
        (n, i) for i, n in created.items() if i not in removed
    }
    assert all(row.partitions > 0 for row in topics)


def test_example_tables(spark: SparkSession, growing: Served, tmp_path: Path) -> None:
    tables = example("spark_tables")
    tables.update(spark, growing.bootstrap, str(tmp_path / "metadata"))
    offsets = [record.offset for record in growing.log.records()]
    assert _offsets(tables.table(spark, str(tmp_path / "metadata"))) == offsets
    added = append(growing)
    tables.update(spark, growing.bootstrap, str(tmp_path / "metadata"))
    assert _offsets(tables.table(spark, str(tmp_path / "metadata"))) == offsets + [
        record.offset for record in added
    ]


def _offsets(df: DataFrame) -> list[int]:
    return [row.offset for row in df.select("offset").orderBy("offset").collect()]


def test_code_of_the_page_runs(
    spark: SparkSession, whole: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {"spark": spark}
    for block in blocks:
        if "readStream" not in block:
            exec(block.replace("localhost:9092", whole.bootstrap), names)
    assert len(blocks) == 5
    assert names["partitions"].count() == sum(
        line.get("type") == "PARTITION_RECORD" for line in truth(whole)
    )
    for linked in re.findall(r"\(examples/(\w+)\.py\)", page):
        assert callable(example(linked).main)


def test_running_stream_prints_a_topic_created_on_kafka(
    spark: SparkSession, tmp_path: Path
) -> None:
    from kafka import KafkaAdminClient

    need_java()
    with (
        kafka() as cluster,
        gateway("--source", "log", "--log-dir", str(cluster.nodes[0].log_dir)) as server,
        submitted(
            "spark_stream.py", [server.bootstrap, str(tmp_path / "checkpoint")], tmp_path
        ) as job,
    ):
        job.wait_until(
            lambda: "FEATURE_LEVEL_RECORD" in job.output_end(_EVERYTHING), 2 * PATIENCE_S
        )
        admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
        for name in ("first-of-two", "second-of-two"):
            admin.create_topics({name: {"num_partitions": 3, "replication_factor": 1}})
            line = f'TOPIC_RECORD {{"name":"{name}"'
            with measured("a topic, from Kafka's answer to the line of Spark", usual_s=2):
                job.wait_until(partial(_printed, job, line), PATIENCE_S, 0.02)
        admin.close()
