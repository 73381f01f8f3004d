"""Tables of the metadata log in Delta and Iceberg, written and read in an ordinary Spark session,
and read by Delta's own Spark.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if os.environ.get("KWIRE_INTEROP") != "require":
    pytest.importorskip("pyspark", reason="PySpark is not installed (the extra 'spark' has it)")
    pytest.importorskip("deltalake", reason="deltalake is not installed (the extra 'delta' has it)")
    pytest.importorskip("pyiceberg", reason="pyiceberg is not installed (the extra 'iceberg' has)")

from kwire.spark import read_table, tables
from kwire.spark.table.build import TABLES
from kwire.spark.table.kinds import KINDS
from kwire.spark.table.store import Format, TablesError
from tests.interop.spark_release import environment
from tests.kwire.spark.session import spark_session
from tests.shared import needs_shared

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [needs_shared, pytest.mark.timeout(900)]

#: A process of its own, because a session cannot be given other jars.
DELTA = ("tests/interop/spark_delta.py",)


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return spark_session(kafka=False)


def rows(df: DataFrame) -> list[str]:
    return sorted(map(repr, df.collect()))


def everything(spark: SparkSession, path: Path) -> dict[str, list[str]]:
    """Every row of every table, and of the history."""
    kinds = {kind.table for kind in KINDS}
    return {
        name: rows(read_table(spark, str(path), name, history=name in kinds)) for name in TABLES
    }


@pytest.mark.parametrize(
    ("kept", "name", "node"),
    [("delta", "p-one-basic", 1), ("delta", "p-one-segments", 7), ("iceberg", "p-one-segments", 7)],
)
def test_other_formats_have_the_rows_of_parquet(
    spark: SparkSession, kept: Format, name: str, node: int, logs: Any, tmp_path: Path
) -> None:
    """A log from offset 0, and one that begins with a snapshot."""
    directory = str(logs(name) / "nodes" / str(node))
    other, parquet = tmp_path / kept, tmp_path / "parquet"
    tables(spark, directory, str(parquet))
    tables(spark, directory, str(other), format=kept)
    expected = everything(spark, parquet)
    assert everything(spark, other) == expected and len(expected["changes"]) > 100
    now = [rows(read_table(spark, str(path), "topics")) for path in (other, parquet)]
    assert now[0] == now[1] != []
    offsets = sorted(
        row.offset for row in read_table(spark, str(other), "changes").select("offset").collect()
    )
    middle = offsets[len(offsets) // 2]
    as_of = [read_table(spark, str(path), "partitions", as_of=middle) for path in (other, parquet)]
    assert rows(as_of[0]) == rows(as_of[1]) != []
    # The same log once more changes nothing.
    tables(spark, directory, str(other), format=kept)
    assert everything(spark, other) == expected


def test_directory_of_another_format_is_refused(
    spark: SparkSession, logs: Any, tmp_path: Path
) -> None:
    directory, path = str(logs("p-abort") / "nodes" / "1"), tmp_path / "tables"
    tables(spark, directory, str(path), format="delta")
    with pytest.raises(TablesError, match="has tables as delta"):
        tables(spark, directory, str(path))


def test_spark_with_delta_reads_the_tables(tmp_path: Path) -> None:
    environment().passes(DELTA, tmp_path)
