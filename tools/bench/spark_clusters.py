"""Measures tables of several clusters on a standalone Spark cluster (``docs/spark-cluster.md``):
two workers against one, and the memory of the driver against the number of records.

The sources are ``KWIRE_BENCH_CLUSTERS`` names (4 by default) of one log directory with
``KWIRE_BENCH_CLUSTER_RECORDS`` records (1000 by default; the tables are made for 20 clusters of
100,000). Each number of workers has a driver of its own, which builds the tables of a small
log first, so that executors and their Python workers have started. Times are wall seconds.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

CLUSTERS: Final = int(os.environ.get("KWIRE_BENCH_CLUSTERS", "4"))
RECORDS: Final = int(os.environ.get("KWIRE_BENCH_CLUSTER_RECORDS", "1000"))
_SMALL: Final = "p-one-basic"
_TIMEOUT_S: Final = 3600
#: Two workers are at least so many times as fast as one.
_TIMES: Final = 1.7
#: Of fewer records in all, what Spark needs for a task counts more than the fold.
_ENOUGH: Final = 500_000
#: MiB that the driver may have more for a log that is many times as long.
_MEMORY_MIB: Final = 64


def run() -> list[dict[str, Any]]:
    """Return the rows; one with the reason if the bench cannot run."""
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        return [{"what": "spark clusters", "ok": False, "notes": f"not measured: {error}"}]
    # A driver of the cluster runs this file too, and has no tools.
    from tools.bench import largelog
    from tools.bench.spark_tables import lengthened

    with tempfile.TemporaryDirectory(prefix="kwire-bench-") as scratch:
        try:
            small = largelog.unpack(Path(scratch), _SMALL)
        except largelog.NoLog as error:
            return [{"what": "spark clusters", "ok": False, "notes": f"not measured: {error}"}]
        long = lengthened(small, Path(scratch) / "long", RECORDS) or small
        found = [_driven(small, long, Path(scratch) / f"{n}", n) for n in (1, 2)]
    return list(_rows(*found))


def _driven(small: Path, long: Path, directory: Path, workers: int) -> dict[str, Any]:
    """The measurements of a driver on a cluster of so many workers."""
    from tools.spark_standalone import settings, standalone

    directory.mkdir()
    with standalone(directory, workers) as cluster:
        conf = {
            **settings(),
            "spark.executor.memory": "800m",
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
        }
        given = [str(small), str(long), str(directory / "tables"), str(CLUSTERS)]
        driver = cluster.submit(Path(__file__), *given, conf=conf)
        assert driver.process is not None
        status = driver.process.wait(_TIMEOUT_S)
        said = driver.output.read_text(errors="replace")
    if status:
        raise RuntimeError(f"the driver ended with {status}: {said[-2000:]}")
    measured: dict[str, Any] = json.loads(said.strip().splitlines()[-1])
    return measured


def _rows(one: dict[str, Any], two: dict[str, Any]) -> Iterator[dict[str, Any]]:
    records, times = two["records"], one["seconds"] / two["seconds"]
    yield {
        "what": f"{CLUSTERS} clusters of {records // CLUSTERS:,} records, two workers",
        "unit": "records/s",
        "kwire": records / two["seconds"],
        "ok": times >= _TIMES if records >= _ENOUGH else None,
        "notes": (
            f"{two['seconds']:.1f} s; one worker {one['seconds']:.1f} s: {times:.2f} times as fast,"
            f" at least {_TIMES}; workers of one core"
        ),
    }
    more = two["after"] - two["before"]
    yield {
        "what": f"memory of the driver for {records:,} records",
        "unit": "MiB",
        "kwire": two["after"],
        "ok": more <= _MEMORY_MIB,
        "notes": (
            f"peak of its Python; {two['before']} MiB with the small log, at most {_MEMORY_MIB}"
            " more; what is folded stays with the executors"
        ),
    }


def drive(small: str, long: str, path: str, clusters: int) -> dict[str, Any]:
    """Build tables of ``clusters`` names of each log, and measure the second. One call in a
    process.
    """
    from pyspark.sql import SparkSession

    from kwire.spark import read_table, tables

    spark = SparkSession.builder.getOrCreate()
    names = [f"c{n}" for n in range(clusters)]
    tables(spark, dict.fromkeys(names, small), f"{path}/small")
    before, began = _peak_mib(), time.perf_counter()
    tables(spark, dict.fromkeys(names, long), f"{path}/long")
    seconds, after = time.perf_counter() - began, _peak_mib()
    records = read_table(spark, f"{path}/long", "load").selectExpr("sum(records)").collect()[0][0]
    spark.stop()
    return {"seconds": seconds, "before": before, "after": after, "records": records}


def _peak_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    _, small_log, long_log, tables_path, count = sys.argv
    print(json.dumps(drive(small_log, long_log, tables_path, int(count))))
