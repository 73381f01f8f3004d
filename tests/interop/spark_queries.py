"""Queries on Spark's Kafka source, and a sink that keeps each micro-batch. It knows no server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.protocol import CLUSTER_METADATA_TOPIC
from tests.interop.reading import Record

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def batch(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    return spark.read.format("kafka").options(**options).load()


def stream(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    return spark.readStream.format("kafka").options(**options).load()


def records(df: DataFrame) -> list[Record]:
    """The rows of a DataFrame of the Kafka source, ordered by offset, because Spark may return
    them in any order.
    """
    rows = df.selectExpr(
        "offset", "unix_millis(timestamp)", "key", "value", "topic", "partition"
    ).collect()
    assert {(row[4], row[5]) for row in rows} <= {(CLUSTER_METADATA_TOPIC, 0)}
    return sorted(Record(row[0], row[1], _bytes(row[2]), _bytes(row[3])) for row in rows)


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


@dataclass
class Sink:
    """Collects micro-batches. A repeated micro-batch replaces the first, as in an idempotent
    sink.
    """

    batches: dict[int, list[Record]] = field(default_factory=dict)

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        self.batches[batch_id] = records(df)

    def records(self) -> list[Record]:
        return [record for _, found in sorted(self.batches.items()) for record in found]


@dataclass
class CutOff(Sink):
    """Takes ``good`` micro-batches and fails with the next, as a crash between reading and
    committing would.
    """

    good: int = 0

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        if len(self.batches) == self.good:
            raise RuntimeError("cut off here")
        super().__call__(df, batch_id)


def run_to_the_end(df: DataFrame, checkpoint: Path, sink: Sink | None = None) -> Sink:
    """An AvailableNow query: reads the records that exist when it starts, in several
    micro-batches, and ends.
    """
    sink = sink or Sink()
    query = (
        df.writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
    )
    assert query.start().awaitTermination(120), "the query did not end within two minutes"
    return sink


@contextmanager
def following(df: DataFrame, checkpoint: Path) -> Iterator[Sink]:
    """A query that looks for new records every 200 ms, until the end of the block."""
    sink = Sink()
    writer = df.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(processingTime="200 milliseconds").start()
    try:
        yield sink
        assert query.exception() is None
    finally:
        query.stop()
