"""Tables of the metadata log copied into Delta, whose newest release is built for Spark 4.2: run there by ``test_spark_42``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession

from kwire.spark import read_table, tables
from tests.interop.clients import missing
from tests.kwire.spark.session import FAST_START
from tools.maven import MavenError, resolve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VERSION = "4.4.0"
#: By name, because what these name in turn is in PySpark already, some of it in other versions.
JARS = (
    f"io.delta:delta-spark_2.13:{VERSION}",
    f"io.delta:delta-storage:{VERSION}",
    f"io.delta:delta-kernel-api:{VERSION}",
    f"io.delta:delta-kernel-defaults:{VERSION}",
    f"io.delta:delta-kernel-unitycatalog:{VERSION}",
    "io.unitycatalog:unitycatalog-client:0.6.0",
    "io.unitycatalog:unitycatalog-hadoop:0.6.0",
)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    try:
        jars = ",".join(map(str, resolve(JARS)))
    except MavenError as error:
        missing(f"the jars of Delta are not to be had: {error}")
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    settings: dict[str, bool | float | int | str | None] = {
        "spark.jars": jars,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": FAST_START,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }
    session = SparkSession.builder.master("local[2]").appName("kwire tests of Delta").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def rows(df: DataFrame) -> list[str]:
    return sorted(map(repr, df.collect()))


def test_tables_are_copied_and_merged_into_delta(spark: SparkSession, logs: Any, tmp_path: Path) -> None:
    """Half a history written, then all of it merged: nothing twice, nothing missing."""
    assert spark.version.startswith("4.2.")
    directory, path, delta = logs("p-one-basic") / "nodes" / "1" / "__cluster_metadata-0", tmp_path / "tables", tmp_path / "delta"
    tables(spark, str(directory), str(path))
    history = read_table(spark, str(path), "topics", history=True)
    offsets = sorted(row.validFromOffset for row in history.select("validFromOffset").collect())
    middle = offsets[len(offsets) // 2]
    assert offsets[0] < middle < offsets[-1]
    history.where(history.validFromOffset < middle).write.format("delta").save(str(delta))
    history.createOrReplaceTempView("history")
    (merged,) = spark.sql(
        f"MERGE INTO delta.`{delta}` AS old USING history AS new"
        " ON old.topicId = new.topicId AND old.validFromOffset = new.validFromOffset WHEN NOT MATCHED THEN INSERT *"
    ).collect()
    assert merged.num_inserted_rows == sum(offset >= middle for offset in offsets)
    assert rows(spark.read.format("delta").load(str(delta)).select(*history.columns)) == rows(history)
