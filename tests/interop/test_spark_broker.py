"""Spark's Kafka sink and source on topics of the broker, as on Kafka's: batches, and a stream that
copies a topic and goes on from its checkpoint after a kill of the broker.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if os.environ.get("KWIRE_INTEROP") != "require":
    pytest.importorskip("pyspark", reason="PySpark is not installed (the extra 'spark' has it)")

from tests.interop.clients import need_clients
from tests.kwire.spark.session import spark_session
from tests.waiting import PATIENCE_S
from tools.gateway_process import Gateway, launch, wait_until_ready
from tools.kafka import kafka
from tools.process import lasting_ports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

_COUNT = 1000


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    need_clients()
    return spark_session(kafka=True)


def start(directory: Path, ports: list[int]) -> Gateway:
    client, controller = ports
    listeners = f"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}"
    scratch = directory / f"start-{time.monotonic_ns()}"
    scratch.mkdir()
    process = launch(scratch, "--data-dir", str(directory / "data"), "--listeners", listeners)
    return wait_until_ready(process, PATIENCE_S, time.monotonic())


def create(bootstrap: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(name, 3, 1) for name in ("in", "out")]).values():
        made.result(PATIENCE_S)


def write(spark: SparkSession, bootstrap: str, first: int) -> None:
    """Write numbers with keys and a header, as a batch."""
    rows = spark.range(first, first + _COUNT).selectExpr(
        "CAST(id % 10 AS STRING) AS key",
        "CAST(id AS STRING) AS value",
        "array(struct('origin' AS key, CAST('spark' AS BINARY) AS value)) AS headers",
    )
    rows.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).option(
        "topic", "in"
    ).option("includeHeaders", "true").save()


def copy(spark: SparkSession, bootstrap: str, checkpoint: Path) -> None:
    """Copy what is in one topic and not in the other yet, as a stream."""
    rows = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", "in")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(_COUNT // 3))
        .option("kafka.isolation.level", "read_committed")
        .load()
    )
    query = (
        rows.select("key", "value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", "out")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def read(spark: SparkSession, bootstrap: str, topic: str) -> list[tuple[Any, ...]]:
    """(partition, offset, key, value, headers) of each record, as a batch."""
    rows = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("includeHeaders", "true")
        .load()
        .collect()
    )
    return sorted(
        (
            row.partition,
            row.offset,
            bytes(row.key),
            bytes(row.value),
            tuple((one.key, bytes(one.value)) for one in row.headers or ()),
        )
        for row in rows
    )


def on_kafka(spark: SparkSession, scratch: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return the records of Kafka's topics after the same two batches and copies."""
    with kafka() as cluster:
        create(cluster.bootstrap)
        for first in (0, _COUNT):
            write(spark, cluster.bootstrap, first)
            copy(spark, cluster.bootstrap, scratch / "checkpoint-kafka")
        return {topic: read(spark, cluster.bootstrap, topic) for topic in ("in", "out")}


def places(records: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """(partition, key, value, headers): the order of tasks decides on offsets."""
    return sorted((partition, *more) for partition, _, *more in records)


def test_batches_and_a_stream_with_a_checkpoint_are_as_on_kafka(
    spark: SparkSession, tmp_path: Path
) -> None:
    ports = lasting_ports(2)
    server = start(tmp_path, ports)
    try:
        create(server.bootstrap)
        write(spark, server.bootstrap, 0)
        copy(spark, server.bootstrap, tmp_path / "checkpoint")
        assert len(read(spark, server.bootstrap, "out")) == _COUNT
        write(spark, server.bootstrap, _COUNT)
        server.process.kill()
        server = start(tmp_path, ports)
        copy(spark, server.bootstrap, tmp_path / "checkpoint")
        found = {topic: read(spark, server.bootstrap, topic) for topic in ("in", "out")}
    finally:
        server.process.kill()
    for topic, records in on_kafka(spark, tmp_path).items():
        assert places(found[topic]) == places(records)
        assert [row[:2] for row in found[topic]] == [row[:2] for row in records]
    assert {int(row[3]) for row in found["out"]} == set(range(2 * _COUNT))
    assert {row[4] for row in found["in"]} == {(("origin", b"spark"),)}
