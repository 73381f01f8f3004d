"""Measures how soon a topic that Kafka creates is in the table of topics, behind a gateway that
observes the quorum.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if os.environ.get("KWIRE_INTEROP") != "require":
    pytest.importorskip("pyspark", reason="PySpark is not installed (the extra 'spark' has it)")

from kwire.protocol import CLUSTER_METADATA_TOPIC
from kwire.spark import follow, kafka_options, read_table, register
from kwire.spark.table.store import Store
from tests.interop.quorum import QUICK_ELECTIONS, need_kafka, observing
from tests.kwire.spark.session import spark_session
from tests.speed import note
from tests.waiting import until
from tools.gateway_process import Gateway, gateway
from tools.kafka import Cluster, kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TOPICS = 4


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Gateway]]:
    need_kafka()
    data_dir = tmp_path_factory.mktemp("observer") / "data"
    with (
        kafka(
            brokers=1,
            controllers=1,
            properties=QUICK_ELECTIONS,
        ) as cluster,
        gateway(*observing(cluster, data_dir)) as server,
    ):
        yield cluster, server


@dataclass
class Sighting:
    """Seconds since 1970 at which Kafka had acknowledged a topic and at which the table had it,
    and its offset.
    """

    name: str
    answered: float
    offset: int
    seen: float


def stream(spark: SparkSession, source: str, bootstrap: str) -> Any:
    if source == "kafka":
        options = kafka_options(bootstrap, by="assign", start="earliest")
    else:
        register(spark)
        options = {"bootstrap.servers": bootstrap, "startingOffsets": "earliest", "keep": "value"}
    return spark.readStream.format(source).options(**options).load()


@contextmanager
def following(
    spark: SparkSession, source: str, bootstrap: str, path: str
) -> Iterator[StreamingQuery]:
    """Tables with a trigger of one second that have caught up, after their first micro-batches."""
    query = follow(spark, stream(spark, source, bootstrap), path)
    try:
        # An idle Kafka writes two records a second, so that there is something for each trigger.
        until(
            lambda: len(query.recentProgress) >= 3 and _commits(path) >= 3,
            "three micro-batches",
        )
        yield query
    finally:
        query.stop()


def _commits(path: str) -> int:
    return Store(path).manifest.commit


def create(cluster: Cluster, path: str, name: str) -> Sighting:
    from kafka import KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        admin.create_topics({name: {"num_partitions": 1, "replication_factor": 1}})
        answered = time.time()
    finally:
        admin.close()
    until(lambda: name in _offsets(path), f"{name} in the table")
    return Sighting(name, answered, _offsets(path)[name], time.time())


def _offsets(path: str) -> dict[str, int]:
    """Names and offsets of the current table of topics, from its file: without what a query of
    Spark's would take.
    """
    import pyarrow.parquet as pq

    layers = Store(path).manifest.current.get("topic", [])
    files = Store(path).paths(layer.file for layer in layers)
    found = [pq.read_table(file, columns=["name", "validFromOffset"]).to_pylist() for file in files]
    return {row["name"]: row["validFromOffset"] for rows in found for row in rows}


def after_trigger(query: StreamingQuery, sighting: Sighting) -> float:
    """Seconds from the trigger of the micro-batch that brought the topic until it was seen."""
    brought = next(one for one in query.recentProgress if _end(one) > sighting.offset)
    return (
        sighting.seen
        - datetime.fromisoformat(brought["timestamp"].replace("Z", "+00:00")).timestamp()
    )


def _end(progress: Any) -> int:
    """The offset after a micro-batch's last one, for either source."""
    end = progress["sources"][0]["endOffset"]
    end = json.loads(end) if isinstance(end, str) else end
    return int(end["offset"] if "offset" in end else end[CLUSTER_METADATA_TOPIC]["0"])


@pytest.mark.parametrize("source", ["kwire", "kafka"])
def test_created_topic_is_in_the_table_after_the_next_trigger(
    live: tuple[Cluster, Gateway], source: str, tmp_path: Path
) -> None:
    """Measured twice: from the trigger of the micro-batch that brought the topic, and from Kafka's
    answer, up to a second before.

    The time ends when a reader finds the topic in the file of the table.
    """
    spark = spark_session(kafka=source == "kafka")
    cluster, server = live
    path = str(tmp_path / "tables")
    with following(spark, source, server.bootstrap, path) as query:
        sightings = []
        for number in range(TOPICS):
            sightings.append(create(cluster, path, f"{source}-{number}"))
            time.sleep(0.13 * number)  # somewhere else between two triggers each time
        until(
            lambda: _end(query.lastProgress) > sightings[-1].offset,
            "the report of the last topic's micro-batch",
        )
        waits = [after_trigger(query, one) for one in sightings]
    whole = [one.seen - one.answered for one in sightings]
    note("a topic, from the trigger to the table, median", statistics.median(waits), usual_s=0.7)
    note("a topic, from Kafka's answer to the table, median", statistics.median(whole), usual_s=1.3)
    assert {one.name for one in sightings} <= {
        row.name for row in read_table(spark, path, "topics").collect()
    }
