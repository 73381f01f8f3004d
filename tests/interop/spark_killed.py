"""Runs a driver that builds tables from streams, as a process that tests kill (-9) and restart.
It asserts nothing.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.spark import follow, kafka_options, register
from kwire.spark.table.store import Store
from tests.waiting import until
from tools import spark_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ROOT = Path(__file__).resolve().parent.parent.parent

_DRIVER = """
import json, sys
from pyspark.sql import SparkSession
from tests.interop.spark_killed import Query
given = json.loads(sys.argv[1])
spark = SparkSession.builder.master("local[2]").config(map=given["settings"]).getOrCreate()
spark.sparkContext.setLogLevel("OFF")
queries = [Query(**one).start(spark) for one in given["queries"]]
print("begin", flush=True)
# A query that fails ends the driver at once, whichever it is.
while any(query.isActive for query in queries):
    spark.streams.awaitAnyTermination(1)
    for query in queries:
        if query.exception() is not None:
            raise query.exception()
print("end", flush=True)
"""


@dataclass(frozen=True)
class Query:
    """One AvailableNow query into tables at ``path``, in micro-batches of ``batch`` offsets."""

    source: str
    bootstrap: str
    path: str
    batch: int

    @property
    def next_offset(self) -> int:
        """The offset that its tables have reached."""
        return Store(self.path).manifest.next_offset

    def start(self, spark: SparkSession) -> StreamingQuery:
        """The query in a session, running; it goes on where one before was killed."""
        if self.source == "kafka":
            options = kafka_options(
                self.bootstrap, by="assign", start="earliest", max_offsets_per_trigger=self.batch
            )
        else:
            register(spark)
            options = {
                "bootstrap.servers": self.bootstrap,
                "startingOffsets": "earliest",
                "keep": "value",
                "maxOffsetsPerTrigger": str(self.batch),
            }
        df = spark.readStream.format(self.source).options(**options).load()
        return follow(spark, df, self.path, trigger={"availableNow": True})


@dataclass(frozen=True)
class Driver:
    """The process; its errors go to ``said``."""

    process: subprocess.Popen[str]
    said: Path

    def line(self) -> str:
        """The next line of its output: ``begin`` when its queries run, ``end`` when they have
        ended.
        """
        assert self.process.stdout is not None
        return (
            self.process.stdout.readline().strip()
            or self.said.read_text(errors="replace")[-20_000:]
        )

    def run_until(self, true: Callable[[], bool], what: str) -> None:
        """Return when ``true``. Fails with the driver's errors where it ends first."""

        def reached() -> bool:
            if self.process.poll() is not None:
                said = self.said.read_text(errors="replace")[-20_000:]
                pytest.fail(f"{what}: the driver has ended\n{said}")
            return true()

        until(reached, what)


@contextmanager
def driver(queries: Sequence[Query], into: Path, settings: Mapping[str, str]) -> Iterator[Driver]:
    """A running driver in a process group of its own; killed with its JVM at the end of the
    block.
    """
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "1",
        **spark_home.FEW_ROWS,
        "spark.driver.extraJavaOptions": spark_home.driver_options(),
        **settings,
    }
    environment = {
        **os.environ,
        **spark_home.environment(),
        "PYTHONPATH": str(ROOT),
    }
    given = json.dumps({"settings": settings, "queries": list(map(asdict, queries))})
    with (into / "said").open("a") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", _DRIVER, given],
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
            env=environment,
            start_new_session=True,
        )
        try:
            yield Driver(process, into / "said")
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
