"""Tells which table format runs with which PySpark today: ``python -m tools.spark_formats``.

For each release it asks Maven for the newest Delta and the newest Iceberg that are built for it,
and runs a MERGE of few rows with each that is there, in an environment of its own. It also tells
whether AUTO CDC of Spark Declarative Pipelines would take the table as target. docs/spark-fleet.md
and ``kwire.jars.table_formats`` have what it found last; a release that had no format and
runs one, or does not run its own, ends it with status 1.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Final

import click

from kwire.jars.maven import MavenError, resolve
from kwire.jars.table_formats import FORMATS
from tools import pyspark_release
from tools.pyspark_release import InstallError

_ROOT: Final = Path(__file__).resolve().parent.parent
_RELEASES: Final = ("4.0", "4.1", "4.2", "4.3")
_TIMEOUT_S: Final = 600
#: The artifact of each format that is built for one release of Spark.
_ARTIFACTS: Final = {
    "delta": "io.delta:delta-spark_{release}_2.13:LATEST",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-{release}_2.13:LATEST",
}
#: Jars that Delta needs beside its own: of its version, and of their own.
_WITH_DELTA: Final = (
    "delta-storage",
    "delta-kernel-api",
    "delta-kernel-defaults",
    "delta-kernel-unitycatalog",
)
_CATALOG: Final = (
    "io.unitycatalog:unitycatalog-client:0.6.0",
    "io.unitycatalog:unitycatalog-hadoop:0.6.0",
)
#: Makes a table, merges into it, and prints whether AUTO CDC exists and takes such a table.
_PROGRAM: Final = """
import importlib.util, json, sys
from pyspark.sql import SparkSession
from kwire.spark.fleet.place import Place, settings
format, where, jars = sys.argv[1:]
spark = SparkSession.builder.master("local[1]").config(map={
    "spark.jars": jars, "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "1", **settings(format),
}).getOrCreate()
spark.sparkContext.setLogLevel("OFF")
place = Place(where, format)
place.prepare(spark)
table = place.table("t")
spark.sql(f"CREATE TABLE {table} (k INT, v INT) USING {format}")
spark.sql(f"INSERT INTO {table} VALUES (1, 1), (2, 2)")
spark.sql(f"MERGE INTO {table} t USING (SELECT 2 k, 3 v UNION SELECT 4, 4) s ON t.k = s.k"
          " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")
rows = sorted(map(tuple, spark.table(table).collect()))
assert rows == [(1, 1), (2, 3), (4, 4)], rows
takes = False
pipelines = importlib.util.find_spec("pyspark.pipelines")
if pipelines and hasattr(importlib.import_module("pyspark.pipelines"), "create_auto_cdc_flow"):
    utils = spark._jvm.org.apache.spark.util.Utils
    rows = "org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations"
    table = {
        "delta": "org.apache.spark.sql.delta.catalog.DeltaTableV2",
        "iceberg": "org.apache.iceberg.spark.source.SparkTable",
    }[format]
    found = [utils.classForName(name, False, False) for name in (rows, table)]
    takes = found[0].isAssignableFrom(found[1])
print("auto cdc takes it" if takes else "auto cdc does not take it")
"""


@click.command(epilog="Example: python -m tools.spark_formats")
def main() -> None:
    """Print for each release of PySpark which format runs with it, and fail if there is news."""
    news = []
    for release in _RELEASES:
        for format in _ARTIFACTS:
            runs, said = tried(release, format)
            click.echo(f"PySpark {release}, {format}: {said}")
            known = FORMATS.get(release)
            is_news = known is None if runs else known == format
            if is_news:
                news.append(f"{format} with PySpark {release}")
    if news:
        raise click.ClickException(f"this is news: {', '.join(news)}")


def tried(release: str, format: str) -> tuple[bool, str]:
    """Whether a MERGE runs, and a sentence about it."""
    try:
        jars = _jars(release, format)
        python = str(pyspark_release.environment(release))
    except MavenError:
        return False, "Maven has none that is built for it"
    except InstallError as error:
        return False, str(error)
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run(
            [python, "-c", _PROGRAM, format, str(Path(scratch) / "tables"), ",".join(jars)],
            env={**os.environ, "PYTHONPATH": str(_ROOT), "SPARK_LOCAL_IP": "127.0.0.1"},
            cwd=scratch,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    names = " ".join(Path(one).name for one in jars)
    if done.returncode == 0:
        return True, f"MERGE runs, {done.stdout.splitlines()[-1]} ({names})"
    causes = [line for line in done.stderr.splitlines() if "Error: " in line]
    return False, f"does not run: {(causes or ['no error is named'])[-1].strip()} ({names})"


def _jars(release: str, format: str) -> list[str]:
    """The newest jars that are built for the release; with what they need, where it is not in
    PySpark. Raises MavenError.
    """
    newest = [str(one) for one in resolve([_ARTIFACTS[format].format(release=release)])]
    if format == "iceberg":
        return newest
    [own] = newest
    version = Path(own).stem.rpartition("-")[2]
    needed = [f"io.delta:{name}:{version}" for name in _WITH_DELTA] + list(_CATALOG)
    return newest + [str(one) for one in resolve(needed)]


if __name__ == "__main__":
    main()
