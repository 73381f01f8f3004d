"""The tables in a real Spark session: every log against the image, both sources, and runs that are killed and started again."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if os.environ.get("KWIRE_INTEROP") != "require":
    pytest.importorskip("pyspark", reason="PySpark is not installed (the extra 'spark' has it)")

from kwire.cluster import Image, Loader
from kwire.records import read_header
from kwire.spark import register
from kwire.spark.tables_build import TABLES, read_table, tables
from kwire.spark.tables_directory import directory_rows
from kwire.spark.tables_kinds import KINDS
from tests.interop.test_logs import copied, new_batches
from tests.interop.test_spark import wait_until
from tests.kwire.spark.session import spark_session
from tests.kwire.spark.table_rows import load, rows_of
from tests.shared import LOG_NAMES, needs_shared
from tools.gateway_process import gateway
from tools.spark_jars import spark_jars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = needs_shared

ROOT = Path(__file__).resolve().parent.parent.parent
VALID = ("validFromOffset", "validFromTime", "validToOffset", "validToTime")


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return spark_session(kafka=False)


def plain(value: Any) -> Any:
    """Rows and maps of Spark as Python has them in an image."""
    if hasattr(value, "asDict"):
        return {name: plain(one) for name, one in value.asDict().items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


def held(df: DataFrame) -> list[str]:
    """The rows without their validity, as text, sorted."""
    return sorted(text({k: v for k, v in plain(row).items() if k not in VALID}) for row in df.toLocalIterator())


def text(row: dict[str, Any]) -> str:
    """Maps have no order."""
    return json.dumps(row, sort_keys=True)


def said(image: Image, table: str) -> list[str]:
    kind = next(kind for kind in KINDS if kind.table == table)
    return sorted(text({name: (kind.at(image, key) or {})[name] for name in kind.columns}) for key in kind.keys(image))


@pytest.mark.parametrize("name", LOG_NAMES)
def test_the_tables_of_a_log_are_its_image(spark: SparkSession, name: str, logs: Any, tmp_path: Path) -> None:
    """The current state, and the partitions and configs as of some offsets, from a copy of the log."""
    node = min((logs(name) / "nodes").iterdir())
    directory, path = node / "__cluster_metadata-0", str(tmp_path / "tables")
    assert tables(spark, str(directory), path) is None
    rows = rows_of(directory)
    rng = random.Random(name)
    asked = {row.offset for row in rng.sample(rows, 1 if name == "p-large" else 3)}
    loader = Loader()
    for row in rows:
        load(loader, row)
        if row.offset in asked and not loader.in_transaction:
            for table in ("partitions", "configs", "brokers"):
                assert held(read_table(spark, path, table, as_of=row.offset)) == said(loader.image, table), (table, row.offset)
    for kind in KINDS:
        assert held(read_table(spark, path, kind.table)) == said(loader.image, kind.table), kind.table
    assert read_table(spark, path, "errors").count() == 0
    assert sum(row.records for row in read_table(spark, path, "load").collect()) == len(rows)


def everything(spark: SparkSession, path: str) -> dict[str, list[str]]:
    """Every row of every table and its history, for comparing."""
    found = {name: sorted(map(repr, read_table(spark, path, name).drop("epoch").collect())) for name in ("changes", "load")}
    for kind in KINDS:
        found[kind.table] = sorted(map(repr, read_table(spark, path, kind.table, history=True).collect()))
    return found


_RUN = """
import sys
from pyspark.sql import SparkSession
from kwire.spark import kafka_options, register
from kwire.spark import tables
source, bootstrap, path, jars = sys.argv[1:]
spark = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
    .config("spark.jars", jars).config("spark.sql.shuffle.partitions", "1").getOrCreate())
spark.sparkContext.setLogLevel("OFF")
if source == "kafka":
    options = kafka_options(bootstrap, by="assign", start="earliest", max_offsets_per_trigger=20)
else:
    register(spark)
    options = {"bootstrap.servers": bootstrap, "startingOffsets": "earliest", "keep": "value", "maxOffsetsPerTrigger": "20"}
