"""Stock admin clients change a quorum of one, and stock consumers and Spark read the changes."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kwire.protocol import CLUSTER_METADATA_TOPIC
from tests.interop.clients import ASSIGN, WAYS, Way, missing, need_clients
from tests.interop.conftest import FIGURES, READ
from tests.interop.own import create_by_java, in_files, topics_in
from tests.interop.quorum import offsets_of, wait_for_end
from tests.interop.reading import Record, digest, first_difference
from tests.waiting import PATIENCE_S
from tools import java, java_tools
from tools.gateway_process import gateway
from tools.own_quorum import OwnCluster, own_quorum


@pytest.fixture(scope="module")
def one() -> Iterator[OwnCluster]:
    """A quorum of one, after each stock admin client has created a topic."""
    need_clients()
    with own_quorum(1) as cluster:
        for create in (by_kafka_python, by_confluent_kafka, create_by_java):
            create(cluster.bootstrap, create.__name__)
        yield cluster


def by_kafka_python(bootstrap: str, topic: str) -> None:
    from kafka.admin import KafkaAdminClient, NewTopic

    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        admin.create_topics([NewTopic(name=topic, num_partitions=2, replication_factor=1)])
        assert topic in admin.list_topics()
    finally:
        admin.close()


def by_confluent_kafka(bootstrap: str, topic: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1)])[topic].result(10)
    assert topic in admin.list_topics(timeout=PATIENCE_S).topics


def test_quorum_of_one_is_ready_from_nothing(tmp_path: Path) -> None:
    """At the ready line the directory is formatted, the leader elected, the bootstrap records are
    committed, and clients are served. ``tools.bench commit`` has the bar for the time.
    """
    with gateway("--data-dir", str(tmp_path / "data")) as server:
        assert server.ready["source"] == "own"
        wait_for_end(server.bootstrap, 2)
    FIGURES.append(f"start of a fresh quorum of one to its ready line: {server.started_in_s:.3f} s")


@pytest.mark.parametrize(
    "create",
    [by_kafka_python, by_confluent_kafka, create_by_java],
    ids=lambda create: create.__name__,
)
def test_stock_admin_clients_create_topics(one: OwnCluster, create: Any) -> None:
    described = java_tools.run_tool(
        java.TOPICS, ["--bootstrap-server", one.bootstrap, "--describe", "--topic", create.__name__]
    )
    assert "PartitionCount: 2" in described.replace("\t", " "), described
    assert create.__name__ in topics_in(
        read_with(next(way for way in WAYS if way.mode == ASSIGN), one)
    )


@pytest.mark.parametrize("way", [way for way in WAYS if way.mode == ASSIGN], ids=str)
def test_stock_consumers_read_the_records(one: OwnCluster, way: Way) -> None:
    """A consumer gets the data records of the node's files, all of them and no others."""
    seen = read_with(way, one)
    end = seen[-1].offset + 1
    assert not first_difference(seen, in_files(one.nodes[0], end))
    assert topics_in(seen) >= {"by_kafka_python", "by_confluent_kafka", "create_by_java"}
    READ.append(("own quorum", str(way), len(seen), digest(seen)))


def test_spark_reads_the_records(one: OwnCluster) -> None:
    if importlib.util.find_spec("pyspark") is None:
        missing("PySpark is not installed (the extra 'spark' has it)")
    from kwire.spark import kafka_options
    from tests.interop.spark_queries import batch, records
    from tests.kwire.spark.session import spark_session

    seen = records(
        batch(
            spark_session(kafka=True),
            kafka_options(one.bootstrap, by="assign", topic=CLUSTER_METADATA_TOPIC),
        )
    )
    end = seen[-1].offset + 1
    assert not first_difference(seen, in_files(one.nodes[0], end))
    READ.append(("own quorum", "spark-batch", len(seen), digest(seen)))


def read_with(way: Way, cluster: OwnCluster) -> list[Record]:
    """The records that one client reads of the node, up to its current end."""
    _, end = offsets_of(cluster.bootstrap)
    count = len(in_files(cluster.nodes[0], end))
    reader = way.on(cluster.bootstrap, CLUSTER_METADATA_TOPIC)
    reader.start()
    reader.read_until(count)
    reader.stop()
    return reader.records[:count]
