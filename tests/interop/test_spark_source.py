"""``format("kwire")`` in a Spark session reads a server, in batches and in streams with
restarts, and files.

Each must give the records that Kafka's own dump prints.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if os.environ.get("KWIRE_INTEROP") != "require":
    pytest.importorskip("pyspark", reason="PySpark is not installed (the extra 'spark' has it)")

from kwire.spark import register
from tests.interop.quorum import wait_for_end
from tests.interop.test_logs import copied, new_batches
from tests.interop.truth import Log
from tests.kwire.spark.session import spark_session
from tests.shared import needs_shared
from tools.gateway_process import gateway

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = needs_shared

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "spark-source.md"
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
#: (offset, type, version, data)
Row = tuple[int, str, int, Any]


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    session = spark_session(kafka=False)
    register(session)
    return session


@dataclass
class Served:
    """A copy of a log, where it is served, and what Kafka's tool prints of its segments."""

    log: Log
    bootstrap: str
    directory: Path
    said: list[Row]

    def options(self, **more: Any) -> dict[str, str]:
        return {
            "bootstrap.servers": self.bootstrap,
            "secrets": "true",
            **{name: str(value) for name, value in more.items()},
        }


@contextmanager
def serving(logs: Any, name: str, node: str, into: Path) -> Iterator[Served]:
    log, directory = copied(logs(name), f"nodes/{node}", into)
    said = [
        row
        for segment in log.segments
        for row in truth(logs(name) / "truth" / node / f"{segment.name}.jsonl")
    ]
    with gateway("--source", "log", "--log-dir", str(directory)) as server:
        yield Served(
            log, server.bootstrap, directory, [row for row in said if row[0] >= log.start_offset]
        )