df = spark.readStream.format(source).options(**options).load()
print("begin", flush=True)
tables(spark, df, path).awaitTermination()
print("end", flush=True)
"""


@contextmanager
def running(source: str, bootstrap: str, path: Path, jars: str, into: Path) -> Iterator[subprocess.Popen[str]]:
    """A streaming run in a process, and a process group, of its own: Spark's JVM dies with it."""
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", _RUN, source, bootstrap, str(path), jars]
    with (into / "said").open("a") as output:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=output, text=True, env=environment, start_new_session=True
        )
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("source", ["kwire", "kafka"])
def test_killed_at_random_moments_the_tables_are_the_same(source: str, spark: SparkSession, logs: Any, tmp_path: Path) -> None:
    """Five kills for each source, each a moment after a commit of the tables: before, in and after the next one."""
    if source == "kafka":
        spark_session(kafka=True)
    jars = str(spark_jars()) if source == "kafka" else ""
    rng = random.Random(source)
    _, directory = copied(logs("p-one-segments"), "nodes/7", tmp_path)
    expected, path = tmp_path / "expected", tmp_path / "tables"
    tables(spark, str(directory), str(expected))
    kills = 0
    with gateway("--source", "log", "--log-dir", str(directory)) as server:
        for kill in (True,) * 5 + (False,):
            with running(source, server.bootstrap, path, jars, tmp_path) as process:
                assert process.stdout is not None
                assert process.stdout.readline() == "begin\n", (tmp_path / "said").read_text()
                if not kill:
                    assert process.stdout.readline() == "end\n", (tmp_path / "said").read_text()
                    continue
                before = _commits(path)
                wait_until(lambda before=before: _commits(path) > before, "a commit", 60)  # type: ignore[misc]
                time.sleep(rng.random() * 0.5)
                kills += process.poll() is None
    assert kills == 5
    assert everything(spark, str(path)) == everything(spark, str(expected))


def _commits(path: Path) -> int:
    manifest = path / "manifest.json"
    return manifest.stat().st_mtime_ns if manifest.exists() else 0


def test_a_running_stream_has_new_records_within_two_seconds(spark: SparkSession, logs: Any, tmp_path: Path) -> None:
    log, directory = copied(logs("p-one-basic"), "nodes/1", tmp_path)
    path = str(tmp_path / "tables")
    with gateway("--source", "log", "--log-dir", str(directory)) as server:
        query = tables(spark, server.bootstrap, path, trigger={"processingTime": "1 second"})
        assert query is not None
        try:
            wait_until(lambda: _next_offset(path) >= log.end_offset - 3, "the log")
            added = []
            for data, found in new_batches(log):
                with (directory / log.segments[-1].name).open("ab") as segment:
                    segment.write(data)
                added += found
            written = time.monotonic()
            wait_until(lambda: _next_offset(path) > added[-1].offset, "what was appended", 10)
            print(f"the tables had it after {time.monotonic() - written:.2f} s")
        finally:
            query.stop()


def _next_offset(path: str) -> int:
    from kwire.spark.tables_store import Store

    return Store(path).manifest.next_offset


def test_two_copies_of_a_log_one_after_the_other(spark: SparkSession, logs: Any, tmp_path: Path) -> None:
    """The second copy brings what is new; one whose log has left the tables behind is refused, as what was between is gone."""
    _, whole = copied(logs("p-one-basic"), "nodes/1", tmp_path / "whole")
    path, segment = str(tmp_path / "tables"), next(whole.glob("*.log"))
    data = segment.read_bytes()
    headers: list[Any] = []
    at = 0
    while at < len(data):
        headers.append(read_header(data[at:]))
        at += headers[-1].size
    segment.write_bytes(data[: sum(one.size for one in headers[: len(headers) // 2])])
    tables(spark, str(whole), path)
    assert 0 < _next_offset(path) < headers[-1].last_offset
    segment.write_bytes(data)
    tables(spark, str(whole), path)
    tables(spark, str(whole), str(tmp_path / "at-once"))
    one, other = (sorted(map(repr, read_table(spark, at, "changes").collect())) for at in (path, str(tmp_path / "at-once")))
    assert one == other
    with pytest.raises(ValueError, match="build the tables anew"):
        directory_rows(spark, str(logs("p-one-segments") / "nodes" / "7"), 800)


def test_what_will_not_do_is_a_sentence(spark: SparkSession, logs: Any, tmp_path: Path) -> None:
    register(spark)
    directory = str(logs("p-old") / "nodes" / "1")
    batch = spark.read.format("kwire").load(directory)
    with pytest.raises(ValueError, match=r"no column value; .*keep=value"):
        tables(spark, batch, str(tmp_path))
    with pytest.raises(ValueError, match="format is parquet"):
        tables(spark, directory, str(tmp_path), format="delta")
    tables(spark, directory, str(tmp_path))
    with pytest.raises(ValueError, match="tables are changes, errors"):
        read_table(spark, str(tmp_path), "topic")
    with pytest.raises(ValueError, match="no time zone"):
        read_table(spark, str(tmp_path), "topics", as_of=datetime(2026, 1, 1))
    far = datetime(2100, 1, 1, tzinfo=UTC)
    assert held(read_table(spark, str(tmp_path), "topics", as_of=far)) == held(read_table(spark, str(tmp_path), "topics"))
    assert {name for name in TABLES if read_table(spark, str(tmp_path), name).columns} == set(TABLES)
