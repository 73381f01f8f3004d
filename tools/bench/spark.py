"""Measures the metadata topic in Spark: 1,000,000 records from the topic to typed columns, by every
reader, in one run.

The records repeat the batches of ``p-large``; ``kwire serve`` and Kafka serve the same bytes. A
pass is a batch query into Spark's ``noop`` sink, in one task of a warm session. Readers that are
compared run in turns, and the ratio is the median over the turns. CPU is that of Spark's driver,
JVM and Python workers, without the servers'.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kwire.jars.maven import MavenError
from kwire.jars.spark import spark_jars
from kwire.protocol import CLUSTER_METADATA_TOPIC
from tools.bench import largelog, serving
from tools.gateway_process import gateway
from tools.java import KAFKA_VERSION
from tools.kafka import FULL_SPEED, kafka

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS = 1_000_000
_ROUNDS = 5
_ROOT = Path(__file__).resolve().parent.parent.parent
_TICKS = os.sysconf("SC_CLK_TCK")

STOCK, KAFKA, BULK, ALONE, SOURCE = (
    "stock source",
    "stock source, Kafka's server",
    "stock source + decode",
    "stock source + decode, one by one",
    'format("kwire")',
)


@dataclass
class Passes:
    """The cost of the passes of one reader: wall seconds and processor seconds for ``RECORDS``
    records.
    """

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


def run() -> list[dict[str, Any]]:
    """Return the rows; one with the reason if the bench cannot run."""
    try:
        import pyspark  # noqa: F401

        jars = str(spark_jars())
    except (ImportError, MavenError) as error:
        return [{"what": "spark", "ok": False, "notes": f"not measured: {error}"}]
    with tempfile.TemporaryDirectory(prefix="kwire-bench-") as scratch:
        try:
            node = largelog.unpack(Path(scratch))
        except largelog.NoLog as error:
            return [{"what": "spark", "ok": False, "notes": f"not measured: {error}"}]
        batches = largelog.data_batches(node)
        long_log = largelog.repeated(node, batches, serving.TIMES, Path(scratch) / "long")
        with (
            kafka(properties=serving.KAFKA_PROPERTIES, options=FULL_SPEED) as cluster,
            gateway("--source", "log", "--log-dir", str(long_log)) as server,
            session(Path(scratch), jars) as spark,
        ):
            serving.fill(cluster, batches)
            return list(
                _rows(_measured(spark, _ways(spark, server.bootstrap, cluster.bootstrap), _ROUNDS))
            )


@contextmanager
def session(scratch: Path, jars: str = "") -> Iterator[SparkSession]:
    """Yield a session on two cores whose Python workers import from this checkout."""
    from pyspark.sql import SparkSession

    path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1", PYTHONPATH=path)
    settings: dict[str, bool | float | int | str | None] = {
        "spark.jars": jars,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("kwire bench")
        .config(map=settings)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def _ways(spark: SparkSession, own: str, kafkas: str) -> dict[str, Callable[[], DataFrame]]:
    from kwire.spark import decode, kafka_options, register
    from kwire.spark.arrow import DECODED, decode_batches

    register(spark)

    def stock(bootstrap: str, topic: str) -> DataFrame:
        options = kafka_options(bootstrap, topic=topic, by="assign", start=0, end=RECORDS)
        return (
            spark.read.format("kafka")
            .options(**options)
            .load()
            .select("offset", "timestamp", "value")
        )

    def alone() -> DataFrame:
        one_by_one = partial(decode_batches, keep=(), fail_fast=False, secrets=False, bulk=False)
        columns = ", ".join(f"`{name}` {kind}" for name, kind in DECODED.items())
        return stock(own, CLUSTER_METADATA_TOPIC).mapInArrow(
            one_by_one, f"`offset` bigint, `timestamp` timestamp, {columns}"
        )

    return {
        STOCK: lambda: stock(own, CLUSTER_METADATA_TOPIC),
        KAFKA: lambda: stock(kafkas, serving.TOPIC),
        BULK: lambda: decode(stock(own, CLUSTER_METADATA_TOPIC)),
        SOURCE: lambda: (
            spark.read.format("kwire")
            .options(**{"bootstrap.servers": own})
            .option("endingOffsets", RECORDS)
            .load()
        ),
        ALONE: alone,
    }


def _measured(
    spark: SparkSession, ways: dict[str, Callable[[], DataFrame]], rounds: int
) -> dict[str, Passes]:
    """Run every reader ``rounds`` times, in turns; each round begins with another reader. Each
    reader first counts the records once, which warms it up.
    """
    for name, way in ways.items():
        df = way()
        errors = "count(error)" if "error" in df.columns else "0L"
        counted = df.selectExpr("count(offset)", errors).first()
        if counted is None or tuple(counted) != (RECORDS, 0):
            raise AssertionError(f"{name}: {counted} records and errors, not {RECORDS} and none")
    passes = {name: Passes() for name in ways}
    names = list(ways)
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            if name == ALONE and turn > rounds // 3:
                continue  # takes so long that the noise is small
            df, before, began = ways[name](), tree_cpu_seconds(spark), time.perf_counter()
            df.write.format("noop").mode("overwrite").save()
            passes[name].wall.append(time.perf_counter() - began)
            passes[name].cpu.append(tree_cpu_seconds(spark) - before)
    return passes


def _rows(passes: dict[str, Passes]) -> Iterator[dict[str, Any]]:
    yield _compared(passes, STOCK, KAFKA, 1.0, peer=f"Kafka {KAFKA_VERSION}")
    yield _compared(passes, BULK, ALONE, 2.0, peer="one by one")
    yield _compared(passes, SOURCE, BULK, 1.0, peer=BULK)
    for name, one in passes.items():
        yield {
            "what": f"{name}, CPU for {RECORDS:,} records",
            "unit": "s",
            "kwire": statistics.median(one.cpu),
            "notes": (
                f"{RECORDS / statistics.median(one.wall):,.0f} records/s, the median of"
                f" {len(one.wall)} passes"
            ),
        }


def _compared(
    passes: dict[str, Passes], way: str, other: str, bar: float, peer: str
) -> dict[str, Any]:
    ratios = [b / a for a, b in zip(passes[way].wall, passes[other].wall, strict=False)]
    rates = [RECORDS / statistics.median(passes[name].wall) for name in (way, other)]
    return {
        "what": f"{way}, {RECORDS:,} records",
        "unit": "records/s",
        "kwire": rates[0],
        "peer": peer,
        "peer_value": rates[1],
        "ratio": statistics.median(ratios),
        "bar": bar,
        "notes": f"median of {len(ratios)} turns",
    }


def tree_cpu_seconds(spark: SparkSession) -> float:
    """Processor seconds of this process and of the JVM with its children, ended ones included."""
    stats = _stats()
    times = os.times()
    java: Any = spark.sparkContext._gateway
    total, tree = times.user + times.system, [java.proc.pid]
    while tree:
        pid = tree.pop()
        tree += [child for child, (parent, _) in stats.items() if parent == pid]
        total += stats[pid][1] / _TICKS if pid in stats else 0
    return total


def _stats() -> dict[int, tuple[int, int]]:
    """Return for each process its parent, and the processor ticks of it and of its ended children
    (``proc(5)``).
    """
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields: Sequence[str] = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        found[int(path.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    return found