def truth(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            if "control" not in line:
                yield line["offset"], line["type"], line["version"], line["data"]


@pytest.fixture(scope="module")
def whole(logs: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(logs, "p-one-basic", "1", tmp_path_factory.mktemp("whole")) as one:
        yield one


def batch(spark: SparkSession, options: dict[str, str]) -> list[Row]:
    return rows(spark.read.format("kwire").options(**options).load())


def rows(df: DataFrame) -> list[Row]:
    found = df.select("offset", "type", "version", "data", "error").collect()
    assert [row.error for row in found] == [None] * len(found)
    return sorted((row.offset, row.type, row.version, json.loads(row.data)) for row in found)


@dataclass
class Sink:
    """Collects micro-batches; the ``bad`` one fails before it is kept, as a crash would have it."""

    bad: int = -1
    batches: dict[int, list[Row]] = field(default_factory=dict)

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        if batch_id == self.bad:
            raise RuntimeError("cut off here")
        self.batches[batch_id] = rows(df)

    def rows(self) -> list[Row]:
        return [row for _, found in sorted(self.batches.items()) for row in found]


def run(spark: SparkSession, options: dict[str, str], checkpoint: Path, bad: int = -1) -> Sink:
    """An AvailableNow query to its end."""
    sink = Sink(bad)
    df = spark.readStream.format("kwire").options(**options).load()
    query = (
        df.writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        if bad < 0:
            assert query.awaitTermination(60), "the query did not end within a minute"
        else:
            with pytest.raises(Exception, match="cut off here"):
                query.awaitTermination(60)
    finally:
        query.stop()
    return sink


def append(served: Served) -> list[int]:
    """Real batches written behind the last one, as Kafka would: their offsets."""
    added = []
    for data, found in new_batches(served.log):
        with (served.directory / served.log.segments[-1].name).open("ab") as segment:
            segment.write(data)
        added += [record.offset for record in found]
    wait_for_end(
        served.bootstrap, added[-1] + 1
    )  # a query that ends with what there is may be quicker than the server
    return added


def test_batch_equals_kafka_dump_log(spark: SparkSession, whole: Served) -> None:
    assert batch(spark, whole.options()) == whole.said
    assert batch(spark, whole.options(minPartitions=3)) == whole.said
    # Offsets of the log's control records are no rows, also at the ends.
    for start, end in ((0, 3), (100, 700)):
        expected = [row for row in whole.said if start <= row[0] < end]
        assert batch(spark, whole.options(startingOffsets=start, endingOffsets=end)) == expected
    every = whole.log.records()
    since, until = every[len(every) // 3].timestamp, every[2 * len(every) // 3].timestamp
    between = [record.offset for record in every if since <= record.timestamp < until]
    assert [
        row[0]
        for row in batch(spark, whole.options(startingTimestamp=since, endingTimestamp=until))
    ] == between


def test_batch_of_some_record_types_has_these_only(spark: SparkSession, whole: Served) -> None:
    wanted = [row for row in whole.said if row[1] in ("TOPIC_RECORD", "REMOVE_TOPIC_RECORD")]
    assert len(wanted) > 10
    assert batch(spark, whole.options(recordTypes="TopicRecord,REMOVE_TOPIC_RECORD")) == wanted
    assert batch(spark, whole.options(entities="topic")) == wanted
    busy = [row for row in whole.said if row[1] != "NO_OP_RECORD"]
    assert batch(spark, whole.options(excludeRecordTypes="NoOpRecord")) == busy


def test_pushed_filters_give_the_filtered_rows(spark: SparkSession, whole: Served) -> None:
    kinds = ("TOPIC_RECORD", "CONFIG_RECORD")
    spark.conf.set(PUSHDOWN, "true")
    try:
        register(spark)
        for options in (whole.options(), {"path": str(whole.directory), "secrets": "true"}):
            df = spark.read.format("kwire").options(**options).load()
            found = rows(
                df.where(
                    "type in ('TOPIC_RECORD', 'CONFIG_RECORD') and offset > 300 and offset <= 600"
                )
            )
            assert found == [row for row in whole.said if row[1] in kinds and 300 < row[0] <= 600]
            found = rows(df.where("entity = 'topic' and offset < 600"))
            assert found == [
                row
                for row in whole.said
                if row[1] in ("TOPIC_RECORD", "REMOVE_TOPIC_RECORD") and row[0] < 600
            ]
            assert (
                rows(df.where("type = 'NO_SUCH_RECORD'"))
                == rows(df.where("offset = 500 and offset = 501"))
                == []
            )
    finally:
        spark.conf.set(PUSHDOWN, "false")
        register(spark)


def test_restarted_stream_gives_every_row_once(
    spark: SparkSession, logs: Any, tmp_path: Path
) -> None:
    with serving(logs, "p-one-segments", "7", tmp_path) as served:
        options, checkpoint = (
            served.options(startingOffsets="earliest", maxOffsetsPerTrigger=200),
            tmp_path / "checkpoint",
        )
        first = run(spark, options, checkpoint, bad=2)
        second = run(spark, options, checkpoint)
        assert sorted(first.batches) == [0, 1] and min(second.batches) == 2
        prefix = len(served.log.snapshot_values())
        seen = first.rows() + second.rows()
        assert seen[prefix:] == served.said
        assert all(offset < served.log.start_offset for offset, *_ in seen[:prefix])
        assert run(spark, options, checkpoint).rows() == []
        added = append(served)
        assert [row[0] for row in run(spark, options, checkpoint).rows()] == added


def test_latest_stays_at_the_first_start_of_the_query(
    spark: SparkSession, logs: Any, tmp_path: Path
) -> None:
    """Spark asks for the start again when it repeats the first micro-batch, after the log has
    grown.
    """
    checkpoint = tmp_path / "checkpoint"
    with serving(logs, "p-one-basic", "1", tmp_path) as served:
        run(spark, served.options(), checkpoint, bad=0)
        added = append(served)
        assert [row[0] for row in run(spark, served.options(), checkpoint).rows()] == added


def test_checkpoint_of_another_log_is_refused(
    spark: SparkSession, logs: Any, whole: Served, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    assert run(spark, whole.options(startingOffsets="earliest"), checkpoint).rows() == whole.said
    with serving(logs, "p-upgrade", "1", tmp_path) as other:
        assert other.log.end_offset > whole.log.end_offset
        with pytest.raises(Exception, match=r"it is another log .*failOnDataLoss=false"):
            run(spark, other.options(), checkpoint)
        # Nothing of the failure is in the checkpoint.
        assert run(spark, whole.options(), checkpoint).rows() == []
        assert run(spark, other.options(failOnDataLoss="false"), checkpoint).rows() == other.said


def test_log_that_lost_its_end_is_refused(
    spark: SparkSession, logs: Any, whole: Served, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    run(spark, whole.options(startingOffsets="latest"), checkpoint)
    shorter = tmp_path / "shorter"
    shutil.copytree(whole.directory.parent, shorter)
    kept = whole.log.batches[: len(whole.log.batches) * 3 // 4]
    name = whole.log.segments[0].name
    (shorter / "__cluster_metadata-0" / name).write_bytes(b"".join(one.data for one in kept))
    with gateway("--source", "log", "--log-dir", str(shorter)) as server:
        options = {**whole.options(), "bootstrap.servers": server.bootstrap}
        with pytest.raises(
            Exception, match=f"the log ends at offset {kept[-1].last_offset + 1}, before offset"
        ):
            run(spark, options, checkpoint)
        assert run(spark, {**options, "failOnDataLoss": "false"}, checkpoint).rows() == []


@pytest.mark.parametrize(("name", "node"), [("p-upgrade", "1"), ("p-one-segments", "7")])
def test_files_equal_kafka_dump_log(spark: SparkSession, logs: Any, name: str, node: str) -> None:
    df = (
        spark.read.format("kwire")
        .options(files="all", keep="file", secrets="true")
        .load(str(logs(name) / "nodes" / node))
    )
    files = {Path(row.file).name for row in df.select("file").distinct().collect()}
    assert files
    for file in files:
        assert rows(df.where(df.file.endswith(file))) == list(
            truth(logs(name) / "truth" / node / f"{file}.jsonl")
        )


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda read, at: read.options(startingOffset="1").load(), "no option 'startingoffset'"),
        (
            lambda read, at: read.options(**at, endingOffsets="99999").load().count(),
            "endingOffsets is 99999, and the log at",
        ),
        (
            lambda read, at: read.load("/nowhere/at/all").count(),
            "path /nowhere/at/all: no segments",
        ),
        (lambda read, at: read.options(**at, keep="values").load(), "keep names columns among"),
    ],
    ids=["unknown-option", "beyond-the-end", "no-files", "unknown-column"],
)
def test_wrong_options_are_refused_with_a_sentence(
    spark: SparkSession, whole: Served, make: Callable[..., Any], sentence: str
) -> None:
    with pytest.raises(Exception, match=sentence):
        make(spark.read.format("kwire"), {"bootstrap.servers": whole.bootstrap})


def test_code_of_the_page_runs(spark: SparkSession, whole: Served, tmp_path: Path) -> None:
    blocks: Sequence[str] = re.findall(
        r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    names: dict[str, Any] = {"spark": spark, "table": str(tmp_path), "copy": str(whole.directory)}
    try:
        for block in blocks:
            exec(block.replace("localhost:9092", whole.bootstrap), names)
    finally:
        spark.conf.set(PUSHDOWN, "false")
        register(spark)
    assert len(blocks) == 5
    assert names["rows"].count() == names["audit"].count() == len(whole.said)
    wanted = [
        row
        for row in whole.said
        if row[1] in ("TOPIC_RECORD", "PARTITION_RECORD") and 100 <= row[0] < 200
    ]
    assert names["some"].count() == len(wanted)
    table = spark.read.parquet(str(tmp_path / "changes"))
    assert table.count() == sum(row[1] != "NO_OP_RECORD" for row in whole.said)
