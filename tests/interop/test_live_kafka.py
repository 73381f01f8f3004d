"""A server follows the metadata directory of a running Kafka: a topic created there is served."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kwire.protocol import CLUSTER_METADATA_TOPIC
from tests.interop.clients import ASSIGN, WAYS, need_java
from tests.interop.quorum import offsets_of
from tests.interop.reading import Reader
from tests.speed import measured
from tests.waiting import until
from tools import java, java_tools
from tools.gateway_process import Gateway, gateway
from tools.kafka import Cluster, kafka


@pytest.fixture(scope="module")
def live() -> Iterator[tuple[Cluster, Gateway]]:
    need_java()
    with (
        kafka() as cluster,
        gateway("--source", "log", "--log-dir", str(cluster.nodes[0].log_dir)) as server,
    ):
        yield cluster, server


@contextmanager
def following(client: str, server: Gateway) -> Iterator[Reader]:
    """A reader of the metadata topic that has caught up."""
    way = next(way for way in WAYS if (way.reader.client, way.mode) == (client, ASSIGN))
    reader = way.on(server.bootstrap, CLUSTER_METADATA_TOPIC)
    reader.start()
    try:
        _, end = offsets_of(server.bootstrap)
        until(lambda: reader.records[-1].offset >= end - 1, "the reader has caught up")
        yield reader
    finally:
        reader.stop()


@pytest.mark.parametrize("client", ["kafka-python", "confluent-kafka", "aiokafka"])
def test_created_topic_is_served_to_a_reader_of_the_log(
    live: tuple[Cluster, Gateway], client: str
) -> None:
    from kafka import KafkaAdminClient

    cluster, server = live
    topic = f"seen-by-{client}"
    with following(client, server) as reader:
        admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
        admin.create_topics({topic: {"num_partitions": 3, "replication_factor": 1}})
        with measured("a topic, from Kafka's answer to its record at the reader", usual_s=0.3):
            until(
                lambda: any(topic.encode() in (record.value or b"") for record in reader.records),
                f"{client} sees a record of {topic}",
            )
        admin.close()


def test_served_records_are_those_that_kafka_wrote(live: tuple[Cluster, Gateway]) -> None:
    """kafka-dump-log of the running broker's segment and our clients name the same offsets and
    sizes.
    """
    cluster, server = live
    with following("kafka-python", server) as reader:
        segment = cluster.nodes[0].metadata_log_dir / "00000000000000000000.log"
        dump = java_tools.run_tool(
            java.DUMP_LOG_SEGMENTS, ["--files", str(segment), "--cluster-metadata-decoder"]
        )
    dumped = {
        int(line.split("offset: ")[1].split()[0]): int(line.split("valueSize: ")[1].split()[0])
        for line in dump.splitlines()
        if line.startswith("| offset:") and "payload:" in line
    }
    seen = {record.offset: len(record.value or b"") for record in reader.records}
    assert len(dumped) > 10
    common = dumped.keys() & seen.keys()
    assert max(common) >= max(dumped) - 10, "the reader is far behind the file"
    assert {offset: dumped[offset] for offset in common} == {
        offset: seen[offset] for offset in common
    }
    assert {offset for offset in dumped if offset <= max(seen)} == common


def test_kafkas_own_tools_see_the_topic(live: tuple[Cluster, Gateway]) -> None:
    cluster, server = live
    described = java_tools.run_tool(
        java.TOPICS, ["--bootstrap-server", server.bootstrap, "--describe"]
    )
    assert CLUSTER_METADATA_TOPIC in described
    status = java_tools.run_tool(
        java.METADATA_QUORUM, ["--bootstrap-server", server.bootstrap, "describe", "--status"]
    )
    assert cluster.cluster_id in status
