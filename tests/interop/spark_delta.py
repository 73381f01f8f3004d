"""Delta's own Spark reads the Delta tables of kwire. The newest Delta needs Spark 4.2, so
``test_spark_delta`` runs this test.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from kwire.jars.maven import MavenError
from kwire.jars.spark import delta_jars
from kwire.spark import read_table, tables
from kwire.spark.table.kinds import KINDS
from tests.interop.clients import missing
from tools.spark_home import driver_options, environment


def test_spark_with_delta_reads_the_tables(logs: Any, tmp_path: Path) -> None:
    try:
        jars = str(delta_jars())
    except MavenError as error:
        missing(f"the jars of Delta are not to be had: {error}")
    os.environ.update(environment())
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", jars)
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config(
            "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        )
        .config("spark.databricks.delta.snapshotPartitions", "1")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", driver_options())
        .config("spark.sql.warehouse.dir", str(tmp_path / "warehouse"))
        .getOrCreate()
    )
    try:
        spark.sparkContext.setLogLevel("ERROR")
        path = tmp_path / "tables"
        tables(spark, str(logs("p-one-basic") / "nodes" / "1"), str(path), format="delta")
        kinds = {kind.table for kind in KINDS}
        # An appended table, a list of structs, a list of numbers, and rows that a merge has closed.
        for name in ("changes", "brokers", "partitions", "configs"):
            read = spark.read.format("delta").load(str(path / name))
            expected = read_table(spark, str(path), name, history=name in kinds).drop("cluster_id")
            rows = sorted(map(repr, read.collect()))
            assert rows == sorted(map(repr, expected.collect())) != [], name
    finally:
        spark.stop()
