"""The tables in a Spark session: both sources, and queries that are killed and restarted.
``test_image`` compares those of every log with its image.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if os.environ.get("KWIRE_INTEROP") != "require":
    pytest.importorskip("pyspark", reason="PySpark is not installed (the extra 'spark' has it)")

import pyarrow as pa
import pyarrow.compute as pc

from kwire.jars.spark import spark_jars
from kwire.records import read_header
from kwire.spark import register
from kwire.spark.table.build import TABLES, follow, read_table, tables
from kwire.spark.table.kinds import KINDS
from kwire.spark.table.store import Store
from tests.interop.spark_killed import Query, driver
from tests.interop.test_logs import copied, new_batches
from tests.kwire.spark.session import spark_session
from tests.kwire.spark.table_rows import stored_rows
from tests.shared import needs_shared
from tests.speed import measured
from tests.waiting import PATIENCE_S, until
from tools.gateway_process import gateway

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = needs_shared

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
    return sorted(
        text({k: v for k, v in plain(row).items() if k not in (*VALID, "cluster_id")})
        for row in df.toLocalIterator()
    )


def text(row: dict[str, Any]) -> str:
    """Maps have no order."""
    return json.dumps(row, sort_keys=True)


def everything(spark: SparkSession, path: str) -> dict[str, list[str]]:
    """Every row of every table and its history, for comparing. A DataFrame as the source does not
    tell the cluster.
    """
    found = {
        name: sorted(map(repr, read_table(spark, path, name).drop("epoch", "cluster_id").collect()))
        for name in ("changes", "load")
    }
    for kind in KINDS:
        rows = read_table(spark, path, kind.table, history=True).drop("cluster_id")
        found[kind.table] = sorted(map(repr, rows.collect()))
    return found


#: How often the driver is killed: each time while all queries run.
KILLS: Final = int(os.environ.get("KWIRE_SPARK_KILLS", "1"))


@pytest.mark.timeout(900)
def test_tables_are_the_same_after_kills_of_the_driver(
    spark: SparkSession, logs: Any, tmp_path: Path
) -> None:
    """Each kill comes a moment after the queries of both sources have committed again: before, in
    or after a commit. The session of the tests goes on where the last driver was killed.
    """
    spark_session(kafka=True)
    rng = random.Random("kill -9")
    log, directory = copied(logs("p-one-segments"), "nodes/7", tmp_path)
    expected = tmp_path / "expected"
    tables(spark, str(directory), str(expected))
    with gateway("--source", "log", "--log-dir", str(directory)) as server:
        # Spark's own source begins sooner, and would be through too soon with larger micro-batches.
        queries = [
            Query("kwire", server.bootstrap, str(tmp_path / "kwire"), 4),
            Query("kafka", server.bootstrap, str(tmp_path / "kafka"), 2),
        ]
        for _ in range(KILLS):
            before = [query.next_offset for query in queries]
            with driver(queries, tmp_path, {"spark.jars": str(spark_jars())}) as one:
                assert one.line() == "begin"
                one.run_until(partial(_moved, queries, before), "a commit of each")
                time.sleep(rng.random() * 0.5)
                assert one.process.poll() is None
            assert all(query.next_offset < log.end_offset - 10 for query in queries), (
                "killed when it was done"
            )
        for query in queries:
            rest = replace(query, batch=400).start(spark)
            assert rest.awaitTermination(int(2 * PATIENCE_S)), "the rest of the log"
    undisturbed = everything(spark, str(expected))
    for query in queries:
        assert everything(spark, query.path) == undisturbed, query.path


def _moved(queries: Sequence[Query], before: Sequence[int]) -> bool:
    return all(query.next_offset > offset for query, offset in zip(queries, before, strict=True))


def test_running_stream_has_new_records_in_its_tables(
    spark: SparkSession, logs: Any, tmp_path: Path
) -> None:
    log, directory = copied(logs("p-one-basic"), "nodes/1", tmp_path)
    path = str(tmp_path / "tables")
    with gateway("--source", "log", "--log-dir", str(directory)) as server:
        query = follow(spark, server.bootstrap, path)
        try:
            until(lambda: _next_offset(path) >= log.end_offset - 3, "the log")
            added = []
            for data, found in new_batches(log):
                with (directory / log.segments[-1].name).open("ab") as segment:
                    segment.write(data)
                added += found
            with measured("records, from the log to the tables", usual_s=3):
                until(lambda: _next_offset(path) > added[-1].offset, "what was appended")
        finally:
            query.stop()


def _next_offset(path: str) -> int:
    return Store(path).manifest.next_offset


def test_second_copy_of_the_log_continues_the_tables(
    spark: SparkSession, logs: Any, tmp_path: Path
) -> None:
    """The second copy adds the new records, and the result counts them."""
    _, whole = copied(logs("p-one-basic"), "nodes/1", tmp_path / "whole")
    path, segment = str(tmp_path / "tables"), next(whole.glob("*.log"))
    data = segment.read_bytes()
    headers: list[Any] = []
    at = 0
    while at < len(data):
        headers.append(read_header(data[at:]))
        at += headers[-1].size
    segment.write_bytes(data[: sum(one.size for one in headers[: len(headers) // 2])])
    half = tables(spark, str(whole), path)
    assert 0 == half.since < half.next_offset < headers[-1].last_offset
    segment.write_bytes(data)
    rest = tables(spark, str(whole), path)
    assert (rest.since, rest.next_offset) == (half.next_offset, _next_offset(path))
    assert rest.cluster_id and "errors" not in rest.rows
    count = read_table(spark, path, "changes").count()
    assert half.rows["changes"] + rest.rows["changes"] == count
    tables(spark, str(whole), str(tmp_path / "at-once"))
    one, other = (
        sorted(map(repr, read_table(spark, at, "changes").collect()))
        for at in (path, str(tmp_path / "at-once"))
    )
    assert one == other


@pytest.mark.parametrize(("name", "node"), [("p-one-basic", "1"), ("p-quorum", "101")])
def test_tables_in_spark_are_the_rows_of_the_files(
    name: str, node: str, spark: SparkSession, logs: Any, tmp_path: Path
) -> None:
    """``test_image`` compares the rows of the files with the image, and ``as_of`` here is compared
    with the rows that are valid then.
    """
    tables(spark, str(logs(name) / "nodes" / node), str(tmp_path))
    store, kinds = Store(str(tmp_path)), {kind.table for kind in KINDS}
    for table in TABLES:
        expected = rows_as_text(stored_rows(store, table))
        found = read_table(spark, str(tmp_path), table, history=table in kinds).toArrow()
        assert set(found.column("cluster_id").to_pylist()) <= {store.manifest.cluster}
        assert rows_as_text(found.drop_columns(["cluster_id"])) == expected, table
    every = stored_rows(store, "partitions")
    since, until = every.column("validFromOffset"), every.column("validToOffset").fill_null(1 << 62)
    for at in (None, 300, 700):
        moment = (1 << 61) if at is None else at
        valid = pc.and_(pc.less_equal(since, moment), pc.greater(until, moment))
        expected = rows_as_text(every.filter(valid).drop_columns(list(VALID[2:])))
        found = read_table(spark, str(tmp_path), "partitions", as_of=at).toArrow()
        assert rows_as_text(found.drop_columns(["cluster_id"])) == expected != []


def rows_as_text(table: pa.Table) -> list[str]:
    """The rows, sorted; maps have no order."""
    maps = [one.name for one in table.schema if pa.types.is_map(one.type)]
    rows = table.to_pylist()
    for row in rows:
        row |= {name: dict(row[name]) for name in maps}
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in rows)


def test_unsupported_use_is_refused_with_a_sentence(
    spark: SparkSession, logs: Any, tmp_path: Path
) -> None:
    register(spark)
    directory = str(logs("p-old") / "nodes" / "1")
    batch = spark.read.format("kwire").load(directory)
    with pytest.raises(ValueError, match=r"no column value; .*keep=value"):
        tables(spark, batch, str(tmp_path))
    others: Any = [[directory], {"a": directory}]
    for several in others:
        with pytest.raises(ValueError, match=r"of one log: several .* by kwire spark fleet"):
            tables(spark, several, str(tmp_path))
    for format in ("delta", "iceberg", "orc"):
        with pytest.raises(ValueError, match=f"{format} tables are kept by kwire spark fleet"):
            tables(spark, directory, str(tmp_path), format=format)
    with pytest.raises(ValueError, match="tables at s3a: are kept by kwire spark fleet"):
        tables(spark, directory, "s3a://bucket/x")
    with pytest.raises(ValueError, match='on_gap="resync" needs a server or a directory'):
        rows = spark.read.format("kwire").option("keep", "value").load(directory)
        tables(spark, rows, str(tmp_path), on_gap="resync")
    with pytest.raises(FileNotFoundError, match="there are no tables"):
        read_table(spark, str(tmp_path / "typo"), "topics")
    tables(spark, directory, str(tmp_path))
    with pytest.raises(ValueError, match="no table 'topic'; did you mean 'topics'"):
        read_table(spark, str(tmp_path), "topic")
    wrong: Any = (datetime(2026, 1, 1), "2026-11-21", "yesterday", 1.5, True)
    for as_of in wrong:
        with pytest.raises(ValueError, match="as_of is an offset, or a time with its zone"):
            read_table(spark, str(tmp_path), "topics", as_of=as_of)
    for far in (datetime(2100, 1, 1, tzinfo=UTC), "2100-01-01T00:00:00Z", 1 << 40):
        assert held(read_table(spark, str(tmp_path), "topics", as_of=far)) == held(
            read_table(spark, str(tmp_path), "topics")
        )
    assert {name for name in TABLES if read_table(spark, str(tmp_path), name).columns} == set(
        TABLES
    )
