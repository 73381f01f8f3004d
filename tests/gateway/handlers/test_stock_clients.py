"""Stock clients against the handlers alone: they read every record, follow new ones, and get the
reason for refused writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.errors import KafkaError

from kwire.records import decode_batches
from tests.gateway.handlers.mini_server import MiniServer, serving
from tests.gateway.handlers.world import CLUSTER_ID, NODE

PARTITION = TopicPartition("__cluster_metadata", 0)


@pytest.fixture
def server() -> Iterator[MiniServer]:
    with serving() as server:
        yield server


def data_records(server: MiniServer) -> list[tuple[int, bytes]]:
    """Offset and value of every record but control records, which clients do not return."""
    whole = b"".join(batch.data for batch in server.partition.batches)
    batches = [batch for batch in decode_batches(whole) if not batch.header.is_control]
    return [
        (record.offset, bytes(record.value or b"")) for batch in batches for record in batch.records
    ]


def read_all(consumer: Any, end: int) -> list[tuple[int, bytes]]:
    found = []
    while consumer.position(PARTITION) < end:
        found += [(r.offset, r.value) for r in consumer.poll(timeout_ms=500).get(PARTITION, ())]
    return found


@pytest.mark.parametrize("limit", [1 << 20, 100])
def test_kafka_python_reads_every_record(server: MiniServer, limit: int) -> None:
    consumer = KafkaConsumer(
        bootstrap_servers=f"127.0.0.1:{server.port}",
        group_id=None,
        max_partition_fetch_bytes=limit,
        fetch_max_wait_ms=50,
    )
    try:
        consumer.assign([PARTITION])
        consumer.seek_to_beginning(PARTITION)
        assert consumer.topics() == {"__cluster_metadata"}
        assert read_all(consumer, server.partition.high_watermark) == data_records(server)
    finally:
        consumer.close()


def test_confluent_kafka_reads_every_record(server: MiniServer) -> None:
    confluent = pytest.importorskip(
        "confluent_kafka", reason="confluent-kafka is not installed (the test extra)"
    )
    consumer = confluent.Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{server.port}",
            "group.id": "unused",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        assert list(consumer.list_topics(timeout=30).topics) == ["__cluster_metadata"]
        consumer.assign([confluent.TopicPartition("__cluster_metadata", 0, 0)])
        found = []
        while True:
            message = consumer.poll(10)
            assert message is not None, "neither a record nor the end in 10 s"
            if message.error():
                assert message.error().code() == confluent.KafkaError._PARTITION_EOF, (
                    message.error()
                )
                break
            found.append((message.offset(), message.value()))
        assert found == data_records(server)
    finally:
        consumer.close()


def test_admin_client_describes_the_cluster_and_cannot_change_it(server: MiniServer) -> None:
    admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{server.port}")
    try:
        cluster = admin.describe_cluster()
        assert (cluster["cluster_id"], cluster["controller_id"]) == (CLUSTER_ID, NODE)
        assert admin.list_topics() == ["__cluster_metadata"]
        resource = ConfigResource(ConfigResourceType.TOPIC, "__cluster_metadata")
        assert "cleanup.policy" in str(admin.describe_configs([resource], config_filter="all"))
        with pytest.raises(KafkaError, match=r"(?i)policy"):
            admin.create_topics([NewTopic("orders", 1, 1)])
    finally:
        admin.close()


@pytest.mark.parametrize(
    ("idempotent", "error"),
    [(True, "ClusterAuthorizationFailed"), (False, "TopicAuthorizationFailed")],
)
def test_a_producer_fails_at_once(server: MiniServer, idempotent: bool, error: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=f"127.0.0.1:{server.port}",
        enable_idempotence=idempotent,
        delivery_timeout_ms=15_000,
        request_timeout_ms=10_000,
    )
    try:
        with pytest.raises(KafkaError, match=error):
            producer.send("__cluster_metadata", b"x", partition=0).get(timeout=10)
    finally:
        producer.close(timeout=1)
