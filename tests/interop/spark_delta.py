"""Tables of the metadata log in Delta. Its newest release needs Spark 4.2, so ``test_spark_delta``
runs these tests.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession

from kwire.spark import read_table, tables
from kwire.spark.table.build import TABLES
from kwire.spark.table.kinds import KINDS
from kwire.spark.table.store import TablesError
from tests.interop.clients import missing
from tests.interop.spark_killed import Query, driver
from tools.gateway_process import gateway
from tools.maven import MavenError
from tools.spark_home import driver_options, environment
from tools.spark_jars import delta_jars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KILLS = 3
CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    """The settings of docs/spark-tables.md, which a session needs before it starts."""
    try:
        jars = str(delta_jars())
    except MavenError as error:
        missing(f"the jars of Delta are not to be had: {error}")
    return {
        "spark.jars": jars,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": CATALOG,
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": driver_options(),
    }


@pytest.fixture(scope="module")
def spark(
    settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    os.environ.update(environment())
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("kwire tests of Delta")
        .config(map=dict(settings))
    )
    session = builder.config(
        "spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse"))
    ).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def rows(df: DataFrame, without: tuple[str, ...] = ()) -> list[str]:
    return sorted(map(repr, df.drop(*without).collect()))


def everything(
    spark: SparkSession, path: Path, without: tuple[str, ...] = ()
) -> dict[str, list[str]]:
    """Every row of every table, and of the history."""
    kinds = {kind.table for kind in KINDS}
    return {
        name: rows(read_table(spark, str(path), name, history=name in kinds), without)
        for name in TABLES
    }


def test_delta_has_the_rows_of_parquet(spark: SparkSession, logs: Any, tmp_path: Path) -> None:
    """A log from offset 0; the next test has one that begins with a snapshot."""
    directory, delta, parquet = (
        str(logs("p-one-basic") / "nodes" / "1"),
        tmp_path / "delta",
        tmp_path / "parquet",
    )
    tables(spark, directory, str(parquet))
    tables(spark, directory, str(delta), format="delta")
    expected = everything(spark, parquet)
    assert everything(spark, delta) == expected and len(expected["changes"]) > 100
    # Without kwire: a kind is one Delta table, and what is valid has no end.
    topics = spark.read.format("delta").load(str(delta / "topics"))
    assert rows(topics) == expected["topics"]
    now = topics.where("validToOffset is null").drop("validToOffset", "validToTime")
    assert (
        rows(now)
        == rows(read_table(spark, str(delta), "topics"))
        == rows(read_table(spark, str(parquet), "topics"))
    )
    middle = sorted(
        row.offset for row in spark.read.format("delta").load(str(delta / "changes")).collect()
    )[200]
    as_of = [read_table(spark, str(path), "partitions", as_of=middle) for path in (delta, parquet)]
    assert rows(as_of[0]) == rows(as_of[1]) != []
    # Delivered again, as after a crash behind the last table, nothing changes.
    tables(spark, directory, str(delta), format="delta")
    assert everything(spark, delta) == expected


def test_delta_has_every_row_once_after_the_query_was_killed_and_restarted(
    spark: SparkSession, settings: dict[str, str], logs: Any, tmp_path: Path
) -> None:
    """Kills come at random in the delivery of a commit, which takes most of a micro-batch's
    time, or shortly before or after it.
    """
    directory = str(logs("p-one-segments") / "nodes" / "7")
    tables(spark, directory, str(tmp_path / "parquet"))
    rng = random.Random("delta")
    with gateway("--source", "log", "--log-dir", directory) as server:
        query = Query("kwire", server.bootstrap, str(tmp_path / "delta"), 100, "delta")
        for _ in range(KILLS):
            before = query.next_offset
            with driver([query], tmp_path, settings) as one:
                assert one.line() == "begin"
                deadline = time.monotonic() + 120
                while query.next_offset == before:
                    assert time.monotonic() < deadline and one.process.poll() is None, (
                        one.said.read_text()[-20_000:]
                    )
                    time.sleep(0.01)
                time.sleep(rng.random() * 4)
                assert one.process.poll() is None
        ahead = query.next_offset
        with driver(
            [Query(query.source, server.bootstrap, query.path, 1000, "delta")], tmp_path, settings
        ) as one:
            assert (one.line(), one.line()) == ("begin", "end")
        assert before < ahead < query.next_offset
    found, expected = (
        everything(spark, tmp_path / name, ("epoch",)) for name in ("delta", "parquet")
    )
    assert found == expected


def test_table_without_a_commit_is_made_by_the_next_writer(
    spark: SparkSession, logs: Any, tmp_path: Path
) -> None:
    """A writer that is killed in the first commit of a table leaves a log directory, and no commit
    in it.
    """
    directory, path = str(logs("p-abort") / "nodes" / "1"), tmp_path / "tables"
    tables(spark, directory, str(path), format="delta")
    expected = rows(read_table(spark, str(path), "topics", history=True))
    shutil.rmtree(path / "topics")
    (path / "topics" / "_delta_log").mkdir(parents=True)
    assert rows(read_table(spark, str(path), "topics")) == []
    tables(spark, directory, str(path), format="delta")
    assert rows(read_table(spark, str(path), "topics", history=True)) == expected != []


def test_directory_of_another_format_is_refused(
    spark: SparkSession, logs: Any, tmp_path: Path
) -> None:
    directory, path = str(logs("p-abort") / "nodes" / "1"), tmp_path / "tables"
    tables(spark, directory, str(path), format="delta")
    with pytest.raises(TablesError, match="has tables as delta"):
        tables(spark, directory, str(path))
    (path / "manifest.json").unlink()
    with pytest.raises(TablesError, match=r"changes, .* are there, without a manifest"):
        tables(spark, directory, str(path), format="delta")
    spark.conf.set("spark.sql.catalog.spark_catalog", "")
    try:
        with pytest.raises(
            ValueError, match=r"needs Delta 4\.4, and this session has none: give spark\.jars"
        ):
            tables(spark, directory, str(tmp_path / "other"), format="delta")
    finally:
        spark.conf.set("spark.sql.catalog.spark_catalog", CATALOG)
    assert not (tmp_path / "other").exists()
