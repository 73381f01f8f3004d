"""Requests of producers and consumers to a broker, and a broker for them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kwire.records import Record, decode_batches, encode_batch
from tests.gateway.controller.cluster import create
from tests.hostile.bystander import wait_until_ready
from tests.waiting import until
from tools.kafka_files import Node
from tools.own_quorum import OwnCluster, own_quorum
from tools.wire_client import WireClient

PRODUCE_VERSION, FETCH_VERSION = 9, 11


@contextlib.contextmanager
def broker(
    *topics: str, before: Sequence[str] = (), properties: Mapping[str, str] | None = None
) -> Iterator[tuple[OwnCluster, Node]]:
    """A broker with topics of one partition, each of which has the record ``first``."""
    given = {
        "process.roles": "broker,controller",
        "management.listener": "127.0.0.1:0",
        **(properties or {}),
    }
    with own_quorum(1, properties=given, before=before) as cluster:
        (node,) = cluster.nodes
        cluster.wait_for_leader()
        wait_until_ready(node)
        with WireClient(node.broker_address) as client:
            for topic in topics:
                client.call(create({"name": topic}), 7)
                until(
                    lambda topic=topic: produced(client, topic, batch(b"first")),  # type: ignore[misc]
                    f"{topic} takes a record",
                    lambda error: error == 0,
                )
        yield cluster, node


def batch(*values: bytes, **header: Any) -> bytes:
    """A batch of records."""
    records = [Record(offset=n, timestamp=-1, value=value) for n, value in enumerate(values)]
    return encode_batch(records, **header)


def produce(topic: str, records: bytes, *, timeout_ms: int = 30_000) -> ProduceRequest:
    partition = PartitionProduceData(index=0, records=records)
    return ProduceRequest(
        acks=1,
        timeout_ms=timeout_ms,
        topic_data=[TopicProduceData(name=topic, partition_data=[partition])],
    )


def produced(client: WireClient, topic: str, records: bytes, *, timeout_ms: int = 30_000) -> int:
    """The error of a batch."""
    answer = client.call(produce(topic, records, timeout_ms=timeout_ms), PRODUCE_VERSION)
    return int(answer.responses[0].partition_responses[0].error_code)


def fetched(client: WireClient, topic: str) -> list[bytes | None]:
    """The values of the first records."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    asked = FetchRequest(
        max_bytes=1 << 20, topics=[FetchTopic(topic=topic, partitions=[partition])]
    )
    found = client.call(asked, FETCH_VERSION).responses[0].partitions[0]
    assert found.error_code == 0
    return [record.value for one in decode_batches(found.records) for record in one.records]
